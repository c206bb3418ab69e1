"""How findings, incidents and actions of a run look in the UI: numbers that plot, and the worst ten as a table."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from pipelines.stream import Tally
from pipelines.wording import some
from schemas.action import ActionRecord
from schemas.incident import Incident

SHOWN = 10
SEVERITIES = ("page", "ticket", "info")


def findings_metadata(tally: Tally, causes: Mapping[str, int]) -> dict[str, Any]:
    """causes: cause -> levels that began."""
    counted = [{"cause": cause, "findings": count} for cause, count in sorted(causes.items(), key=lambda one: -one[1])]
    return {
        "statements": tally.findings,
        "causes": len(causes),
        **{f"cause_{cause}": count for cause, count in causes.items()},
        **table("findings_by_cause", ("cause", "findings"), counted),
    }


def incidents_metadata(tally: Tally) -> dict[str, Any]:
    """Of the incidents that this run opened, changed or closed."""
    incidents = list(tally.incidents.values())
    by_state = Counter(incident.state for incident in incidents)
    worst = sorted(incidents, key=lambda one: (SEVERITIES.index(one.severity), -len(one.members), one.detected_at))
    return {
        "touched": len(incidents),
        "open": sum(count for state, count in by_state.items() if state != "resolved"),
        "resolved": by_state["resolved"],
        "gpus_hit": len(
            {member for incident in incidents if incident.state != "resolved" for member in incident.members}
        ),
        **table("worst", INCIDENT_COLUMNS, [incident_row(incident) for incident in worst[:SHOWN]]),
    }


INCIDENT_COLUMNS = ("id", "cause", "severity", "state", "root", "gpus", "began", "detected_after_seconds")


def incident_row(incident: Incident) -> dict[str, Any]:
    roots = some(incident.roots)
    return {
        "id": incident.id, "cause": incident.cause, "severity": incident.severity, "state": incident.state,
        "root": f"{incident.root_kind} {roots}", "gpus": len(incident.members),
        "began": f"{incident.starts_at:%Y-%m-%d %H:%M:%S}",
        "detected_after_seconds": round((incident.detected_at - incident.starts_at).total_seconds(), 1),
    }  # fmt: skip


def actions_metadata(tally: Tally) -> dict[str, Any]:
    by_outcome = Counter(record.outcome for record in tally.actions)
    return {
        "requested": len(tally.actions),
        **{f"outcome_{outcome}": count for outcome, count in sorted(by_outcome.items())},
        **table("latest", ACTION_COLUMNS, [action_row(record) for record in tally.actions[-SHOWN:]]),
    }


ACTION_COLUMNS = ("incident", "action", "target", "mode", "outcome", "why")


def action_row(record: ActionRecord) -> dict[str, Any]:
    request = record.request
    return {
        "incident": request.incident, "action": request.kind, "target": request.target, "mode": record.mode,
        "outcome": record.outcome, "why": record.why or request.reason,
    }  # fmt: skip


def table(name: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One table as metadata, or nothing when it has no rows."""
    records = [dg.TableRecord(dict(row)) for row in rows]
    if not records:
        return {}
    numbers = {column for column in columns if isinstance(records[0].data[column], int | float)}
    schema = dg.TableSchema([dg.TableColumn(column, "float" if column in numbers else "string") for column in columns])
    return {name: dg.MetadataValue.table(records, schema=schema)}
