"""How an incident's recovery stands, phase by phase, with its timers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Table as RichTable

from pipelines.cli.output import moment, table
from pipelines.recovery.phases import Phase, phases
from pipelines.wording import stands
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


def phases_table(incident: Incident, records: Sequence[ActionRecord], now: datetime) -> RichTable | None:
    """None when no action has a deadline or waits for another. A rehearsal takes no time, whenever it was entered."""
    words = {record.request.id: stands(record) for record in records}
    rows = [
        (
            one.kind, one.target, moment(one.begins_at), moment(one.deadline_at),
            *(("", "") if one.outcome == "dry-run" else (moment(one.ended_at), _took(one))),
            f"{words[one.action]}{', late' if one.late else ''}",
        )
        for one in _phases(incident, records, now)
    ]  # fmt: skip
    columns = ("phase", "target", "begins", "deadline", "ended", "took", "outcome")
    return table("Phases (UTC)", columns, rows) if rows else None


def _took(phase: Phase) -> str:
    return "" if phase.seconds is None else f"{phase.seconds:.1f} s"


def _phases(incident: Incident, records: Sequence[ActionRecord], now: datetime) -> tuple[Phase, ...]:
    """In the order planned. What is over is judged at its end."""
    newest = max((record.at for record in records), default=now)
    ordered = sorted(records, key=lambda record: record.at)
    return phases(ordered, now if incident.ends_at is None else max(incident.ends_at, newest))
