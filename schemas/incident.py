"""One incident: everything that one cause brought about, with its root, its members and its evidence."""

from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2s
from typing import Any, Literal

from schemas.causes import Kind, Severity

State = Literal["suspect", "firing", "acknowledged", "mitigating", "resolved"]


@dataclass(frozen=True, kw_only=True)
class Incident:
    """Times are event times in UTC.

    roots: ids of one kind (three PDUs lost at once are one incident). members: GPU ids taken out of service,
    throttled, braked or stalled. symptoms: (kind, id) of what else was seen and is explained. starts_at: onset as
    estimated; detected_at: when it fired (or, while suspect, became so); ends_at: when its root and whatever took
    its members had recovered, null while it lasts. evidence: the first twenty of its findings, roots first; findings:
    how many there are, by cause. merged_into: the incident that explains this one, which is then resolved without a
    second page. flaps: how often a root came back.
    """

    id: str
    cause: str
    severity: Severity
    state: State
    root_kind: Kind
    roots: tuple[str, ...]
    members: tuple[str, ...]
    symptoms: tuple[tuple[str, str], ...]
    starts_at: datetime
    detected_at: datetime
    ends_at: datetime | None
    evidence: tuple[dict[str, Any], ...]
    findings: dict[str, int] = field(default_factory=dict)
    merged_into: str | None = None
    flaps: int = 0


def incident_id(cause: str, root_kind: str, roots: tuple[str, ...], starts_at: datetime) -> str:
    """The same content gives the same id on every machine, so writing an incident twice is harmless."""
    content = "\x1f".join((cause, root_kind, *sorted(roots), starts_at.isoformat()))
    return "inc-" + blake2s(content.encode(), digest_size=5).hexdigest()
