"""What the operations store hands out, beside incidents and actions."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from schemas.incident import Incident

MATCHERS = ("incident", "cause", "severity", "root_kind", "root", "member")


class NotFound(LookupError):
    """There is no such thing in the store. The message says what was asked for and where to look."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Remark:
    """What a person said about an incident. kind: acknowledged | mitigating | note | judged true | judged false."""

    at: datetime
    by: str
    kind: str
    text: str


@dataclass(frozen=True)
class Silence:
    """No pages for incidents that match every (name, value); names are MATCHERS, values compare as a whole."""

    id: str
    matchers: tuple[tuple[str, str], ...]
    starts_at: datetime
    ends_at: datetime
    by: str
    comment: str

    def __post_init__(self) -> None:
        if not self.matchers:
            raise ValueError("a silence needs at least one matcher; without any it would silence everything")
        unknown = [name for name, _ in self.matchers if name not in MATCHERS]
        if unknown:
            raise ValueError(f"a silence cannot match on {unknown[0]!r}; known: {', '.join(MATCHERS)}")
        if self.ends_at <= self.starts_at:
            raise ValueError("a silence must end after it starts")

    def mutes(self, incident: Incident) -> bool:
        """Whether the incident matches. A `root` or `member` is one of several."""
        values = {
            "incident": (incident.id,), "cause": (incident.cause,), "severity": (incident.severity,),
            "root_kind": (incident.root_kind,), "root": incident.roots, "member": incident.members,
        }  # fmt: skip
        return all(value in values[name] for name, value in self.matchers)


@dataclass(frozen=True)
class Breaker:
    """at, by, reason: of the last trip or reset; None and empty when there never was one."""

    tripped: bool
    at: datetime | None
    by: str
    reason: str


@dataclass(frozen=True)
class Lease:
    name: str
    holder: str
    acquired_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class Spare:
    """state: available | allocated | repair. action: which action allocated it."""

    node: str
    state: str
    action: str | None
    at: datetime


def incident_from(row: sa.RowMapping) -> Incident:
    """An incident from a row of the table, JSON lists as tuples."""
    values = {name: value for name, value in row.items() if name != "updated_at"}
    lists = {name: tuple(values[name]) for name in ("roots", "members", "evidence")}
    return Incident(**{**values, **lists, "symptoms": tuple((kind, entity) for kind, entity in values["symptoms"])})
