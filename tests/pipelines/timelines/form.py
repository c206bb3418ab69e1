"""The form of a scenario's timeline: what is told at which second, what is asked for and by when, and how it ends.

Seconds count from the start of the scenario; deadlines from the request, which comes with the incident's detection. A
timeline is whole: what it does not name must not happen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipelines.stream import Tally
from replay.scenario import Scenario
from schemas.action import ActionKind, ActionRecord, Outcome
from schemas.incident import Incident


@dataclass(frozen=True)
class At:
    seconds: float

    def holds(self, second: float) -> bool:
        return second == self.seconds

    def __str__(self) -> str:
        return f"at {self.seconds:g} s"


@dataclass(frozen=True)
class Between:
    first: float
    last: float

    def holds(self, second: float) -> bool:
        return self.first <= second <= self.last

    def __str__(self) -> str:
        return f"between {self.first:g} and {self.last:g} s"


When = At | Between


@dataclass(frozen=True)
class Do:
    """An action. by: seconds after its request by which its phase is to be over, as the deadlines of the phases before
    it and its own add up; None where nothing waits for it. asked: seconds from detection to the request.
    """

    kind: ActionKind
    target: str
    by: float | When | None = None
    outcome: Outcome = "dry-run"
    asked: When = At(0)


@dataclass(frozen=True)
class Told:
    """An incident. members: how many GPUs, None where that is no arithmetic. then: what is asked for, in this order.
    over: when it is said to have ended; None: it lasts.
    """

    when: When
    cause: str
    roots: tuple[str, ...]
    members: int | None
    then: tuple[Do, ...]
    over: When | None = None


Timeline = tuple[Told, ...]


def ticket(*roots: str) -> tuple[Do, ...]:
    return tuple(Do("open_ticket", root) for root in roots)


def replaced(*nodes: str, work: Sequence[Do] = ()) -> tuple[Do, ...]:
    """A dead GPU or node with a spare at hand: out and training again in 8 s (the bar of the reference cluster)."""
    return (
        *(Do("drain_node", node, by=1) for node in nodes),
        *(Do("pause_stage", node, by=2) for node in nodes),
        *(Do("allocate_spare", node, by=3) for node in nodes),
        *(Do("restore_shard", node, by=7) for node in nodes),
        *(Do("resume", node, by=8) for node in nodes),
        *work,
    )


def left_out(*nodes: str, work: Sequence[Do] = ()) -> tuple[Do, ...]:
    """The same where there is no spare: the job goes on without the node as soon as its stage is paused."""
    return (
        *(Do("drain_node", node, by=1) for node in nodes),
        *(Do("pause_stage", node, by=2) for node in nodes),
        *(Do("allocate_spare", node, by=3, outcome="refused") for node in nodes),
        *(Do("restore_shard", node, by=7, outcome="refused") for node in nodes),
        *(Do("resume", node, by=8, outcome="refused") for node in nodes),
        *work,
        *(Do("resume", node, by=3) for node in nodes),
    )


def refused(node: str, work: Do) -> tuple[Do, ...]:
    """The same where the budget of its superblock is used up: nothing is done without a person."""
    asked = left_out(node, work=[work])[:-1]
    return tuple(Do(do.kind, do.target, do.by, outcome="refused") for do in asked)


def deviations(timeline: Timeline, scenario: Scenario, fired: Sequence[Incident], tally: Tally) -> list[str]:
    """One line for everything that did not happen as it must, and for everything else that happened."""
    happened = sorted(fired, key=lambda one: (one.detected_at, one.cause, one.roots))
    lines = []
    if [(one.cause, one.roots) for one in happened] != [(one.cause, one.roots) for one in timeline]:
        return [f"told were {[(one.cause, one.roots) for one in happened]}"]
    for told, one in zip(timeline, happened, strict=True):
        mine = [record for record in tally.actions if record.request.incident == one.id]
        lines += [f"{told.cause} of {', '.join(told.roots)}: {line}" for line in _of(told, one, mine, scenario)]
    known = {one.id for one in happened}
    lines += [
        f"{record.request.kind} of {record.request.target} belongs to no incident"
        for record in tally.actions
        if record.request.incident not in known
    ]
    return lines


def _of(told: Told, one: Incident, records: Sequence[ActionRecord], scenario: Scenario) -> list[str]:
    lines = []
    if not told.when.holds(second := _second(one.detected_at, scenario)):
        lines.append(f"told at {second:g} s, not {told.when}")
    if told.members is not None and len(one.members) != told.members:
        lines.append(f"{len(one.members)} members, not {told.members}")
    ended = None if one.ends_at is None else _second(one.ends_at, scenario)
    if (told.over is None) != (ended is None) or (told.over and ended is not None and not told.over.holds(ended)):
        lines.append(f"over at {ended}, not {told.over}")
    asked = [(record.request.kind, record.request.target, record.outcome) for record in records]
    if asked != [(do.kind, do.target, do.outcome) for do in told.then]:
        return [*lines, f"asked for {asked}"]
    by_id = {record.request.id: record for record in records}
    for do, record in zip(told.then, records, strict=True):
        after = (record.request.requested_at - one.detected_at) / timedelta(seconds=1)
        if not do.asked.holds(after):
            lines.append(f"{do.kind} of {do.target} was asked for {after:g} s after detection, not {do.asked}")
        by = _deadline_seconds(record, by_id, record.request.requested_at)
        wanted = At(do.by) if isinstance(do.by, int | float) else do.by
        if (wanted is None) != (by is None) or (wanted is not None and by is not None and not wanted.holds(by)):
            lines.append(f"{do.kind} of {do.target} is due {by} s later, not {wanted}")
    return lines


def _second(moment: datetime, scenario: Scenario) -> float:
    return round((moment - scenario.starts_at) / timedelta(seconds=1), 3)


def _deadline_seconds(record: ActionRecord, by_id: dict[str, ActionRecord], asked_at: datetime) -> float | None:
    """By when the phase is over, if every phase before it takes all its time."""
    parameters = record.request.parameters
    if "deadline_at" in parameters:
        return round((datetime.fromisoformat(parameters["deadline_at"]) - asked_at) / timedelta(seconds=1), 3)
    if "within_seconds" not in parameters:
        return None
    before = by_id.get(str(parameters.get("after")))
    begins = 0.0 if before is None else _deadline_seconds(before, by_id, asked_at)
    if begins is None:
        return None
    return begins + float(parameters.get("settle_seconds", 0.0)) + float(parameters["within_seconds"])
