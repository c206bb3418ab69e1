"""The loop that every caller shares: arrivals are admitted, judged, acted on, and stored, in this order.

Acting comes before storing, so that a held file never delays an alert; it is safe because ids come from content and
a restarted process derives the same incidents again.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import polars as pl

from detectors.contract import Detector
from pipelines.engine import Batch, Engine, EngineState, Step
from pipelines.flushing import Flushing, Unwritten
from pipelines.intake import identified
from pipelines.operations_holds import Holds
from pipelines.operations_jobs import Jobs
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import Executor
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from pipelines.sources.contract import Offsets, Source
from pipelines.telemetry_store import TelemetryStore
from schemas.action import ActionKind, ActionRecord
from schemas.identity import Identities, identities_from
from schemas.incident import Incident
from schemas.tables import TABLE_BY_NAME
from schemas.topology import ALIAS_COLUMNS, Topology

LAST_RESORTS: tuple[ActionKind, ...] = ("staged_shutdown", "isolate_loop")
LATE_SECONDS = 60.0  # a loop without flow has less
TALLIED_MAXIMUM = 20_000  # incidents and actions that a tally remembers: a server runs for months


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What a run has done so far. rows: by table. seconds: cluster time covered and time taken."""

    rows: Mapping[str, int] = field(default_factory=dict)
    findings: int = 0
    quarantined: int = 0
    late: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    incidents: Mapping[str, Incident] = field(default_factory=dict)
    actions: tuple[ActionRecord, ...] = ()
    began: datetime | None = None
    now: datetime | None = None
    elapsed_seconds: float = 0.0

    @property
    def stream_seconds(self) -> float:
        return 0.0 if self.began is None or self.now is None else (self.now - self.began).total_seconds()


@dataclass(frozen=True, kw_only=True)
class Responder:
    """Where incidents go: into the operations store and through recovery. clock: wall-clock time in UTC."""

    operations: OperationsStore
    settings: RecoverySettings
    executors: Mapping[str, Executor]
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def settings_at(self, event_time: datetime) -> RecoverySettings:
        """History is rehearsed: what happened longer ago than a request may wait is planned and never carried out. What
        takes a whole loop down before its hardware does is history sooner: a minute later that has happened, or people
        have helped, and what has come in since is read first.
        """
        behind_seconds = (self.clock() - event_time).total_seconds()
        if behind_seconds > self.settings.expires_seconds:
            return self.settings.rehearsal()
        return self.settings if behind_seconds <= LATE_SECONDS else self.settings.rehearsal(*LAST_RESORTS)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Where a stream stands after a step, for whoever looks on. said: aliases learned so far. unwritten_rows: those
    that wait for a flush. held: who holds the file, None where the last flush went through. lags: the last batch's.
    """

    state: EngineState
    incidents: tuple[Incident, ...]
    identities: Identities
    said: pl.DataFrame
    unwritten_rows: int = 0
    held: str | None = None
    lags: Mapping[str, timedelta] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Stream:
    """One source through one engine. store: None keeps nothing (a replay). aliases, domains: other names of what the
    topology names, as of schemas.identity. flush_seconds: steps gather for so long before they are written. seen: told
    where the stream stands when it begins, and after every step.
    """

    source: Source
    detectors: tuple[Detector, ...]
    responder: Responder
    store: TelemetryStore | None = None
    buffered_rows_maximum: int = 5_000_000
    aliases: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ALIAS_COLUMNS))
    domains: tuple[str, ...] = ()
    flush_seconds: float = 0.0
    seen: Callable[[Judged], None] = lambda _: None

    def run(self, progress: Callable[[Tally], None] = lambda _: None) -> Tally:
        """Read the source to its end. Raises SourceError, StoreBusy (the buffer is full), StoreUnavailable."""
        engine = Engine(
            detectors=self.detectors, topology=self.source.topology, intervals_seconds=self.source.intervals_seconds
        )
        stream = self.source.stream
        state = None if self.store is None else self.store.state(stream, self.detectors)
        offsets: Offsets = {} if self.store is None else self.store.offsets(stream)
        if self.store is not None:
            self.store.remember_cluster(stream, self.source.topology, self.source.intervals_seconds)
        begun = state is not None and not state.sources.is_empty()
        tally = Tally(began=state.now, now=state.now) if begun and state is not None else Tally()
        if state is not None:
            self._respond(engine, state.correlation.incidents, state.now)
        frozen = None if self.store is None else self.store.aliases(stream, begun=begun)
        identities = self._identities(frozen)
        said = identities.aliases
        told = Unwritten(aliases=None if begun else frozen, known=state)
        if state is not None:
            self.seen(Judged(state=state, incidents=state.correlation.incidents, identities=identities, said=said))
        started = flushed = time.monotonic()
        with Flushing(
            store=self.store, stream=stream, rows_maximum=self.buffered_rows_maximum, waiting=told, written=offsets
        ) as flushing:
            for arrival in self.source.arrivals(offsets):
                if state is None or state.sources.is_empty():  # nothing but refused messages has come so far
                    state = engine.start(earliest(arrival.batch))
                batch, notes = identified(arrival.batch, arrival.notes, identities, said)
                said = pl.concat([said, notes.learned])
                step = engine.step(state, batch)
                state = step.state
                actions = self._act(engine, step)
                flushing.add(step, notes, arrival.offsets)
                if time.monotonic() - flushed >= self.flush_seconds or flushing.rows > self.buffered_rows_maximum:
                    flushing.flush()
                    flushed = time.monotonic()
                self.seen(
                    Judged(
                        state=state, incidents=step.incidents, identities=identities, said=said,
                        unwritten_rows=flushing.rows, held=flushing.held, lags=batch.lags,
                    )
                )  # fmt: skip
                tally = added(tally, step, arrival.ignored, actions, time.monotonic() - started)
                progress(tally)
                del arrival, batch, step  # their rows are not kept while the next ones are read and judged
            flushing.end()
        return tally

    def _identities(self, learned: pl.DataFrame | None) -> Identities:
        """What the settings say holds before what was learned."""
        aliases = self.aliases if learned is None else pl.concat([learned, self.aliases])
        return identities_from(self.source.topology, aliases, self.domains)

    def _act(self, engine: Engine, step: Step) -> tuple[ActionRecord, ...]:
        """Tell of what a step has found, and do what it calls for."""
        self._remember(step.accepted, engine.topology)
        # one that was folded into another is not among those that correlation keeps, and ends here
        self.responder.operations.upsert_incidents(step.incidents, at=step.state.now)
        return self._respond(engine, step.state.correlation.incidents, step.state.now)

    def _remember(self, accepted: Mapping[str, pl.DataFrame], topology: Topology) -> None:
        """What recovery and pages must know beside incidents: who works for which job, what is under maintenance."""
        if "job_event" in accepted:
            Jobs(self.responder.operations).remember(accepted["job_event"])
        if "maintenance" in accepted:
            Holds(self.responder.operations).announce(accepted["maintenance"], topology)

    def _respond(self, engine: Engine, incidents: tuple[Incident, ...], now: datetime) -> tuple[ActionRecord, ...]:
        responder = self.responder
        responder.operations.upsert_incidents(incidents, at=now)
        return recover(
            incidents, engine.topology, responder.operations, responder.settings_at(now), responder.executors, now
        )


def earliest(batch: Batch) -> datetime:
    """When a stream begins: at its first row. Plans and outside events tell of other times."""
    rows = ((TABLE_BY_NAME[name], frame) for name, frame in batch.tables.items())
    times = [frame[table.time].min() for table, frame in rows if not table.ahead]
    return min((moment for moment in times if isinstance(moment, datetime)), default=batch.now)


def added(
    tally: Tally, step: Step, ignored: Mapping[str, int], actions: tuple[ActionRecord, ...], elapsed: float
) -> Tally:
    """The tally with one step more."""
    names = {**tally.rows, **step.accepted}
    fresh = {name: rows.height for name, rows in step.accepted.items()}
    return Tally(
        rows={name: tally.rows.get(name, 0) + fresh.get(name, 0) for name in names},
        findings=tally.findings + step.findings.height,
        quarantined=tally.quarantined + step.quarantined.height,
        late=tally.late + step.late.height,
        ignored={key: tally.ignored.get(key, 0) + ignored.get(key, 0) for key in {**tally.ignored, **ignored}},
        incidents=_newest(tally.incidents, {incident.id: incident for incident in step.incidents}),
        actions=_latest(tally.actions, actions),
        began=tally.began if tally.began is not None else step.state.began,
        now=step.state.now,
        elapsed_seconds=elapsed,
    )  # fmt: skip


def _newest(known: Mapping[str, Incident], fresh: Mapping[str, Incident]) -> Mapping[str, Incident]:
    """In the order in which they were first told; the oldest forgotten past TALLIED_MAXIMUM."""
    return dict(list({**known, **fresh}.items())[-TALLIED_MAXIMUM:]) if fresh else known


def _latest(known: tuple[ActionRecord, ...], fresh: tuple[ActionRecord, ...]) -> tuple[ActionRecord, ...]:
    """One record per request, the newest, in order of request; the oldest forgotten past TALLIED_MAXIMUM."""
    if not fresh:
        return known
    return tuple({record.request.id: record for record in (*known, *fresh)}.values())[-TALLIED_MAXIMUM:]
