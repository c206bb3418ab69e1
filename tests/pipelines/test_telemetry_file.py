"""The DuckDB file beside other processes, damaged, old or not ours: waited for, put right, or one clear line."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from pipelines import telemetry_store as module
from pipelines.telemetry_schema import VERSION, NewerStore
from pipelines.telemetry_store import StoreBusy, StoreUnavailable, StreamMoved, TelemetryStore
from tests.pipelines.telemetry_store_rows import Failing, counts, made

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
    with pytest.raises(StoreUnavailable, match=r"telemetry\.duckdb: cannot be read or written"):
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


def test_a_damaged_file_is_refused_even_where_its_folder_is_called_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEGUN_SECONDS", 0.1)
    store = TelemetryStore(tmp_path / "lock" / "telemetry.duckdb", busy_seconds=60)
    store.flush("kafka", made(), {})
    store.path.write_bytes(store.path.read_bytes()[:5000])
    with pytest.raises(StoreUnavailable, match="cannot be read or written"):
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
    with pytest.raises(StoreUnavailable, match=r"/proc/telemetry\.duckdb: cannot be read or written"):
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
            patch.setattr(module.duckdb, "connect", lambda *a, n=after, **k: Failing(connect(*a, **k), n))
            with pytest.raises(StoreUnavailable, match="out of memory"):
                store.flush("kafka", [], {})
        assert counts(store)["gpu"] == 0
        store.path.unlink()
    store.flush("kafka", made(), {})
    assert counts(store)["gpu"] == 4
