"""The DuckDB file: whole flushes or none, other processes in between, one clear line where it cannot be used."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipelines import telemetry_store as module
from pipelines.engine import Step
from pipelines.segments import seal
from pipelines.telemetry_schema import STORED, VERSION, NewerStore
from pipelines.telemetry_store import StoreBusy, StoreUnavailable, StreamMoved, TelemetryStore
from tests.pipelines.telemetry_rows import DETECTORS, Hot, at, batch, engine, gpu_row, gpu_rows, rows, steps

OFFSETS = {("hotspare.gpu", 0): 12, ("hotspare.gpu", 1): 7}


@pytest.fixture
def store(tmp_path: Path) -> TelemetryStore:
    return TelemetryStore(tmp_path / "telemetry.duckdb", busy_seconds=0.2)


@contextmanager
def held_by_another_process(store: TelemetryStore) -> Iterator[subprocess.Popen[str]]:
    """Another process has the file open until the block ends."""
    hold = f"import duckdb; c = duckdb.connect({str(store.path)!r}); print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def made() -> list[Step]:
    """Steps that fill every kind of table: rows, findings, late, health, and state of every kind."""
    return steps(
        engine(), batch(2, gpu=gpu_rows(gpu_row(1, celsius=95), gpu_row(3), gpu_row(3, gpu=1))),
        batch(4, gpu=gpu_rows(gpu_row(0.5), gpu_row(4, celsius=97))),
    )  # fmt: skip


def counts(store: TelemetryStore) -> dict[str, int]:
    return dict(store.query(" union all ".join(f"select '{name}', count(*) from {name}" for name, _ in STORED)).rows())


def test_a_flush_stores_rows_findings_late_health_offsets_and_state(store: TelemetryStore) -> None:
    store.flush("kafka", made(), OFFSETS)
    found = {name: count for name, count in counts(store).items() if count}
    assert found == {"gpu": 4, "findings": 1, "late": 1, "telemetry_health": 2}
    assert store.offsets("kafka") == OFFSETS
    assert store.streams() == {"kafka": at(4)}


def test_the_state_comes_back_as_it_was(store: TelemetryStore) -> None:
    last = made()[-1].state
    assert last.pending
    assert last.recent
    store.flush("kafka", made(), OFFSETS)
    back = store.state("kafka", DETECTORS)
    assert back is not None
    assert (back.began, back.now, back.correlation) == (last.began, last.now, last.correlation)
    assert_frame_equal(back.sources, last.sources)
    for ours, theirs in ((back.pending, last.pending), (back.recent, last.recent), (back.detectors, last.detectors)):
        assert set(ours) == set(theirs)
        for name, frame in theirs.items():
            assert_frame_equal(ours[name], frame, check_row_order=False)


def test_rows_of_every_table_come_back_as_they_were(store: TelemetryStore) -> None:
    trace = rows("otdr_trace", [{"time": at(1), "cable": "c1", "fiber": "1", "samples_db": [0.25, None, -3.5]}])
    event = rows("job_event", [{"time": at(1), "job": "j", "kind": "start", "members": ["n00000/0", "n00001/7"]}])
    store.flush("s", steps(engine(), batch(2, otdr_trace=trace, job_event=event)), {})
    assert_frame_equal(store.query("select * from otdr_trace"), trace)
    assert_frame_equal(store.query("select * from job_event"), event)


def test_a_restart_from_the_stored_state_says_what_an_uninterrupted_run_says(store: TelemetryStore) -> None:
    batches = [
        batch(2, gpu=gpu_rows(gpu_row(1, celsius=95), gpu_row(3, celsius=96))),
        batch(4, gpu=gpu_rows(gpu_row(3, celsius=96), gpu_row(3.5, gpu=1, celsius=99))),
        batch(9, gpu=gpu_rows(gpu_row(3.5, gpu=1, celsius=99), gpu_row(1), gpu_row(8, celsius=98))),
    ]
    whole = steps(engine(), *batches)
    state = None
    for number, one in enumerate(batches):
        [step] = steps(engine(), one, state=state)
        assert_frame_equal(step.findings, whole[number].findings)
        assert_frame_equal(step.late, whole[number].late)
        store.flush("s", [step], {("t", 0): number})
        state = store.state("s", DETECTORS)


def test_streams_are_kept_apart(store: TelemetryStore) -> None:
    store.flush("a", made(), {("t", 0): 1})
    store.flush("b", made()[:1], {("t", 0): 2})
    one, other = store.state("a", DETECTORS), store.state("b", DETECTORS)
    assert one is not None
    assert other is not None
    assert (one.now, other.now) == (at(4), at(2))
    assert (store.offsets("a"), store.offsets("b")) == ({("t", 0): 1}, {("t", 0): 2})
    store.forget("a")
    assert store.state("a", DETECTORS) is None
    assert store.offsets("b") == {("t", 0): 2}


def test_a_name_with_quotes_is_only_a_name(store: TelemetryStore) -> None:
    stream = """file:/tmp/a"b'c; drop table live.gpu; --|x"""
    store.flush(stream, made(), {("t", 0): 1})
    back = store.state(stream, DETECTORS)
    assert back is not None
    assert back.now == at(4)
    assert counts(store)["gpu"] == 4


class _Failing:
    """A connection whose n-th statement fails."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, after: int) -> None:
        self._connection, self._left = connection, after

    def execute(self, *arguments: object) -> object:
        self._left -= 1
        if self._left < 0:
            raise duckdb.OutOfMemoryException("out of memory")
        return self._connection.execute(*arguments)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


def test_a_statement_that_fails_leaves_nothing_of_the_flush(
    store: TelemetryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = made()
    store.flush("kafka", [first], OFFSETS)
    before = (counts(store), store.offsets("kafka"), store.streams())
    connect, failed = duckdb.connect, 0
    for after in range(3, 100):
        with monkeypatch.context() as patch:
            patch.setattr(module.duckdb, "connect", lambda *a, n=after, **k: _Failing(connect(*a, **k), n))
            try:
                store.flush("kafka", [second], {("hotspare.gpu", 0): 99})
            except duckdb.OutOfMemoryException:
                failed += 1
            else:
                break
        assert (counts(store), store.offsets("kafka"), store.streams()) == before
    assert failed >= 8
    assert store.offsets("kafka")["hotspare.gpu", 0] == 99


def test_another_process_reads_between_two_flushes(store: TelemetryStore) -> None:
    first, second = made()
    store.flush("kafka", [first], {})
    ask = f"import duckdb; print(duckdb.connect({str(store.path)!r}).execute('select count(*) from gpu').fetchone()[0])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"
    store.flush("kafka", [second], {})
    assert counts(store)["gpu"] == 4


def test_a_held_file_is_waited_for_and_then_its_holder_is_named(store: TelemetryStore) -> None:
    store.flush("kafka", made()[:1], {})
    with held_by_another_process(store) as other:
        with pytest.raises(StoreBusy, match=rf"telemetry\.duckdb: held by .*\(process {other.pid}\); waited 0.2 s"):
            store.flush("kafka", made()[1:], {})
        threading.Timer(0.3, other.kill).start()
        TelemetryStore(store.path, busy_seconds=20).flush("kafka", made()[1:], {})
    assert counts(store)["gpu"] == 4


def test_a_thread_that_reads_is_waited_for_too(store: TelemetryStore) -> None:
    store.flush("kafka", made(), {})
    with store.connected(read_only=True), pytest.raises(StoreBusy, match="held by another thread of this process"):
        store.flush("kafka", [], {})


def test_a_stream_that_somebody_else_has_written_is_not_written_over(store: TelemetryStore) -> None:
    first, second = made()
    store.flush("kafka", [first], {("t", 0): 5}, since={})
    store.flush("kafka", [], {("t", 0): 6}, since={("t", 0): 5})
    with pytest.raises(StreamMoved, match="t 0 has been read up to 6 by somebody else"):
        store.flush("kafka", [second], {("t", 0): 9}, since={("t", 0): 5})
    with pytest.raises(StreamMoved):
        store.flush("kafka", [first], {("t", 0): 3}, since={})
    assert counts(store)["gpu"] == 3
    assert store.offsets("kafka") == {("t", 0): 6}


@pytest.mark.parametrize("content", [b"hello", b"", b"\x00" * 5000, b"PAR1" * 3000])
def test_a_file_that_is_no_duckdb_file_is_refused(store: TelemetryStore, content: bytes) -> None:
    store.path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match=r"telemetry\.duckdb: cannot be opened by DuckDB"):
        store.flush("kafka", [], {})
    assert store.path.read_bytes() == content


def test_a_file_whose_first_pages_are_being_written_is_waited_for(store: TelemetryStore) -> None:
    store.flush("kafka", made(), {})
    whole = store.path.read_bytes()
    store.path.write_bytes(whole[:100])
    writer = threading.Timer(0.1, store.path.write_bytes, [whole])
    writer.start()
    assert counts(replace(store, busy_seconds=30.0))["gpu"] == 4
    writer.join()


def test_a_damaged_file_is_refused_even_where_its_folder_is_called_lock(tmp_path: Path) -> None:
    store = TelemetryStore(tmp_path / "lock" / "telemetry.duckdb", busy_seconds=60)
    store.flush("kafka", made(), {})
    store.path.write_bytes(store.path.read_bytes()[:5000])
    with pytest.raises(StoreUnavailable, match="cannot be opened by DuckDB"):
        store.flush("kafka", [], {})


def test_a_duckdb_file_of_something_else_is_left_alone(store: TelemetryStore) -> None:
    with duckdb.connect(str(store.path)) as connection:
        connection.execute("create table salaries as select 1 as amount")
    with pytest.raises(StoreUnavailable, match=r"a DuckDB file of something else \(it has salaries\)"):
        store.flush("kafka", [], {})
    with duckdb.connect(str(store.path)) as connection:
        assert connection.execute("select table_name from duckdb_tables()").fetchall() == [("salaries",)]


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is a folder"):
        TelemetryStore(tmp_path).flush("kafka", [], {})


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="its folder cannot be made"):
        TelemetryStore(tmp_path / "file" / "telemetry.duckdb").flush("kafka", [], {})


def test_a_folder_that_takes_no_files_is_named() -> None:
    with pytest.raises(StoreUnavailable, match=r"/proc/telemetry\.duckdb: cannot be opened by DuckDB"):
        TelemetryStore(Path("/proc/telemetry.duckdb")).flush("kafka", [], {})


def test_reading_where_there_is_no_store_makes_none(store: TelemetryStore) -> None:
    with pytest.raises(StoreUnavailable, match="no telemetry store there; `hotspare ingest`"):
        store.query("select 1")
    assert not store.path.exists()


def test_a_store_from_before_a_table_and_a_column_were_added_gets_them(store: TelemetryStore) -> None:
    with store.connected() as connection:
        connection.execute("drop view hardware_sensor")
        connection.execute("drop table live.hardware_sensor")
        connection.execute("drop view power")
        connection.execute("alter table live.power drop column breaker")
        connection.execute("update schema_version set version = 2")
    assert store.query("select * from hardware_sensor").is_empty()
    assert "breaker" in store.query("select * from power").columns


def test_a_store_of_a_later_version_is_refused_for_reading_and_writing(store: TelemetryStore) -> None:
    store.flush("kafka", made(), {})
    with duckdb.connect(str(store.path)) as connection:
        connection.execute("update schema_version set version = ?", [VERSION + 1])
    said = rf"telemetry\.duckdb: of version {VERSION + 1}, this hotspare reads up to {VERSION}; update hotspare"
    with pytest.raises(NewerStore, match=said):
        store.flush("kafka", [], {})
    with pytest.raises(NewerStore, match=said):
        store.query("select 1")


def test_an_empty_duckdb_file_becomes_a_store_also_when_it_is_only_read(store: TelemetryStore) -> None:
    duckdb.connect(str(store.path)).close()
    assert store.query("select count(*) as n from gpu")["n"].to_list() == [0]
    store.flush("kafka", made(), {})
    assert counts(store)["gpu"] == 4


def test_a_migration_that_is_cut_short_begins_again(store: TelemetryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = duckdb.connect
    for after in (5, 20, 26, 30):
        with monkeypatch.context() as patch:
            patch.setattr(module.duckdb, "connect", lambda *a, n=after, **k: _Failing(connect(*a, **k), n))
            with pytest.raises(duckdb.OutOfMemoryException):
                store.flush("kafka", [], {})
        assert counts(store)["gpu"] == 0
        store.path.unlink()
    store.flush("kafka", made(), {})
    assert counts(store)["gpu"] == 4


def test_a_store_that_was_moved_finds_its_segments(tmp_path: Path) -> None:
    old = TelemetryStore(tmp_path / "old" / "telemetry.duckdb")
    old.flush("kafka", made(), {})
    assert seal(old, at(7200))
    shutil.move(tmp_path / "old", tmp_path / "new")
    moved = TelemetryStore(tmp_path / "new" / "telemetry.duckdb")
    assert moved.query("select count(*) as n from gpu")["n"].to_list() == [4]
    moved.flush("kafka", steps(engine(), batch(20, gpu=gpu_rows(gpu_row(19)))), {})
    assert counts(moved)["gpu"] == 5


@dataclass(frozen=True, kw_only=True)
class Recounted(Hot):
    """The next version of it keeps something else."""

    @property
    def keeps(self) -> pl.Schema:
        return pl.Schema({"entity": pl.String(), "counted": pl.Int64()})


def test_a_detector_whose_state_has_another_shape_begins_anew(store: TelemetryStore) -> None:
    store.flush("kafka", made(), {})
    back = store.state("kafka", (Recounted(),))
    assert back is not None
    assert_frame_equal(back.detectors["test.hot"], pl.DataFrame(schema=Recounted().keeps))


def test_a_window_is_half_open_and_in_order_of_time(store: TelemetryStore) -> None:
    store.flush("kafka", made(), {})
    assert store.window("gpu", at(1), at(4))["time"].to_list() == [at(1), at(3), at(3)]
