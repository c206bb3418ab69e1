"""The training job: steps from barrier to barrier, checkpoints, and what a lost rank costs the others.

A step lasts as long as its slowest rank computes, plus communication. Between steps the job may stand still, for a
checkpoint or because ranks were lost; survivors then go on without the gradients of the lost ones.
"""

from dataclasses import dataclass, field

import numpy as np

from replay.randomness import Flags, Floats, generator
from replay.scenario import JobPlan

RANK_SPREAD = 0.015
STEP_SPREAD = 0.008


@dataclass(eq=False)
class TrainingJob:
    """Carried from second to second. Times are seconds since the scenario began.

    own_shares: (g,) seconds each rank computed in the last completed step.
    """

    plan: JobPlan
    seed: int
    members: Flags
    step: int = 0
    began: float = 0.0
    ends: float = 0.0
    step_seconds: float = 0.0
    own_shares: Floats = field(default_factory=lambda: np.zeros(0))
    checkpoint_step: int = 0
    checkpoint_time: float = 0.0
    checkpoint_due: float = 0.0
    stalled_from: float = -1.0
    stalled_until: float = -1.0
    saving: bool = False
    communication_factor: float = 1.0
    ended: bool = False
    _current: Floats = field(default_factory=lambda: np.zeros(0))
    _rank_factor: Floats = field(default_factory=lambda: np.zeros(0))
    _alive: int = 0
    _saves: list[tuple[float, int]] = field(default_factory=list)

    @classmethod
    def running(cls, plan: JobPlan, seed: int, members: Flags) -> "TrainingJob":
        """A job some thousand steps old, its newest checkpoint completed before the scenario began."""
        drawn = generator(seed, "job")
        job = cls(plan=plan, seed=seed, members=members, step=int(drawn.integers(20_000, 90_000)))
        age = float(drawn.uniform(0.2, 0.6)) * plan.checkpoint_interval_seconds
        job.checkpoint_time = -age
        job.checkpoint_due = plan.checkpoint_interval_seconds - age
        job._rank_factor = 1 + np.clip(drawn.normal(0, RANK_SPREAD, len(members)), -0.04, 0.04)
        job._alive = int(members.sum())
        job._begin(0.0, members, np.ones(len(members)))
        job.own_shares, job.step_seconds = job._current, job.ends
        job.checkpoint_step = job.step - int(age / job.step_seconds)
        return job

    def advance(  # noqa: PLR0913  # what can happen to a job, by keyword
        self,
        now: float,
        alive: Flags,
        slowdown: Floats,
        *,
        hung: bool = False,
        saves_fail: bool = False,
        communication_factor: float = 1.0,
    ) -> bool:
        """Bring the job to `now`: complete the steps that ended, begin the next ones. slowdown (g,): 1 = full speed.

        hung: a rank does not enter the collective, so the step does not end. saves_fail: checkpoints are begun and
        never completed. communication_factor: what collectives begun now take over the usual. With nobody alive the job
        has ended; it begins anew from its newest checkpoint. Returns whether a checkpoint was completed.
        """
        self.communication_factor = communication_factor
        before = self.checkpoint_time
        count = int(alive.sum())
        if not count:
            self.ended = True
            return False
        if self.ended:
            self._restart(now, alive, slowdown)
        elif count < self._alive:
            self._alive = count
            self._stall(now, self.plan.loss_stall_seconds, saving=False)
            self._begin(self.stalled_until, alive, slowdown)
        if hung:
            self.ends = max(self.ends, now + 1)
        while self.ends <= now:
            self.own_shares, self.step_seconds = self._current, self.ends - self.began
            self.step += 1
            begin = self.ends
            if begin >= self.checkpoint_due:
                self._stall(begin, self.plan.checkpoint_stall_seconds, saving=True)
                begin = self.stalled_until
                self.checkpoint_due += self.plan.checkpoint_interval_seconds
                if not saves_fail:
                    self._saves.append((begin, self.step))
            self._begin(begin, alive, slowdown)
        while self._saves and self._saves[0][0] <= now:
            self.checkpoint_time, self.checkpoint_step = self._saves.pop(0)
        return self.checkpoint_time != before

    def activity(self, now: float) -> float:
        """Share of full load in the second from `now`: a snapshot leaves a third, waiting in a collective 45 %."""
        stalled = max(0.0, min(now + 1, self.stalled_until) - max(now, self.stalled_from))
        return 1.0 - stalled * (0.67 if self.saving else 0.55)

    def _restart(self, now: float, alive: Flags, slowdown: Floats) -> None:
        """From the newest checkpoint, with the ranks that are there."""
        self.ended, self._alive, self.step = False, int(alive.sum()), self.checkpoint_step
        self._saves.clear()
        self.checkpoint_due = now + self.plan.checkpoint_interval_seconds
        self.stalled_from = self.stalled_until = now
        self._begin(now, alive, slowdown)

    def _begin(self, begin: float, alive: Flags, slowdown: Floats) -> None:
        """Draw the next step; one that is begun again keeps its draw."""
        noise = generator(self.seed, "step", self.step).standard_normal(len(alive))
        self._current = self.plan.compute_seconds * self._rank_factor * (1 + STEP_SPREAD * noise) * slowdown
        slowest = float(self._current[alive].max(initial=0.0))
        self.began, self.ends = begin, begin + slowest + self.plan.communication_seconds * self.communication_factor

    def _stall(self, begin: float, seconds: float, *, saving: bool) -> None:
        self.stalled_from, self.stalled_until, self.saving = begin, begin + seconds, saving
