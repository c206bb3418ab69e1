"""Engine state in the store: a frame that is the same object as when it was last written is left alone."""

from pathlib import Path

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
        tables = [name for (name,) in connection.execute(
            "select table_name from duckdb_tables() where schema_name = 'state'"
        ).fetchall()]  # fmt: skip
        for name in tables:
            connection.execute(f'delete from state."{name}"')
    store.flush(STREAM, [only], {}, known=only.state)
    assert tables
    with store.connected() as connection:
        left = [connection.execute(f'select count(*) from state."{name}"').fetchall() for name in tables]
    assert left == [[(0,)]] * len(tables)


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
