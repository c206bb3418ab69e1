"""The loop that every caller shares: arrivals are admitted, judged, acted on, and stored, in this order.

Acting comes before storing, so that a held file never delays an alert; it is safe because ids come from content and
a restarted process derives the same incidents again. A flush that finds the file held keeps its steps for the next
one, up to a bound.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from detectors.contract import Detector
from pipelines.engine import Batch, Engine, Step
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import Executor
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from pipelines.sources.contract import Offsets, Source
from pipelines.telemetry_store import StoreBusy, TelemetryStore
from schemas.action import ActionRecord
from schemas.incident import Incident
from schemas.tables import TABLE_BY_NAME

log = structlog.get_logger()


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
    """Where incidents go: into the operations store and through recovery."""

    operations: OperationsStore
    settings: RecoverySettings
    executors: Mapping[str, Executor]


@dataclass(frozen=True, kw_only=True)
class Stream:
    """One source through one engine. store: None keeps nothing (a replay)."""

    source: Source
    detectors: tuple[Detector, ...]
    responder: Responder
    store: TelemetryStore | None = None
    buffered_rows_maximum: int = 5_000_000

    def run(self, progress: Callable[[Tally], None] = lambda _: None) -> Tally:
        """Read the source to its end. Raises SourceError, StoreBusy (the buffer is full), StoreUnavailable."""
        engine = Engine(
            detectors=self.detectors, topology=self.source.topology, intervals_seconds=self.source.intervals_seconds
        )
        stream = self.source.stream
        state = None if self.store is None else self.store.state(stream, self.detectors)
        offsets: Offsets = {} if self.store is None else self.store.offsets(stream)
        tally = Tally() if state is None else Tally(began=state.now, now=state.now)
        if state is not None:
            self._respond(engine, state.correlation.incidents, state.now)
        written, unwritten = offsets, list[Step]()
        started = time.monotonic()
        for arrival in self.source.arrivals(offsets):
            if state is None or state.sources.is_empty():  # nothing but refused messages has come so far
                state = engine.start(_earliest(arrival.batch))
            step = engine.step(state, arrival.batch)
            state = step.state
            actions = self._respond(engine, state.correlation.incidents, state.now)
            unwritten.append(step)
            offsets = {**offsets, **arrival.offsets}
            if self._flush(unwritten, offsets, written):
                written, unwritten = offsets, []
            tally = _added(tally, step, arrival.ignored, actions, time.monotonic() - started)
            progress(tally)
        if unwritten and self.store is not None:
            self.store.flush(stream, unwritten, offsets, since=written)
        return tally

    def _respond(self, engine: Engine, incidents: tuple[Incident, ...], now: datetime) -> tuple[ActionRecord, ...]:
        responder = self.responder
        responder.operations.upsert_incidents(incidents, at=now)
        return recover(incidents, engine.topology, responder.operations, responder.settings, responder.executors, now)

    def _flush(self, steps: list[Step], offsets: Offsets, written: Offsets) -> bool:
        """Write what has gathered. False: the file is held, so the steps wait for the next time. Nobody waits here, for
        the next incident may be in what comes next; only a full buffer waits, and then gives up.
        """
        if self.store is None:
            return True
        rows = sum(frame.height for step in steps for frame in step.accepted.values())
        store = self.store if rows > self.buffered_rows_maximum else replace(self.store, busy_seconds=0.0)
        try:
            store.flush(self.source.stream, steps, offsets, since=written)
        except StoreBusy as busy:
            if rows > self.buffered_rows_maximum:
                raise
            if len(steps) == 1:
                log.warning("store_busy", reason=str(busy), what="rows wait in memory until the file is free")
            return False
        return True


def _earliest(batch: Batch) -> datetime:
    times = [frame[TABLE_BY_NAME[name].time].min() for name, frame in batch.tables.items() if not frame.is_empty()]
    return min((moment for moment in times if isinstance(moment, datetime)), default=batch.now)


def _added(
    tally: Tally, step: Step, ignored: Mapping[str, int], actions: tuple[ActionRecord, ...], elapsed: float
) -> Tally:
    names = {**tally.rows, **step.accepted}
    fresh = {name: rows.height for name, rows in step.accepted.items()}
    return Tally(
        rows={name: tally.rows.get(name, 0) + fresh.get(name, 0) for name in names},
        findings=tally.findings + step.findings.height,
        quarantined=tally.quarantined + step.quarantined.height,
        late=tally.late + step.late.height,
        ignored={key: tally.ignored.get(key, 0) + ignored.get(key, 0) for key in {**tally.ignored, **ignored}},
        incidents={**tally.incidents, **{incident.id: incident for incident in step.incidents}},
        actions=_latest((*tally.actions, *actions)),
        began=tally.began if tally.began is not None else step.state.began,
        now=step.state.now,
        elapsed_seconds=elapsed,
    )  # fmt: skip


def _latest(actions: tuple[ActionRecord, ...]) -> tuple[ActionRecord, ...]:
    """One record per request, the newest, in order of request."""
    return tuple({record.request.id: record for record in actions}.values())
