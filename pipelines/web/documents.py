"""What the console answers programs: plain JSON values."""

from typing import Any

from pipelines.serve.service import Figures
from schemas.incident import Incident


def incident_document(incident: Incident) -> dict[str, Any]:
    """What a list shows of an incident; `hotspare incidents show` tells the rest."""
    return {
        "id": incident.id, "cause": incident.cause, "severity": incident.severity, "state": incident.state,
        "root": {"kind": incident.root_kind, "ids": list(incident.roots)}, "members": list(incident.members),
        "starts_at": incident.starts_at, "detected_at": incident.detected_at, "ends_at": incident.ends_at,
    }  # fmt: skip


def figures_document(figures: Figures) -> dict[str, Any]:
    """How serve does, in a line's worth."""
    tally = figures.tally
    return {
        "ready": figures.ready, "trouble": figures.trouble, "held": figures.held, "now": tally.now,
        "behind_seconds": figures.behind_seconds, "rows": sum(tally.rows.values()), "findings": tally.findings,
        "quarantined": tally.quarantined, "late": tally.late, "unwritten_rows": figures.unwritten_rows,
        "waiting_rows": sum(figures.waiting_rows.values()),
        "lag_messages": {name: lane.lag for name, lane in figures.lanes.items()},
    }  # fmt: skip
