"""Engine state in the store: fields that are what they were when it was last written stay where they are."""

import io
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pipelines import telemetry_state
from pipelines.engine import EngineState, Step
from pipelines.state_packs import PACKS_MAXIMUM, places, put, sweep, taken
from pipelines.telemetry_state import same_fields
from pipelines.telemetry_store import StoreUnavailable, TelemetryStore
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


def two_steps() -> tuple[Step, Step]:
    first, second = steps(
        engine(), batch(2, gpu=gpu_rows(gpu_row(1, celsius=95), gpu_row(3))), batch(4, gpu=gpu_rows(gpu_row(5)))
    )
    return first, second


def test_what_did_not_change_is_not_written_again(store: TelemetryStore) -> None:
    first, _ = two_steps()
    store.flush(STREAM, [first], {})
    store.flush(STREAM, [first], {}, same=same_fields(first.state, first.state))
    assert [file.name for file in store.packs.iterdir()] == ["1.pack"]
    assert_stored(store, first.state)


def test_of_a_frame_that_changed_only_the_fields_that_did_are_written(store: TelemetryStore) -> None:
    first, _ = two_steps()
    name, frame = next((name, frame) for name, frame in first.state.detectors.items() if frame.height)
    moved = frame.with_columns(pl.col(frame.columns[-1]).shift(1))
    store.flush(STREAM, [first], {})
    later = replace(first, state=replace(first.state, detectors={**first.state.detectors, name: moved}))
    store.flush(STREAM, [later], {}, same=same_fields(later.state, first.state))
    with store.connected() as connection:
        fresh = connection.execute("select name, field from state_fields where pack = 2").fetchall()
    assert fresh == [(name, frame.columns[-1])]
    assert_stored(store, later.state)


def test_a_state_written_beside_a_known_one_is_read_whole(store: TelemetryStore) -> None:
    first, second, third = steps(
        engine(), batch(2, gpu=gpu_rows(gpu_row(1, celsius=95), gpu_row(3))), batch(2),
        batch(4, gpu=gpu_rows(gpu_row(5))),
    )  # fmt: skip
    known = None
    for step in (first, second, third):
        store.flush(STREAM, [step], {}, same=frozenset() if known is None else same_fields(step.state, known))
        assert_stored(store, step.state)
        known = step.state


def test_a_state_that_is_gone_is_written_again_whatever_was_known(store: TelemetryStore) -> None:
    first, _ = two_steps()
    store.flush(STREAM, [first], {})
    store.forget(STREAM)
    assert list(store.packs.iterdir()) == []
    store.flush(STREAM, [first], {}, same=same_fields(first.state, first.state))
    assert_stored(store, first.state)


def test_a_crash_before_the_commit_leaves_the_state_before_and_no_file_for_ever(
    store: TelemetryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two_steps()
    store.flush(STREAM, [first], {})
    with monkeypatch.context() as patched:
        patched.setattr(telemetry_state, "encode", _power_cut)  # what is written after the pack
        with pytest.raises(KeyboardInterrupt):
            store.flush(STREAM, [second], {}, same=same_fields(second.state, first.state))
    assert sorted(file.name for file in store.packs.iterdir()) == ["1.pack", "2.pack"]
    assert_stored(store, first.state)
    store.flush(STREAM, [first], {}, same=same_fields(first.state, first.state))
    assert [file.name for file in store.packs.iterdir()] == ["1.pack"]
    assert_stored(store, first.state)


def _power_cut(_: object) -> bytes:
    raise KeyboardInterrupt


@pytest.mark.parametrize("damage", [Path.unlink, lambda pack: pack.write_bytes(pack.read_bytes()[:-9])])
def test_a_pack_that_is_gone_or_cut_short_is_named(store: TelemetryStore, damage: Callable[[Path], None]) -> None:
    first, _ = two_steps()
    store.flush(STREAM, [first], {})
    damage(store.packs / "1.pack")
    with pytest.raises(StoreUnavailable, match=r"1\.pack: is gone or damaged, .* put it back"):
        store.state(STREAM, DETECTORS)


def test_a_pack_that_went_while_the_stream_runs_is_written_anew(store: TelemetryStore) -> None:
    first, _ = two_steps()
    store.flush(STREAM, [first], {})
    (store.packs / "1.pack").unlink()
    store.flush(STREAM, [first], {}, same=same_fields(first.state, first.state))
    assert_stored(store, first.state)


def test_a_folder_that_cannot_be_written_is_one_clear_line(store: TelemetryStore) -> None:
    first, _ = two_steps()
    store.packs.write_text("in the way", "utf-8")
    with pytest.raises(StoreUnavailable, match=r"telemetry\.state: cannot be read or written \(.*File exists"):
        store.flush(STREAM, [first], {})
    store.packs.unlink()
    assert store.state(STREAM, DETECTORS) is None  # nothing of it is there


def test_streams_do_not_touch_each_others_packs(store: TelemetryStore) -> None:
    first, second = two_steps()
    for stream, step, known in (("a", first, None), ("b", first, None), ("a", second, first.state)):
        store.flush(stream, [step], {}, same=frozenset() if known is None else same_fields(step.state, known))
    store.forget("a")
    found = store.state("b", DETECTORS)
    assert found is not None
    assert_frame_equal(found.sources, first.state.sources)


def written(first: Step, store: TelemetryStore, version: int) -> None:
    """A store as of this version, which kept frames elsewhere."""
    store.flush(STREAM, [first], {})
    kinds = {"pending.": first.state.pending, "recent.": first.state.recent, "": first.state.detectors}
    frames = {f"{kind}{name}": frame for kind, kept in kinds.items() for name, frame in kept.items()}
    with store.connected() as connection:
        connection.execute("drop table state_fields")
        if version > 3:
            connection.execute("create table state.kafka (name varchar, frame blob)")
        for name, frame in {**frames, "engine.sources": first.state.sources}.items():
            if version > 3:
                packed = io.BytesIO()
                frame.write_ipc(packed)
                connection.execute("insert into state.kafka values (?, ?)", [name, packed.getvalue()])
            else:
                connection.register("rows", frame)
                connection.execute(f'create table state."kafka|{name}" as select * from rows')
                connection.unregister("rows")
        connection.execute("update schema_version set version = ?", [version])


@pytest.mark.parametrize("version", [3, 5])
def test_a_store_of_an_earlier_version_goes_on_where_it_was(store: TelemetryStore, version: int) -> None:
    first, _ = two_steps()
    written(first, store, version)
    assert_stored(store, first.state)
    with store.connected() as connection:
        assert connection.execute("from duckdb_tables() where schema_name = 'state'").fetchall() == []


CHANGES = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 3), min_size=3, max_size=3), max_size=3),
    min_size=1, max_size=12,
)  # fmt: skip


@given(changes=CHANGES)
def test_whatever_changes_is_read_as_it_was_put(changes: list[dict[str, list[int]]]) -> None:
    with tempfile.TemporaryDirectory() as scratch, duckdb.connect() as connection:
        folder = Path(scratch) / "packs"
        connection.execute(
            "create table state_fields as select null::varchar as stream, * from (select '' as name, "
            "'' as field, 0::bigint as pack, 0::bigint as first_byte, 0::bigint as byte_count) limit 0"
        )
        frame = pl.DataFrame({"a": [0, 0, 0], "b": [1, 1, 1], "c": [2, 2, 2]})
        for fresh in changes:
            after = frame.with_columns(**{name: pl.Series(values) for name, values in fresh.items()})
            there = places(connection, STREAM)
            same = {field: there[field] for field in there if after[field[1]].equals(frame[field[1]])}
            put(connection, folder, STREAM, {"one": after}, same)
            sweep(connection, folder)
            assert_frame_equal(taken(folder, places(connection, STREAM))["one"].select("a", "b", "c"), after)
            assert 1 <= len(list(folder.iterdir())) <= PACKS_MAXIMUM
            frame = after
