"""What cannot wait: the events lane is looked at ahead of the engine, and an incident that it shows is told at once.

The engine judges both lanes in order of event time, so it is as late as the slower one. This looks further: from where
the engine stands it runs a few detectors over what the events lane has read since, and correlates what they say with
what is known. It only ever adds: an incident that begins is written and acted upon. Everything else waits for the
engine, which says the same a moment later, under the same id, because ids come from content. If it does not (a metric
that came later explains the incident), the early one is closed, with the name of the one that explains it.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import monotonic

import polars as pl
import structlog

from detectors.contract import FINDING_COLUMNS, Context, Detector
from detectors.correlate import correlate
from detectors.correlation_state import Correlation
from detectors.stats.sorted_state import part
from pipelines.engine import Batch, Engine, EngineState
from pipelines.operations_holds import Holds
from pipelines.recovery.recover import recover
from pipelines.serve.lane import LaneArrival
from pipelines.stream import Judged, Responder
from schemas.identity import resolve
from schemas.incident import Incident
from schemas.tables import TABLES
from schemas.topology import Topology

log = structlog.get_logger()
LATENCIES_MAXIMUM = 2000
# By name, with the tables of the events lane that each is given. gpu.xid reads GPUs too, for who came back after a
# reset; what it begins with is the engine's last state, so it is put back to that after every step of the engine.
SWIFT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gpu.xid", ("gpu_event",)),
    ("power.sag", ("power",)),
    ("coolant.leak", ("coolant_loop", "maintenance")),
)
# job.heartbeat is not among them: a host whose beats stop while its GPUs report is not lost, and GPU rows are metrics.
BEATS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("power.domain_loss", ("power", "heartbeat", "job_event", "maintenance", "coolant_loop")),
)


@dataclass
class Peek:
    """One detector over some tables, from the engine's state on. done: number of the last arrival that it has seen;
    based: number up to which the engine's state that it began with had seen them.
    """

    engine: Engine
    tables: tuple[str, ...]
    reads_metrics: bool
    state: EngineState | None = None
    done: int = 0
    based: int = -1
    findings: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=FINDING_COLUMNS))

    def look(self, seen: "Seen", arrivals: list[LaneArrival], until: datetime) -> None:
        """Judge what came since. Its findings are then those since the engine's watermark."""
        if self.state is None or self.done < seen.number or (self.reads_metrics and self.based < seen.number):
            self.state, self.done, self.based = self._begun(seen.judged.state), seen.number, seen.number
            self.findings = self.findings.clear()
        fresh = [arrival for arrival in arrivals if arrival.number > self.done]
        if not self.findings.is_empty():
            self.findings = self.findings.filter(pl.col("time") >= seen.judged.state.now)
        tables = _joined(fresh, self.tables)
        self.done = max([self.done, *(arrival.number for arrival in fresh)])
        if not tables and not self.state.pending:
            return
        named = resolve(tables, seen.judged.identities, seen.judged.said).tables
        step = self.engine.judge(self.state, Batch(tables=named, now=until, lags=seen.judged.lags))
        self.state = step.state
        self.findings = pl.concat([self.findings, step.findings])

    def _begun(self, state: EngineState) -> EngineState:
        (detector,) = self.engine.detectors
        return replace(
            state,
            sources=pl.concat(part(state.sources, "table", name) for name in sorted(self.tables)),
            pending={name: rows for name, rows in state.pending.items() if name in self.tables},
            recent={name: rows for name, rows in state.recent.items() if name in self.tables},
            detectors={detector.name: state.detectors[detector.name]}, correlation=Correlation(),
        )  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """Where the engine stands, and the number of the last arrival of the events lane that it has judged."""

    judged: Judged
    number: int


@dataclass(frozen=True)
class Told:
    """incident: as it was told ahead of the engine. at: event time up to which had been looked."""

    incident: Incident
    at: datetime


@dataclass
class Ahead:
    """heard is called by the events lane, commit by the engine's thread, look_at_beats by a thread of its own."""

    detectors: tuple[Detector, ...]
    topology: Topology
    intervals_seconds: Mapping[str, float]
    responder: Responder
    told: dict[str, Told] = field(default_factory=dict)
    told_total: int = 0
    withdrawn_total: int = 0
    latencies_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=LATENCIES_MAXIMUM))
    _seen: Seen | None = None
    _arrivals: deque[LaneArrival] = field(default_factory=deque)
    _fresh: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _telling: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._swift = tuple(self._peek(*named) for named in SWIFT)
        self._beats = tuple(self._peek(*named) for named in BEATS)

    def _peek(self, name: str, tables: tuple[str, ...]) -> Peek:
        (detector,) = (one for one in self.detectors if one.name == name)
        engine = Engine(detectors=(detector,), topology=self.topology, intervals_seconds=self.intervals_seconds)
        read = {table.name for table in TABLES if table.schema in detector.reads}
        return Peek(engine, tables, reads_metrics=not read <= set(tables))

    def begin(self) -> None:
        """The source starts anew, and its arrivals are numbered from one again."""
        with self._lock:
            self._seen = None
            self._arrivals.clear()
        for peek in (*self._swift, *self._beats):
            peek.state, peek.done, peek.based = None, 0, -1

    def commit(self, judged: Judged, number: int) -> None:
        """The engine has taken a step. What it says of incidents told ahead of it holds."""
        with self._lock:
            self._seen = Seen(judged, number)
            while self._arrivals and self._arrivals[0].number <= number:
                self._arrivals.popleft()
        self._confirm(judged)

    def heard(self, arrival: LaneArrival) -> None:
        with self._lock:
            self._arrivals.append(arrival)
        self._fresh.set()
        self._look(self._swift)

    def look_at_beats(self, stopping: Callable[[], bool]) -> None:
        """Beats of a whole cluster take longer to look at than an XID may wait."""
        while not stopping():
            if self._fresh.wait(0.2):
                self._fresh.clear()
                self._look(self._beats)

    def _look(self, peeks: tuple[Peek, ...]) -> None:
        with self._lock:
            seen, arrivals = self._seen, list(self._arrivals)
        untils = [arrival.until for arrival in arrivals if arrival.until is not None]
        if seen is None or not untils:
            return
        until = max(seen.judged.state.now, *untils)
        for peek in peeks:
            peek.look(seen, arrivals, until)
            if not peek.findings.is_empty():
                self._tell(seen, until, arrivals)

    def _tell(self, seen: Seen, until: datetime, arrivals: list[LaneArrival]) -> None:
        known = seen.judged.state.correlation
        with self._telling:
            told = [peek.findings for peek in (*self._swift, *self._beats) if not peek.findings.is_empty()]
            said = pl.concat(told) if len(told) > 1 else told[0]  # each query waits for the engine's
            said = said.filter(pl.col("time") >= seen.judged.state.now).sort("time", maintain_order=True)
            context = Context(
                now=until, began=seen.judged.state.began, topology=self.topology,
                intervals_seconds=self.intervals_seconds, lags=seen.judged.lags,
            )  # fmt: skip
            incidents, _ = correlate(said, known, context)
            roots = set(zip(said["cause"], said["entity"], said["active"], strict=True))
            latest = self._seen or seen  # the engine may have gone on meanwhile
            told_by_engine = {one.id for one in (*known.incidents, *latest.judged.state.correlation.incidents)}
            begun = tuple(
                incident for incident in incidents
                if incident.state == "firing" and incident.id not in told_by_engine and incident.id not in self.told
                and any((incident.cause, root, True) in roots for root in incident.roots)
            )  # fmt: skip
            if not begun:
                return
            responder = self.responder
            self._announce(seen, arrivals)
            # as of the engine's watermark, so that the engine's own word about it counts as newer
            responder.operations.upsert_incidents(begun, at=seen.judged.state.now)
            recover(
                begun, self.topology, responder.operations, responder.settings_at(until), responder.executors, until
            )
            self.told.update({incident.id: Told(incident, until) for incident in begun})
            self.told_total += len(begun)
            self.latencies_seconds.append(monotonic() - arrivals[-1].polled)
        for incident in begun:
            log.info("incident", id=incident.id, cause=incident.cause, roots=incident.roots[:3], ahead=True)

    def _announce(self, seen: Seen, arrivals: list[LaneArrival]) -> None:
        """A maintenance window that this lane has read holds before the engine comes to it."""
        read = resolve(_joined(arrivals, ("maintenance",)), seen.judged.identities, seen.judged.said).tables
        if "maintenance" in read:
            Holds(self.responder.operations).announce(read["maintenance"], self.topology)

    def _confirm(self, judged: Judged) -> None:
        """Forget what the engine has told by now; close what it has passed without telling it."""
        names = {incident.id for incident in (*judged.incidents, *judged.state.correlation.incidents)}
        with self._telling:
            passed = [told for name, told in self.told.items() if name not in names and told.at <= judged.state.now]
            self.told = {
                name: told for name, told in self.told.items() if name not in names and told.at > judged.state.now
            }
            closed = [_closed(told.incident, judged.state.correlation.incidents) for told in passed]
            self.withdrawn_total += len(closed)
            self.responder.operations.upsert_incidents(closed, at=judged.state.now)
        for incident in closed:
            log.info("incident_withdrawn", id=incident.id, cause=incident.cause, merged_into=incident.merged_into)


def _joined(arrivals: list[LaneArrival], names: tuple[str, ...]) -> dict[str, pl.DataFrame]:
    frames = {name: [one.intake.tables[name] for one in arrivals if name in one.intake.tables] for name in names}
    return {name: pl.concat(rows) for name, rows in frames.items() if rows}


def _closed(incident: Incident, known: tuple[Incident, ...]) -> Incident:
    """Resolved, and a part of the incident that has its root among its own, if there is one."""
    here = {(incident.root_kind, root) for root in incident.roots}
    homes = [
        other.id for other in known
        if here & {*other.symptoms, *((other.root_kind, root) for root in other.roots), *_gpus(other)}
    ]  # fmt: skip
    return replace(
        incident, state="resolved", ends_at=incident.ends_at or incident.detected_at,
        merged_into=homes[0] if homes else None,
    )  # fmt: skip


def _gpus(incident: Incident) -> set[tuple[str, str]]:
    return {("gpu", member) for member in incident.members}
