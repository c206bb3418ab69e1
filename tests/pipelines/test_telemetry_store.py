"""The DuckDB file: whole flushes or none, and what was written comes back as it was."""

import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipelines import telemetry_store as module
from pipelines.segments import seal
from pipelines.telemetry_store import StoreBusy, StoreUnavailable, TelemetryStore
from schemas.topology_presets import build
from tests.pipelines.telemetry_rows import DETECTORS, Hot, at, batch, engine, gpu_row, gpu_rows, rows, steps
from tests.pipelines.telemetry_store_rows import Failing, counts, made

OFFSETS = {("hotspare.gpu", 0): 12, ("hotspare.gpu", 1): 7}


@pytest.fixture
def store(tmp_path: Path) -> TelemetryStore:
    return TelemetryStore(tmp_path / "telemetry.duckdb", busy_seconds=0.2)


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


def test_of_a_stream_that_is_forgotten_it_is_still_known_which_cluster_its_rows_are_of(store: TelemetryStore) -> None:
    cluster = build("ndr-fat-tree", pods=1, superblocks_per_pod=1)
    store.remember_cluster("a", cluster, {"gpu": 15.0})
    store.flush("a", made(), {("t", 0): 1})
    before = store.cluster(at(0), at(4))
    store.forget("a")
    after = store.cluster(at(0), at(4))
    assert before is not None
    assert after is not None
    assert after.topology.nodes.equals(before.topology.nodes)
    assert (after.intervals_seconds, after.until) == ({"gpu": 15.0}, before.until)
    assert store.cluster(at(5), at(9)) is None


def test_a_name_with_quotes_is_only_a_name(store: TelemetryStore) -> None:
    stream = """file:/tmp/a"b'c; drop table live.gpu; --|x"""
    store.flush(stream, made(), {("t", 0): 1})
    back = store.state(stream, DETECTORS)
    assert back is not None
    assert back.now == at(4)
    assert counts(store)["gpu"] == 4


def test_a_statement_that_fails_leaves_nothing_of_the_flush(
    store: TelemetryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = made()
    store.flush("kafka", [first], OFFSETS)
    before = (counts(store), store.offsets("kafka"), store.streams())
    connect, failed = duckdb.connect, 0
    for after in range(3, 100):
        with monkeypatch.context() as patch:
            patch.setattr(module.duckdb, "connect", lambda *a, n=after, **k: Failing(connect(*a, **k), n))
            try:
                store.flush("kafka", [second], {("hotspare.gpu", 0): 99})
            except StoreUnavailable:
                failed += 1
            else:
                break
        assert (counts(store), store.offsets("kafka"), store.streams()) == before
    assert failed >= 8
    assert store.offsets("kafka")["hotspare.gpu", 0] == 99


# As DuckDB says it of a file system without room (seen on a tmpfs of 20 MB).
FULL = 'TransactionContext Error: Failed to commit: Could not write file "x.duckdb.wal": No space left on device'


def test_a_full_disk_is_waited_for_as_a_held_file_is(store: TelemetryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = made()
    store.flush("kafka", [first], OFFSETS)
    connect, error = duckdb.connect, duckdb.TransactionException(FULL)
    with monkeypatch.context() as patch:
        patch.setattr(module.duckdb, "connect", lambda *a, **k: Failing(connect(*a, **k), 9, error))
        with pytest.raises(StoreBusy, match=r"telemetry\.duckdb: the disk is full; rows wait in memory"):
            store.flush("kafka", [second], {("hotspare.gpu", 0): 99})
    assert store.offsets("kafka") == OFFSETS


def test_a_pack_that_finds_no_room_is_waited_for_too(store: TelemetryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreBusy, match=r"telemetry\.state: the disk is full"):
            store.flush("kafka", made()[:1], OFFSETS)
    assert store.offsets("kafka") == {}


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
