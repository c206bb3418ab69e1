"""How an incident's recovery stands, phase by phase, with its timers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Table as RichTable

from pipelines.cli.output import moment, table
from pipelines.recovery.phases import Phase, phases
from schemas.action import ActionRecord
from schemas.incident import Incident


def phases_document(incident: Incident, records: Sequence[ActionRecord], now: datetime) -> list[dict[str, Any]]:
    return [
        {
            "action": one.action, "kind": one.kind, "target": one.target, "outcome": one.outcome,
            "begins_at": one.begins_at, "deadline_at": one.deadline_at, "ended_at": one.ended_at,
            "seconds": one.seconds, "late": one.late,
        }
        for one in _phases(incident, records, now)
    ]  # fmt: skip


def phases_table(incident: Incident, records: Sequence[ActionRecord], now: datetime) -> RichTable:
    rows = (
        (
            one.kind, one.target, moment(one.begins_at), moment(one.deadline_at), moment(one.ended_at),
            "" if one.seconds is None else f"{one.seconds:.1f} s", f"{one.outcome}{', late' if one.late else ''}",
        )
        for one in _phases(incident, records, now)
    )  # fmt: skip
    return table("Phases (UTC)", ("phase", "target", "begins", "deadline", "ended", "took", "outcome"), rows)


def _phases(incident: Incident, records: Sequence[ActionRecord], now: datetime) -> tuple[Phase, ...]:
    """In the order planned. What is over is judged at its end."""
    newest = max((record.at for record in records), default=now)
    ordered = sorted(records, key=lambda record: record.at)
    return phases(ordered, now if incident.ends_at is None else max(incident.ends_at, newest))
