import numpy as np
import pytest

from replay.job import TrainingJob
from replay.scenario import JobPlan

PLAN = JobPlan(checkpoint_interval_seconds=100.0)
ALL = np.ones(16, dtype=np.bool_)


def run(seconds, alive_from=None, slow=None):
    """Step and stall of each second; from alive_from on rank 3 is gone; rank 5 is slow by that factor."""
    job = TrainingJob.running(PLAN, 1, ALL)
    slowdown = np.ones(16)
    if slow is not None:
        slowdown[5] = slow
    steps, activity, saved = [], [], 0
    for second in range(seconds):
        alive = ALL.copy()
        alive[3] = alive_from is None or second < alive_from
        saved += job.advance(float(second), alive, slowdown)
        steps.append(job.step)
        activity.append(job.activity(float(second)))
    return job, np.array(steps), np.array(activity), saved


def test_a_checkpoint_is_completed_every_interval():
    *_, saved = run(1000)
    assert saved == pytest.approx(10, abs=1)


def test_a_step_lasts_as_long_as_its_slowest_rank():
    job, *_ = run(300, slow=1.5)
    assert job.step_seconds == pytest.approx(1.5 * 4.0 + 0.8, rel=0.05)
    assert job.own_shares.argmax() == 5


def test_losing_a_rank_stalls_the_job_for_the_planned_time_and_no_longer():
    _, steps, activity, _ = run(60, alive_from=20)
    assert steps[20] == steps[27]
    assert (activity[20:28] < 0.5).all()
    assert steps[50] > steps[28]
    assert activity[29] == 1.0
