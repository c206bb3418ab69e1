"""One pass over a long window of the store with two settings at once, in memory that does not grow with its rows.

Both settings are given the same windows of rows. Detectors that both share are asked once: what they say is heard by
both. What is kept is incidents, requested actions, and findings that only one of the two made.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import polars as pl

from detectors.contract import FINDING_COLUMNS, Detector, ordered
from detectors.correlate import correlate
from detectors.correlation_state import Correlation
from pipelines.engine import Batch, Engine, EngineState, Step
from pipelines.intake import identified
from pipelines.rejudge import COMPARED, Rejudged, Side
from pipelines.settings import Settings, aliases_of, configured
from pipelines.sources.contract import Source
from pipelines.stream import earliest
from schemas.identity import identities_from
from schemas.incident import Incident
from schemas.tables import INTAKE_TABLES, TABLES

FINDINGS_KEPT_MAXIMUM = 100_000  # of either side; some 10 MB
FINDINGS_SCHEMA = pl.Schema({name: FINDING_COLUMNS[name] for name in COMPARED})


@dataclass(frozen=True, kw_only=True)
class Reached:
    """How far a pass is. done, total: seconds of cluster time."""

    at: datetime
    done_seconds: float
    total_seconds: float
    incidents: int


def tenths(say: Callable[[str], None]) -> Callable[[Reached], None]:
    """Progress in words, a line for each tenth of the way."""
    told = [0]

    def follow(reached: Reached) -> None:
        tenth = int(10 * reached.done_seconds / reached.total_seconds) if reached.total_seconds else 0
        if tenth > told[0]:
            told[0] = tenth
            say(f"backtest: {10 * tenth} %, {reached.at:%Y-%m-%d %H:%M} UTC, {reached.incidents} incidents")

    return follow


@dataclass(frozen=True, kw_only=True)
class Passed:
    """before, after: what either settings made of the window; before is None where only one was asked. Findings are
    those that only one side made, or all of the one. watched_seconds: cluster time from `counted_from` on. gpu_hours:
    the same for each GPU of the topology. findings_dropped: findings beyond what is kept.
    """

    before: Rejudged | None
    after: Rejudged
    watched_seconds: float
    gpu_hours: float
    findings_dropped: int


@dataclass
class Kept:
    """Findings to tell a difference by, up to a bound."""

    kept: list[pl.DataFrame] = field(default_factory=lambda: [pl.DataFrame(schema=FINDINGS_SCHEMA)])
    rows: int = 0
    dropped: int = 0

    def add(self, findings: pl.DataFrame) -> None:
        room = max(0, FINDINGS_KEPT_MAXIMUM - self.rows)
        self.rows += min(room, findings.height)
        self.dropped += max(0, findings.height - room)
        if room and findings.height:
            self.kept.append(findings.head(room))


@dataclass
class Second:
    """The other settings' detectors behind the first's: only those that differ are asked again."""

    detectors: tuple[Detector, ...]
    source: Source
    engine: Engine = field(init=False)
    state: EngineState | None = None
    correlation: Correlation = field(default_factory=Correlation)

    def __post_init__(self) -> None:
        self.engine = Engine(
            detectors=self.detectors, topology=self.source.topology, intervals_seconds=self.source.intervals_seconds
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(detector.name for detector in self.detectors)

    def step(self, batch: Batch, first: Step) -> tuple[pl.DataFrame, tuple[Incident, ...]]:
        """Its findings and the incidents that changed, of the rows of which the first made its step."""
        findings = first.findings
        if self.detectors:
            if self.state is None or self.state.began != first.state.began:
                self.state = self.engine.start(first.state.began)
            own = self.engine.step(self.state, replace(batch, tables=self._read(batch.tables)))
            self.state = own.state
            findings = ordered(findings.filter(~pl.col("detector").is_in(list(self.names))), own.findings)
        context = self.engine.context(first.state, first.state.now, first.lags)
        incidents, self.correlation = correlate(findings, self.correlation, context)
        return findings, incidents

    def _read(self, tables: Mapping[str, pl.DataFrame]) -> Mapping[str, pl.DataFrame]:
        """Tables that its detectors read; all where one reads what became of rows at the door."""
        read = {schema for detector in self.detectors for schema in detector.reads}
        if read & {table.schema for table in INTAKE_TABLES}:
            return tables
        wanted = {table.name for table in TABLES if table.schema in read}
        return {name: rows for name, rows in tables.items() if name in wanted}


@dataclass
class Heard:
    """What one settings have made of the pass so far."""

    side: Side
    kept: Kept = field(default_factory=Kept)

    def end(self, at: datetime) -> None:
        """Nothing is known of what is still open beyond the end of a source; the next one begins anew."""
        lasting = [one for one in self.side.incidents.values() if one.ends_at is None]
        self.side.incidents |= {one.id: replace(one, ends_at=at) for one in lasting}

    def so_far(self, until: datetime | None) -> Rejudged:
        return Rejudged(
            findings=pl.concat(self.kept.kept), incidents=self.side.incidents,
            actions=tuple(self.side.actions.values()), until=until,
        )  # fmt: skip


def pass_over(
    sources: Sequence[Source],
    before: Settings | None,
    after: Settings,
    counted_from: datetime,
    progress: Callable[[Reached], None] = lambda _: None,
) -> Passed:
    """Every source in turn, each with engines of its own. Raises SourceError, StoreUnavailable."""
    one = None if before is None else Heard(Side(before, slim=True))
    other = Heard(Side(after, slim=True))
    heard = [side for side in (one, other) if side is not None]
    total = sum(source.span_seconds or 0.0 for source in sources)
    until: datetime | None = None
    done = watched = gpu_hours = 0.0
    for source in sources:
        began: datetime | None = None
        for state in _judged(source, one, other):
            began = state.began
            until = state.now
            reached = done + (state.now - state.began).total_seconds()
            progress(
                Reached(at=state.now, done_seconds=reached, total_seconds=total,
                        incidents=len(other.side.incidents))
            )  # fmt: skip
        done += source.span_seconds or 0.0
        if began is not None and until is not None:
            seconds = max(timedelta(), until - max(began, counted_from)).total_seconds()
            watched += seconds
            gpu_hours += seconds / 3600 * source.topology.nodes.height * source.topology.gpus_per_node
            for each in heard:
                each.end(until)
    for each in heard:
        each.side.close()
    return Passed(
        before=None if one is None else one.so_far(until), after=other.so_far(until), watched_seconds=watched,
        gpu_hours=gpu_hours, findings_dropped=sum(each.kept.dropped for each in heard),
    )  # fmt: skip


def _judged(source: Source, one: Heard | None, other: Heard) -> Iterator[EngineState]:
    """The state after each window, with both sides told of it. Rows of the store bear their names already; what the
    first's settings know of names holds for both.
    """
    settings = other.side.settings if one is None else one.side.settings
    detectors = configured(settings)
    engine = Engine(detectors=detectors, topology=source.topology, intervals_seconds=source.intervals_seconds)
    identities = identities_from(source.topology, aliases_of(settings.identity), settings.identity.domains)
    second = None
    if one is not None:
        differing = [new for old, new in zip(detectors, configured(other.side.settings), strict=True) if old != new]
        second = Second(tuple(differing), source)
    state: EngineState | None = None
    for arrival in source.arrivals({}):
        if state is None or state.sources.is_empty():
            state = engine.start(earliest(arrival.batch))
        batch, _ = identified(arrival.batch, arrival.notes, identities, identities.aliases)
        step = engine.step(state, batch)
        state = step.state
        lasting = state.correlation.incidents
        if one is None or second is None:
            other.side.hear(step.incidents, lasting, source.topology, state.now)
            other.kept.add(step.findings.select(COMPARED))
        else:
            one.side.hear(step.incidents, lasting, source.topology, state.now)
            findings, incidents = second.step(batch, step)
            other.side.hear(incidents, second.correlation.incidents, source.topology, state.now)
            _keep_differing(step.findings, findings, one.kept, other.kept)
        yield state


def _keep_differing(old: pl.DataFrame, new: pl.DataFrame, before: Kept, after: Kept) -> None:
    mine, theirs = old.select(COMPARED), new.select(COMPARED)
    before.add(mine.join(theirs, on=COMPARED, how="anti", nulls_equal=True, maintain_order="left"))
    after.add(theirs.join(mine, on=COMPARED, how="anti", nulls_equal=True, maintain_order="left"))
