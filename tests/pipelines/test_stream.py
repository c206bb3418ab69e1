"""The shared loop: incidents before rows, rows that wait for a held file, and one ingest at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines import stream as stream_module
from pipelines import telemetry_store as module
from pipelines.lease import Held, ingesting
from pipelines.operations_store import OperationsStore
from pipelines.recovery.settings import RecoverySettings
from pipelines.sources.contract import Arrival, Offsets
from pipelines.stream import Responder, Stream
from pipelines.telemetry_store import StoreBusy, StreamMoved, TelemetryStore
from schemas.topology import Topology
from tests.pipelines.telemetry_rows import DETECTORS, batch, gpu_row, gpu_rows, topology


@dataclass
class Seconds:
    """A second of one GPU an arrival; after: called with its number once it has been taken."""

    count: int
    after: Any = lambda number: None
    stream: str = "seconds"
    topology: Topology = field(default_factory=topology)
    intervals_seconds: Any = field(default_factory=lambda: {"gpu": 1.0})
    span_seconds: float | None = None

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        for number in range(offsets.get(("n", 0), 0), self.count):
            rows = gpu_rows(gpu_row(number, celsius=95))
            yield Arrival(batch=batch(number + 1, gpu=rows), offsets={("n", 0): number + 1})
            self.after(number)


class OtherGpus(Seconds):
    """Every second another GPU is hot."""

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        for number in range(self.count):
            rows = gpu_rows(gpu_row(number, gpu=number, celsius=95))
            yield Arrival(batch=batch(number + 1, gpu=rows), offsets={("n", 0): number + 1})


@pytest.fixture
def store(tmp_path: Path) -> TelemetryStore:
    return TelemetryStore(tmp_path / "telemetry.duckdb", busy_seconds=0.05)


def stream(source: Seconds, store: TelemetryStore, operations: OperationsStore, rows: int = 100) -> Stream:
    responder = Responder(operations=operations, settings=RecoverySettings(), executors={})
    return Stream(source=source, detectors=DETECTORS, responder=responder, store=store, buffered_rows_maximum=rows)  # type: ignore[arg-type]


def times(store: TelemetryStore) -> list[int]:
    return [moment.second for moment in store.query("select time from gpu")["time"].to_list()]


def test_rows_wait_for_a_held_file_and_are_written_in_order(store: TelemetryStore, tmp_path: Path) -> None:
    operations = OperationsStore.open(tmp_path / "operations.sqlite")
    store.flush("other", [], {})
    reading: list[Any] = []
    known: list[int] = []

    def after(number: int) -> None:
        if number == 1:
            reading.append(store.connected(read_only=True))
            reading[0].__enter__()
        if number in (2, 3, 4):
            known.append(len(operations.incidents()))
        if number == 4:
            reading.pop().__exit__(None, None, None)

    stream(Seconds(8, after), store, operations).run()
    assert times(store) == list(range(8))
    assert known[0] > 0, "incidents are there while the rows wait"
    assert store.offsets("seconds") == {("n", 0): 8}


def test_a_full_buffer_gives_up_and_names_who_holds_the_file(store: TelemetryStore, tmp_path: Path) -> None:
    operations = OperationsStore.open(tmp_path / "operations.sqlite")
    store.flush("other", [], {})
    taken: list[int] = []
    with store.connected(read_only=True), pytest.raises(StoreBusy, match="held by another thread of this process"):
        stream(Seconds(50, taken.append), store, operations, rows=5).run()
    assert len(taken) <= 5
    stream(Seconds(50), store, operations).run()
    assert times(store) == list(range(50))


def test_incidents_are_stored_before_the_flush(
    store: TelemetryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = OperationsStore.open(tmp_path / "operations.sqlite")
    seen: list[int] = []
    flush = TelemetryStore.flush

    def watched(self: TelemetryStore, *arguments: Any, **named: Any) -> None:
        seen.append(len(operations.incidents()))
        flush(self, *arguments, **named)

    monkeypatch.setattr(module.TelemetryStore, "flush", watched)
    stream(Seconds(1), store, operations).run()
    assert seen == [1]


def test_a_tally_of_months_keeps_the_newest_incidents(
    store: TelemetryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "TALLIED_MAXIMUM", 2)
    operations = OperationsStore.open(tmp_path / "operations.sqlite")
    tally = stream(OtherGpus(5), store, operations).run()
    roots = {root for incident in tally.incidents.values() for root in incident.roots}
    assert (roots, len(operations.incidents())) == ({"n00000/3", "n00000/4"}, 5)


def test_a_stream_that_another_process_feeds_meanwhile_is_left_to_it(store: TelemetryStore, tmp_path: Path) -> None:
    operations = OperationsStore.open(tmp_path / "operations.sqlite")

    def after(number: int) -> None:
        if number == 1:
            stream(Seconds(4), store, operations).run()

    with pytest.raises(StreamMoved):
        stream(Seconds(6, after), store, operations).run()
    assert times(store) == list(range(4))


def test_a_second_ingest_is_refused_with_one_line_that_names_the_first(tmp_path: Path) -> None:
    operations = OperationsStore.open(tmp_path / "operations.sqlite")
    other = OperationsStore.open(tmp_path / "operations.sqlite")
    operations.acquire_lease("ingest", "serve@elsewhere:1.1", datetime.now(UTC), 30)
    with (
        pytest.raises(Held, match=r"^serve@elsewhere:1\.1 ingests already, and only one may; its lease runs out at"),
        ingesting(other),
    ):
        pass


def test_a_lease_is_free_once_its_holder_is_done(tmp_path: Path) -> None:
    operations = OperationsStore.open(tmp_path / "operations.sqlite")
    with ingesting(operations):
        pass
    with ingesting(operations, "serve"):
        pass


@pytest.mark.parametrize(
    ("late_seconds", "shuts_down", "drains"),
    [(59, "enforce", "enforce"), (61, "dry-run", "enforce"), (3601, "dry-run", "dry-run")],
)  # fmt: skip
def test_a_loop_is_not_shut_down_for_what_comes_in_a_minute_late(
    tmp_path: Path, late_seconds: int, shuts_down: str, drains: str
) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    responder = Responder(
        operations=OperationsStore.open(tmp_path / "o.sqlite"), settings=RecoverySettings(mode="enforce"),
        executors={}, clock=lambda: noon + timedelta(seconds=late_seconds),
    )  # fmt: skip
    chosen = responder.settings_at(noon)
    modes = [chosen.mode_of(kind) for kind in ("staged_shutdown", "isolate_loop", "drain_node")]
    assert modes == [shuts_down, shuts_down, drains]
    responder.operations.close()
