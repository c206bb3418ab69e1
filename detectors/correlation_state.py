"""What correlation remembers between steps: the levels that hold, and the cases they are folded into.

Times here are integer microseconds since the epoch (UTC): exact, quick to compare, and the same in every store. The
records are msgspec structs: ten thousand of them are made in a few milliseconds, and they encode themselves.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from sys import intern
from typing import Literal

import msgspec
import polars as pl
from msgspec.structs import replace

from detectors.contract import FINDING_COLUMNS
from schemas.causes import CAUSE_BY_NAME, CAUSES, Severity
from schemas.incident import Incident, incident_id

Instant = int  # microseconds since the epoch, UTC
Key = tuple[str, str, str, str, str]
LEVEL_PER_CODE = frozenset({"gpu.xid", "gpu.xid_repeats", "telemetry.clock_skew"})
"""Detectors that hold a level for each code of an entity. For all others the code is a word about the one level of the
entity, and may change while it lasts: a leak that the rope shows, and then the reservoir too, is one leak.
"""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
MICROSECOND = timedelta(microseconds=1)
TAKES_GPUS = frozenset(cause.name for cause in CAUSES if cause.takes_gpus)
STALLS_GPUS = frozenset(cause.name for cause in CAUSES if cause.stalls_gpus)
SEVERITY_RANK: Mapping[Severity, int] = {"info": 0, "ticket": 1, "page": 2}


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long correlation waits, in seconds.

    settle: a usual symptom waits this long for its cause (domain.md 4.3: at most 3 s to size a domain); a cause that
    ended no longer ago still explains. domain: roots begun within it in one domain are one incident (domain.md 4.3).
    reroot: an incident younger than this takes a better explanation and keeps its id. clear: how long an incident
    must be over before it is resolved. flap: how long after that the same root re-opens it instead of a new one.
    reach: how long after its last word a cause still stops a job that had gone on until then: a rank that is gone
    stops the next collective, after the retries of the network (tens of seconds).
    skew: how much later than its symptom a cause may seem to begin; covers clocks and sampling at 1 Hz.
    """

    settle_seconds: float = 3.0
    domain_seconds: float = 10.0
    reroot_seconds: float = 60.0
    clear_seconds: float = 30.0
    flap_seconds: float = 300.0
    skew_seconds: float = 5.0
    reach_seconds: float = 120.0


class Statement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One finding, in the order of FINDING_COLUMNS."""

    time: Instant
    detector: str
    cause: str
    kind: str
    entity: str
    active: bool
    code: str | None
    severity: Severity
    score: float | None
    threshold: float | None
    first_bad_at: Instant
    evidence: str | None
    action: str | None

    @property
    def key(self) -> Key:
        """What the level is about: between two statements with one key it holds."""
        code = self.code or "" if self.detector in LEVEL_PER_CODE else ""
        return (self.detector, self.cause, self.kind, self.entity, code)

    @property
    def turn(self) -> tuple[Instant, int, str, str, str, str, bool, str]:
        """At one instant causes speak before their symptoms, and an end before a beginning."""
        order = CAUSE_BY_NAME[self.cause].order
        return (self.time, order, self.cause, self.kind, self.entity, self.detector, self.active, self.code or "")


class Level(msgspec.Struct, array_like=True, gc=False):
    """A bad state of an entity, folded into a case until the case is forgotten. The step that holds it changes it in
    place as cases become one; that of a state is never changed, for a step takes copies.

    said: the last statement that it holds. case: the id of its case. root: whether the case is about it. onset: when
    this period of it began, as estimated. grave: whether it ever was more than a suspicion (severity info). ended:
    when it last ended. flaps: how often it came back. domain_wide: it takes all that is under it, as a PDU that was
    stated before any GPU under it was, or a job whose standstill others were told of. job, members: as its evidence
    names them.
    """

    said: Statement
    case: str
    root: bool
    active: bool
    onset: Instant
    grave: bool
    ended: Instant | None = None
    flaps: int = 0
    domain_wide: bool = False
    job: str | None = None
    members: tuple[str, ...] = ()

    @property
    def takes_gpus(self) -> bool:
        return self.grave and self.said.cause in TAKES_GPUS

    @property
    def stalls(self) -> bool:
        """Whether the GPUs that it names stand still by themselves: as a root, or since others were told so."""
        return (self.root or self.domain_wide) and self.grave and self.said.cause in STALLS_GPUS

    @property
    def keeps_open(self) -> bool:
        """An incident is over when its root and whatever takes its GPUs are over: power that is back does not help
        while nodes are down. Other symptoms do not keep it open; one that stays is then an incident of its own.
        """
        return self.active and (self.root or (self.grave and self.said.cause in TAKES_GPUS))


class Case(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An incident as correlation keeps it; its levels carry the rest.

    state: waiting cases are not yet told to anyone. fired: whether it ever fired. suspect_at, fire_at: deadlines.
    detected_at: when it fired, or became suspect. last_onset: of its youngest root. ended: since when it is over.
    forget_at: until then a resolved case re-opens when a root comes back.
    """

    id: str
    cause: str
    kind: str
    opened: Instant
    starts_at: Instant
    last_onset: Instant
    severity: Severity = "info"
    state: Literal["waiting", "suspect", "firing", "resolved"] = "waiting"
    fired: bool = False
    suspect_at: Instant | None = None
    fire_at: Instant | None = None
    detected_at: Instant | None = None
    ended: Instant | None = None
    forget_at: Instant | None = None
    flaps: int = 0

    @property
    def told(self) -> bool:
        return self.state in ("suspect", "firing")

    def clears_at(self, timing: Timing) -> Instant | None:
        """When it is resolved, if it is over and stays so."""
        return self.ended + span(timing.clear_seconds) if self.ended is not None and self.told else None

    def deadlines(self, timing: Timing) -> list[Instant]:
        """Instants at which it may change by itself."""
        instants = (self.suspect_at, self.fire_at, self.clears_at(timing), self.forget_at)
        return [instant for instant in instants if instant is not None]


class Correlation(msgspec.Struct, frozen=True):
    """The state after a step. until: its watermark. held: statements not before it, whose instant is not complete.
    incidents: what was last told of every case that others know of, down to those resolved a flap time ago.
    """

    until: Instant = 0
    held: tuple[Statement, ...] = ()
    levels: tuple[Level, ...] = ()
    cases: tuple[Case, ...] = ()
    incidents: tuple[Incident, ...] = ()


class _Hints(msgspec.Struct, frozen=True):
    """What a finding's evidence may say of the job: its name, or (for a job) its GPUs or nodes."""

    job: str | None = None
    members: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None


_HINTS, _NO_HINTS = msgspec.json.Decoder(_Hints), _Hints()


def encode(state: Correlation) -> bytes:
    return msgspec.json.encode(state)


def decode(stored: bytes) -> Correlation:
    """Raises msgspec.DecodeError when the bytes are not a state that `encode` wrote."""
    return msgspec.json.decode(stored, type=Correlation)


def statements(findings: pl.DataFrame) -> list[Statement]:
    """Rows of FINDING_COLUMNS as records. Scores that are not finite say nothing and become null."""
    instants = pl.col("time", "first_bad_at").dt.epoch("us")
    scores = pl.col("score", "threshold")
    rows = findings.select(FINDING_COLUMNS.names()).with_columns(instants, pl.when(scores.is_finite()).then(scores))
    columns = {column.name: column.to_list() for column in rows.iter_columns()}
    for words in ("detector", "cause", "kind", "severity"):  # few, and looked up often
        columns[words] = list(map(intern, columns[words]))
    return list(map(Statement, *columns.values()))


def level_of(said: Statement) -> Level:
    """A level as it begins, in no case yet. Evidence that is no JSON object names no job."""
    hints = _NO_HINTS
    if said.evidence is not None and (said.kind == "job" or '"job"' in said.evidence):
        try:
            hints = _HINTS.decode(said.evidence)
        except msgspec.DecodeError:
            hints = _NO_HINTS
    members = (hints.members or hints.nodes or ()) if said.kind == "job" else ()
    return Level(
        said, "", root=True, active=True, onset=said.first_bad_at, grave=said.severity != "info",
        job=hints.job, members=members,
    )  # fmt: skip


def restated(level: Level, said: Statement) -> Level:
    """The level with its newest words; evidence that was let go of is not taken up again."""
    kept = said if level.root or level.said.evidence is not None else replace(said, evidence=None)
    return replace(level, said=kept, grave=level.grave or said.severity != "info")


def opened(level: Level, at: Instant, since: Instant) -> Case:
    """A case of the level's own, named by what it is about and since when."""
    said = level.said
    name = incident_id(said.cause, said.kind, (said.entity,), moment(since))
    return Case(name, said.cause, said.kind, opened=at, starts_at=level.onset, last_onset=level.onset)


def patience(said: Statement, timing: Timing, *, orphan: bool) -> Instant:
    """How long it waits before others are told: for its cause, if it usually has one. An orphan, whose cause is over,
    may only be slower to end than that was, so it waits as long as its detectors may hold it.
    """
    cause = CAUSE_BY_NAME[said.cause]
    seconds = timing.settle_seconds if cause.waits else 0.0
    return span(max(seconds, cause.lingers_seconds) if orphan else seconds)


def microseconds(time: datetime) -> Instant:
    return (time - EPOCH) // MICROSECOND


def span(seconds: float) -> Instant:
    return round(seconds * 1_000_000)


def moment(time: Instant) -> datetime:
    return EPOCH + time * MICROSECOND


def iso_format(time: Instant) -> str:
    """As isoformat has it, without asking the time zone for an offset that is always the same."""
    return f"{(NAIVE_EPOCH + time * MICROSECOND).isoformat()}+00:00"


def worse(one: Severity, other: Severity) -> Severity:
    return one if SEVERITY_RANK[one] >= SEVERITY_RANK[other] else other


def earlier(one: Instant | None, other: Instant | None) -> Instant | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
