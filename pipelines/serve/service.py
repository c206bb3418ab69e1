"""`hotspare serve` without its terminal: the shared loop over both lanes, the look ahead, and how they do."""

import gc
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import monotonic

import structlog

from pipelines.engine import EngineState
from pipelines.operations_store import OperationsStore
from pipelines.recovery.warm_up import warm_up
from pipelines.serve.ahead import LATENCIES_MAXIMUM, Ahead, Told
from pipelines.serve.lane import LaneFigures
from pipelines.serve.lanes_source import LanesSource
from pipelines.settings import Settings
from pipelines.sources.choose import topic_formats, topology_of
from pipelines.stream import Judged, Tally
from pipelines.telemetry_store import StoreBusy, TelemetryStore
from pipelines.workplace import Workplace
from schemas.incident import Incident, State

log = structlog.get_logger()
FLUSH_SECONDS = 1.0
STOP_BUSY_SECONDS = 1.5  # how long the last flush waits for the file; what it cannot write is read again
BUSY_SECONDS = 2.0  # how long a full buffer waits at a time
STALLED_SECONDS = 60.0  # without a step, while the lanes read, something is wrong
OPEN: tuple[State, ...] = ("suspect", "firing", "acknowledged", "mitigating")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """How serve does, at one moment. lanes, waiting_rows: by lane. latencies_seconds: of the incidents told ahead, from
    the receipt of the message to the written incident and its action requests. step_latencies_seconds: of the engine's
    steps, from the receipt of their first row to their incidents and actions. behind_seconds: how far the watermark
    lies behind the clock.
    """

    tally: Tally
    lanes: Mapping[str, LaneFigures]
    waiting_rows: Mapping[str, int]
    unwritten_rows: int
    held: str | None
    trouble: str | None
    ready: bool
    alive: bool
    steps: int
    told_ahead: int
    withdrawn: int
    latencies_seconds: tuple[float, ...]
    step_latencies_seconds: tuple[float, ...]
    now: datetime

    @property
    def behind_seconds(self) -> float | None:
        return None if self.tally.now is None else (self.now - self.tally.now).total_seconds()


class Service:
    """stopping: set it, and `run` returns once what was judged is stored."""

    def __init__(
        self, settings: Settings, operations: OperationsStore, stopping: threading.Event,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:  # fmt: skip
        self.stopping = stopping
        self._operations = operations
        self._recent = timedelta(seconds=settings.notify.old_seconds)
        self._store = TelemetryStore(settings.store.telemetry, STOP_BUSY_SECONDS)
        self._source = LanesSource(
            settings=settings.kafka, limits=settings.limits, formats=topic_formats(settings),
            topology=topology_of(settings), stopping=stopping,
        )  # fmt: skip
        stream = Workplace(settings=settings).stream(self._source, operations)
        self._stream = replace(stream, store=self._store, flush_seconds=flush_seconds, seen=self._saw)
        self._ahead = Ahead(
            detectors=stream.detectors, topology=self._source.topology,
            intervals_seconds=self._source.intervals_seconds, responder=stream.responder,
        )  # fmt: skip
        self._source.heard = self._ahead.heard
        self._source.unwritten = self._has_unwritten
        self._tally = Tally()
        self._judged: Judged | None = None
        self._steps, self._stepped_at = 0, monotonic()
        self._step_latencies: deque[float] = deque(maxlen=LATENCIES_MAXIMUM)
        self._trouble: str | None = None
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Until stopping is set. Raises bugs and what wants a person; a broker or file that is away does not end it."""
        beats = threading.Thread(target=self._look_at_beats, name="beats", daemon=True)
        beats.start()
        warm_up(self._source.topology, self._operations, datetime.now(UTC))
        gc.collect()
        gc.freeze()  # else the collector walks the topology again and again, 0.15 s each time with every thread held up
        while not self.stopping.is_set():
            try:
                self._ahead.begin()
                self._adopt()
                self._stream.run(self._progressed)
            except StoreBusy as busy:
                self._hold(str(busy))
        beats.join(STOP_BUSY_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _look_at_beats(self) -> None:
        """When it fails everything stops, so that nobody believes that somebody watches."""
        try:
            self._ahead.look_at_beats(self.stopping.is_set)
        except BaseException as error:  # noqa: BLE001  kept, and raised again where the service ends
            self._failure = error
            self.stopping.set()

    def _hold(self, reason: str) -> None:
        """The buffer is full, or the last flush of a stop was in vain: what is not stored is read again from Kafka."""
        self._trouble = reason
        log.warning("store_held", reason=reason, what="nothing is lost: it is read again from where the file stands")
        self.stopping.wait(BUSY_SECONDS)

    def _adopt(self) -> None:
        """Incidents told by a life that ended before what they rest on was stored are told again or closed."""
        state = self._store.state(self._source.stream, self._stream.detectors)
        if state is None:
            return
        later = self._operations.incidents(states=OPEN, since=state.now, limit=None)
        others = set(
            self._store.query("select distinct cause, entity from findings where time >= ?", [state.now]).iter_rows()
        )
        ours = [one for one in later if not any((one.cause, root) in others for root in one.roots)]
        self._ahead.told = {one.id: Told(one, max(state.now, one.detected_at)) for one in ours}

    def _saw(self, judged: Judged) -> None:
        before = self._judged
        self._judged, self._stepped_at = judged, monotonic()
        self._steps += 1
        if self._source.polled is not None:
            self._step_latencies.append(self._stepped_at - self._source.polled)
        self._ahead.commit(judged, self._source.judged.get("events", 0))
        if judged.held and (before is None or not before.held):
            log.warning("store_held", reason=judged.held, what="rows wait in memory until the file is free")
        if before is not None and before.held and not judged.held:
            log.info("store_free")
        known = {one.id: one.state for one in before.state.correlation.incidents} if before is not None else {}
        for one in judged.incidents:
            if known.get(one.id) != one.state:
                _log_incident(one)

    def _progressed(self, tally: Tally) -> None:
        self._trouble = None
        self._tally = tally

    def _has_unwritten(self) -> bool:
        return self._judged is not None and self._judged.unwritten_rows > 0

    def lasting_now(self) -> frozenset[str]:
        """Ids of the incidents that last as of telemetry of these minutes."""
        return frozenset() if self._judged is None else lasting(self._judged.state, datetime.now(UTC), self._recent)

    def figures(self) -> Figures:
        lanes = {name: lane.figures for name, lane in self._source.lanes.items()}
        troubles = [f"{name} lane: {lane.trouble}" for name, lane in lanes.items() if lane.trouble]
        held = None if self._judged is None else self._judged.held
        trouble = self._trouble or (troubles[0] if troubles else None)
        stalled = monotonic() - self._stepped_at > STALLED_SECONDS and any(self._source.inbox.rows().values())
        return Figures(
            tally=self._tally, lanes=lanes, waiting_rows=self._source.inbox.rows(),
            unwritten_rows=0 if self._judged is None else self._judged.unwritten_rows, held=held, trouble=trouble,
            ready=trouble is None and bool(lanes) and all(lane.caught_up for lane in lanes.values()),
            alive=not stalled, steps=self._steps, told_ahead=self._ahead.told_total,
            withdrawn=self._ahead.withdrawn_total, latencies_seconds=tuple(self._ahead.latencies_seconds),
            step_latencies_seconds=tuple(self._step_latencies), now=datetime.now(UTC),
        )  # fmt: skip


def lasting(state: EngineState, now: datetime, recent: timedelta) -> frozenset[str]:
    """Ids of the incidents that last; none where the engine catches up on what is longer past than `recent`."""
    if now - state.now > recent:
        return frozenset()
    return frozenset(one.id for one in state.correlation.incidents if one.state in OPEN)


def _log_incident(incident: Incident) -> None:
    log.info(
        "incident", id=incident.id, cause=incident.cause, severity=incident.severity, state=incident.state,
        root_kind=incident.root_kind, roots=incident.roots[:3], members=len(incident.members),
    )  # fmt: skip
