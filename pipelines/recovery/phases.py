"""Where an incident's recovery stands: every phase with its timer, derived from the ledger alone. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from schemas.action import ActionRecord, Outcome

OVER: tuple[Outcome, ...] = ("done", "dry-run", "failed", "rejected", "cancelled", "observed")


@dataclass(frozen=True)
class Phase:
    """begins_at: when the phase it waits for was done, plus that one's time to work; detection for the first; None
    while it waits. deadline_at: None when the phase has none or has not begun. ended_at: None while it runs. late:
    the deadline passed before the end, or before now; a rehearsal is never late, it follows the pace of its replay.
    """

    action: str
    kind: str
    target: str
    outcome: Outcome
    begins_at: datetime | None
    deadline_at: datetime | None
    ended_at: datetime | None
    late: bool

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it runs or has not begun."""
        if self.begins_at is None or self.ended_at is None:
            return None
        return max(0.0, (self.ended_at - self.begins_at).total_seconds())


def phases(records: Sequence[ActionRecord], now: datetime) -> tuple[Phase, ...]:
    """The phases of the actions that have a deadline or wait for others, in the order given."""
    by_id = {record.request.id: record for record in records}
    return tuple(
        _phase(record, by_id, now)
        for record in records
        if {"within_seconds", "after", "settle_seconds"} & set(record.request.parameters)
    )


def begins_at(record: ActionRecord, by_id: Mapping[str, ActionRecord]) -> datetime | None:
    """None while the phase waits for another one."""
    parameters = record.request.parameters
    after = parameters.get("after")
    if after is None:
        return record.request.requested_at
    steps = [by_id[name] for name in (str(after), str(parameters.get("or_after"))) if name in by_id]
    earlier = next((step for step in steps if step.outcome in ("done", "dry-run")), None)
    if earlier is None:
        return None
    since = parameters.get("lasts_since")
    ended = earlier.at if since is None else max(earlier.at, datetime.fromisoformat(since))
    return ended + timedelta(seconds=float(parameters.get("settle_seconds", 0.0)))


def deadline_at(record: ActionRecord, by_id: Mapping[str, ActionRecord]) -> datetime | None:
    """The phase's deadline, or the moment at which it no longer waits for people."""
    begins, within = begins_at(record, by_id), record.request.parameters.get("within_seconds")
    if begins is not None and within is not None:
        return begins + timedelta(seconds=float(within))
    said = record.request.parameters.get("deadline_at")
    return None if said is None else datetime.fromisoformat(said)


def _phase(record: ActionRecord, by_id: Mapping[str, ActionRecord], now: datetime) -> Phase:
    request = record.request
    deadline = deadline_at(record, by_id)
    ended = record.at if record.outcome in OVER else None
    return Phase(
        action=request.id, kind=request.kind, target=request.target, outcome=record.outcome,
        begins_at=begins_at(record, by_id), deadline_at=deadline, ended_at=ended,
        late=record.mode == "enforce" and deadline is not None and deadline < (ended or now),
    )  # fmt: skip
