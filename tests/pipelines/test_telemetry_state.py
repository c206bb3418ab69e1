"""Engine state in the store: a frame that is the same object as when it was last written is left alone."""

import io
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipelines.engine import EngineState
from pipelines.telemetry_store import TelemetryStore
from tests.pipelines.telemetry_rows import DETECTORS, batch, engine, gpu_row, gpu_rows, steps

STREAM = "kafka"


@pytest.fixture
def store(tmp_path: Path) -> TelemetryStore:
    return TelemetryStore(tmp_path / "telemetry.duckdb")


def assert_stored(store: TelemetryStore, state: EngineState) -> None:
    found = store.state(STREAM, DETECTORS)
    assert found is not None
    assert found.now == state.now
    for kind in ("detectors", "pending", "recent"):
        ours, stored = getattr(state, kind), getattr(found, kind)
        assert ours.keys() == stored.keys()
        for name, frame in ours.items():
            assert_frame_equal(stored[name], frame)
    assert_frame_equal(found.sources, state.sources)


def test_what_did_not_change_is_not_written_again(store: TelemetryStore) -> None:
    (only,) = steps(engine(), batch(2, gpu=gpu_rows(gpu_row(1, celsius=95), gpu_row(3))))
    store.flush(STREAM, [only], {})
    with store.connected() as connection:
        connection.execute("update state.kafka set frame = 'as it stood'::blob")
    store.flush(STREAM, [only], {}, known=only.state)
    with store.connected() as connection:
        left = connection.execute("select distinct frame from state.kafka").fetchall()
    assert left == [(b"as it stood",)]


def test_a_store_with_a_table_for_each_frame_goes_on_where_it_was(store: TelemetryStore) -> None:
    (only,) = steps(engine(), batch(2, gpu=gpu_rows(gpu_row(1, celsius=95), gpu_row(3))))
    store.flush(STREAM, [only], {})
    with store.connected() as connection:
        packed = connection.execute("select name, frame from state.kafka").fetchall()
        connection.execute("drop table state.kafka")
        for name, frame in packed:
            connection.register("rows", pl.read_ipc(io.BytesIO(frame)))
            connection.execute(f'create table state."kafka|{name}" as select * from rows')
            connection.unregister("rows")
        connection.execute("update schema_version set version = 3")
    assert_stored(store, only.state)
    with store.connected() as connection:
        tables = connection.execute("select table_name from duckdb_tables() where schema_name = 'state'").fetchall()
    assert tables == [("kafka",)]


def test_a_state_written_beside_a_known_one_is_read_whole(store: TelemetryStore) -> None:
    first, second, third = steps(
        engine(), batch(2, gpu=gpu_rows(gpu_row(1, celsius=95), gpu_row(3))), batch(2),
        batch(4, gpu=gpu_rows(gpu_row(5))),
    )  # fmt: skip
    known = None
    for step in (first, second, third):
        store.flush(STREAM, [step], {}, known=known)
        assert_stored(store, step.state)
        known = step.state


def test_a_table_that_is_gone_is_written_again_whatever_was_known(store: TelemetryStore) -> None:
    (only,) = steps(engine(), batch(2, gpu=gpu_rows(gpu_row(1, celsius=95), gpu_row(3))))
    store.flush(STREAM, [only], {})
    store.forget(STREAM)
    store.flush(STREAM, [only], {}, known=only.state)
    assert_stored(store, only.state)
