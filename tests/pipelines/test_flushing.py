"""Writing beside judging: in order, once, one at a time, and nothing lost while somebody holds the file."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import flushing as module
from pipelines.engine import Engine, Step
from pipelines.flushing import Flushing, Unwritten
from pipelines.source_notes import SourceNotes
from pipelines.state_packs import Field
from pipelines.telemetry_state import same_fields
from pipelines.telemetry_store import StoreBusy, StreamMoved, TelemetryStore
from tests.pipelines.telemetry_rows import DETECTORS, batch, gpu_row, gpu_rows, topology

WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class Gated(TelemetryStore):
    """Writes when its gate is open. written: the seconds of each flush's steps. told: since and same of each."""

    gate: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    written: list[tuple[int, ...]] = field(default_factory=list)
    told: list[tuple[Any, Any]] = field(default_factory=list)

    def flush(self, stream: str, steps: Any, offsets: Any, **named: Any) -> None:  # type: ignore[override]  # as called
        assert self.gate.wait(WAIT_SECONDS)
        if self.held.is_set():
            raise StoreBusy("held")
        self.told.append((named["since"], named["same"]))
        self.written.append(tuple(step.accepted["gpu"]["time"].item().second + 1 for step in steps))


@pytest.fixture(scope="module")
def steps() -> tuple[Step, ...]:
    """A second of one GPU each."""
    engine = Engine(detectors=DETECTORS, topology=topology(), intervals_seconds={"gpu": 1.0})
    state, found = engine.start(batch(0).now), []
    for number in range(40):
        found.append(engine.step(state, batch(number + 1, gpu=gpu_rows(gpu_row(number)))))
        state = found[-1].state
    return tuple(found)


@pytest.fixture(autouse=True)
def _every_flush_goes_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BESIDE_ROWS", 0)


def gated(*, is_open: bool = True) -> Gated:
    store = Gated(Path("nowhere"))
    if is_open:
        store.gate.set()
    return store


def flushing(store: TelemetryStore, rows_maximum: int = 1000) -> Flushing:
    return Flushing(store=store, stream="s", rows_maximum=rows_maximum, waiting=Unwritten(), written={})


def add(to: Flushing, steps: tuple[Step, ...], number: int) -> None:
    to.add(steps[number], SourceNotes(), {("n", 0): number + 1})


def test_judging_goes_on_while_a_flush_is_under_way_and_what_it_gives_goes_into_the_next(
    steps: tuple[Step, ...],
) -> None:
    store = gated(is_open=False)
    with flushing(store) as writes:
        for number in range(3):
            add(writes, steps, number)
            writes.flush()
        assert (store.written, writes.rows) == ([], 3)
        store.gate.set()
        writes.end()
    assert [second for flush in store.written for second in flush] == [1, 2, 3]
    assert store.written[0] == (1,)
    assert (writes.rows, writes.written) == (0, {("n", 0): 3})


def test_each_flush_is_told_the_offsets_and_the_state_that_the_one_before_has_written(steps: tuple[Step, ...]) -> None:
    store = gated()
    with flushing(store) as writes:
        for number in range(3):
            add(writes, steps, number)
            writes.flush()
        writes.end()
    told: list[tuple[Mapping[Any, int], frozenset[Field]]] = store.told
    last = [flush[-1] for flush in store.written]
    assert [since.get(("n", 0), 0) for since, _ in told] == [0, *last[:-1]]
    states = [steps[second - 1].state for second in last]
    assert [same for _, same in told] == [frozenset(), *(same_fields(*pair[::-1]) for pair in pairwise(states))]


def test_after_a_held_file_the_state_is_written_whole(steps: tuple[Step, ...]) -> None:
    """What stands there is no longer known: the state it was compared with has been let go of."""
    store = gated()
    with flushing(store) as writes:
        add(writes, steps, 0)
        writes.flush()
        store.held.set()
        add(writes, steps, 1)
        writes.flush()
        add(writes, steps, 2)
        writes.flush()
        store.held.clear()
        writes.end()
    assert store.written[-1] == (2, 3)
    assert store.told[-1] == ({("n", 0): 1}, frozenset())


def test_a_full_buffer_waits_for_the_flush_and_then_gives_up_on_a_held_file(steps: tuple[Step, ...]) -> None:
    store = gated()
    store.held.set()
    with flushing(store, rows_maximum=2) as writes:
        add(writes, steps, 0)
        writes.flush()
        add(writes, steps, 1)
        writes.flush()
        add(writes, steps, 2)
        with pytest.raises(StoreBusy):
            writes.flush()
    assert store.written == []


def test_what_goes_wrong_in_a_flush_is_raised_where_it_is_next_looked_at(
    steps: tuple[Step, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(*_: Any, **__: Any) -> None:
        raise StreamMoved("another process")

    monkeypatch.setattr(TelemetryStore, "flush", moved)
    with flushing(TelemetryStore(Path("nowhere"))) as writes:
        add(writes, steps, 0)
        writes.flush()
        with pytest.raises(StreamMoved):
            writes.end()


@settings(max_examples=60, deadline=None)
@given(moves=st.lists(st.sampled_from(["add", "flush", "shut", "open", "hold", "free"]), max_size=30))
def test_whatever_is_held_or_slow_every_step_is_written_once_and_in_order(
    steps: tuple[Step, ...], moves: list[str]
) -> None:
    store, number = gated(), 0
    with flushing(store) as writes:
        for move in moves:
            match move:
                case "add":
                    add(writes, steps, number)
                    number += 1
                case "flush":
                    writes.flush()
                case "shut":
                    store.gate.clear()
                case "open":
                    store.gate.set()
                case "hold":
                    store.held.set()
                case "free":
                    store.held.clear()
        store.gate.set()
        store.held.clear()
        writes.end()
    assert [second for flush in store.written for second in flush] == list(range(1, number + 1))
    assert writes.rows == 0
