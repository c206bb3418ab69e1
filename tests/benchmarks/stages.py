"""What each stage of the way from bytes to incidents costs, and the limits that the machine sets for the same bytes.

Processor seconds of this process, all threads: on a machine that others use they say more than the clock does.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import duckdb
import polars as pl
from kafka.consumer.fetcher import ConsumerRecord

from detectors.catalog import CATALOG
from pipelines.engine import Batch, Engine, EngineState
from pipelines.intake import Intake, Piece, joined, take_in
from pipelines.operations_store import OperationsStore
from pipelines.recovery.settings import RecoverySettings
from pipelines.recovery.warm_up import warm_up
from pipelines.serve.ahead import Ahead
from pipelines.serve.lane import LaneArrival, Mark
from pipelines.sources.kafka_messages import reader_of
from pipelines.stream import Judged, Responder
from pipelines.telemetry_state import same_fields
from pipelines.telemetry_store import TelemetryStore, append, transaction
from replay.recording import meta_of, read_recording, write_recording
from schemas.identity import identities_from
from schemas.tables import TABLE_BY_NAME
from schemas.topology import ALIAS_COLUMNS
from tests.benchmarks.cluster_load import Load, messages, samples

POLL_MESSAGES = 5000
PREFIX = "hotspare."


@dataclass
class Stages:
    """Processor seconds by stage, for so many samples and seconds of cluster time."""

    cpu: dict[str, float] = field(default_factory=dict)
    wall: float = 0.0
    samples: int = 0
    cluster_seconds: float = 0.0

    @contextmanager
    def timing(self, stage: str) -> Iterator[None]:
        began, at = time.process_time(), time.perf_counter()
        yield
        self.cpu[stage] = self.cpu.get(stage, 0.0) + time.process_time() - began
        self.wall += time.perf_counter() - at

    @property
    def total(self) -> float:
        return sum(self.cpu.values())

    def document(self) -> dict[str, object]:
        return {
            "samples": self.samples, "cluster_seconds": self.cluster_seconds,
            "cpu_seconds": {name: round(seconds, 3) for name, seconds in self.cpu.items()},
            "cpu_seconds_total": round(self.total, 3), "wall_seconds": round(self.wall, 3),
            "times_real_time_per_core": round(self.cluster_seconds / self.total, 2),
            "cpu_seconds_per_million_samples": round(1e6 * self.total / self.samples, 4),
        }  # fmt: skip


def engine_of(load: Load) -> tuple[Engine, EngineState]:
    intervals = {name: float(seconds) for name, seconds in load.scenario.intervals.items()}
    engine = Engine(detectors=CATALOG, topology=load.topology, intervals_seconds=intervals)
    return engine, engine.start(load.scenario.starts_at)


def replay(load: Load, folder: Path, window_seconds: int, warm_seconds: int) -> Stages:
    """A recording through decode, validate, detect (with correlation) and store. The first seconds, in which every
    entity is new, warm up and do not count.
    """
    write_recording(
        folder / "recording", load.windows(window_seconds), load.topology, meta_of(load.scenario, load.topology)
    )
    engine, state = engine_of(load)
    store, stages = TelemetryStore(folder / "replay.duckdb"), Stages()
    windows = read_recording(folder / "recording", window_seconds=window_seconds).windows
    done = 0.0
    while True:
        counted = stages if done >= warm_seconds else Stages()
        with counted.timing("decode"):
            window = next(windows, None)
        if window is None:
            return stages
        with counted.timing("validate"):
            intake = take_in([Piece(name, frame) for name, frame in window.tables.items()])
        state = _judge_and_store(engine, state, intake, window.ends_at, store, counted)
        seconds = (window.ends_at - window.starts_at).total_seconds()
        done += seconds
        counted.samples += samples(window)
        counted.cluster_seconds += seconds


def from_messages(load: Load, folder: Path, window_seconds: int, each: Literal["source", "row"]) -> Stages:
    """As from Kafka, from the records of a consumer on. The first window warms up."""
    engine, state = engine_of(load)
    store, stages = TelemetryStore(folder / f"messages-{each}.duckdb"), Stages()
    for number, window in enumerate(load.windows(window_seconds)):
        records = messages(window, each)
        counted = stages if number else Stages()
        with counted.timing("decode and validate"):
            intake = joined([part for name, some in records.items() for part in _taken(name, some)])
        state = _judge_and_store(engine, state, intake, window.ends_at, store, counted)
        counted.samples += samples(window)
        counted.cluster_seconds += window_seconds
    return stages


def _taken(name: str, records: list[ConsumerRecord]) -> Iterator[Intake]:
    reader = reader_of(f"{PREFIX}{name}", PREFIX, {}, 2**24)
    assert reader is not None
    for begin in range(0, len(records), POLL_MESSAGES):
        yield reader.take(0, records[begin : begin + POLL_MESSAGES])


def _judge_and_store(  # noqa: PLR0917  one step of the shared loop
    engine: Engine, state: EngineState, intake: Intake, now: datetime, store: TelemetryStore, counted: Stages
) -> EngineState:
    with counted.timing("detect and correlate"):
        step = engine.step(state, Batch(tables=intake.tables, now=now, quarantined=intake.quarantined))
    with counted.timing("store"):
        same = frozenset() if state.sources.is_empty() else same_fields(step.state, state)
        store.flush("bench", (step,), {("bench", 0): int(now.timestamp())}, same=same)
    gc.collect()
    return step.state


def insert_alone(load: Load, folder: Path, window_seconds: int) -> Stages:
    """The limit of the store: DuckDB takes the same frames, in the same transactions, and nothing else happens."""
    stages, store = Stages(), TelemetryStore(folder / "limit.duckdb")
    for number, window in enumerate(load.windows(window_seconds)):
        intake = take_in([Piece(name, frame) for name, frame in window.tables.items()])
        counted = stages if number else Stages()
        with counted.timing("insert"), store.connected() as connection, transaction(connection):
            for name, rows in intake.tables.items():
                append(connection, f"live.{name}", rows)
        counted.samples += samples(window)
        counted.cluster_seconds += window_seconds
    return stages


def bytes_per_sample(load: Load, folder: Path, window_seconds: int) -> dict[str, float]:
    """Of the DuckDB file, and of Parquet segments as sealing writes them: by entity, then time, zstd."""
    path = folder / "limit.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("checkpoint")
    sealed, every = 0, 0
    kept: dict[str, list[pl.DataFrame]] = {}
    for window in load.windows(window_seconds):
        every += samples(window)
        for name, rows in window.tables.items():
            kept.setdefault(name, []).append(rows)
    for name, frames in kept.items():
        table, file = TABLE_BY_NAME[name], folder / f"{name}.sealed.parquet"
        pl.concat(frames).sort(*table.key, table.time).write_parquet(file, compression="zstd")
        sealed += file.stat().st_size
    return {"unsealed": round(path.stat().st_size / every, 3), "sealed": round(sealed / every, 3)}


def told_ahead_milliseconds(load: Load, folder: Path, events: int) -> list[float]:
    """From the receipt of an XID to the incident and its action requests in the operations file, engine at rest, after
    the readiness that serve begins with.
    """
    engine, state = engine_of(load)
    first = next(load.windows(10))
    state = engine.step(state, Batch(tables=dict(first.tables), now=first.ends_at)).state
    operations = OperationsStore.open(folder / "operations.sqlite")
    warm_up(load.topology, operations, state.now)
    responder = Responder(operations=operations, settings=RecoverySettings(), executors={}, clock=lambda: state.now)
    ahead = Ahead(
        detectors=CATALOG, topology=load.topology, intervals_seconds=engine.intervals_seconds, responder=responder
    )
    aliases = pl.DataFrame(schema=ALIAS_COLUMNS)
    judged = Judged(
        state=state, incidents=(), identities=identities_from(load.topology, aliases), said=aliases
    )  # fmt: skip
    ahead.commit(judged, 0)
    nodes = load.topology.nodes["node"].to_list()
    columns = TABLE_BY_NAME["gpu_event"].columns
    for number in range(1, events + 1):
        row = {
            "time": state.now,
            "node": nodes[7 * number % len(nodes)],
            "gpu": 3,
            "kind": "xid",
            "code": 79,
            "message": "x",
        }
        rows = pl.DataFrame([{name: row.get(name) for name in columns}], schema=columns)
        intake = replace(take_in([]), tables={"gpu_event": rows})
        arrival = LaneArrival(
            lane="events", number=number, intake=intake, offsets={}, mark=Mark(), until=_later(state.now),
            polled=time.monotonic(),
        )  # fmt: skip
        ahead.heard(arrival)
        ahead.commit(judged, number)
    operations.close()
    return sorted(1000 * seconds for seconds in ahead.latencies_seconds)


def _later(moment: datetime) -> datetime:
    return moment + timedelta(microseconds=1)
