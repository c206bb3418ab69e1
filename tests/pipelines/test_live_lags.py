"""Clocks of hosts as Kafka shows them, without a broker: messages poll by poll, their times, and the detector."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from detectors.job.heartbeat import MissedHeartbeats
from pipelines.engine import Batch, Engine
from pipelines.sources.arrival_lags import LiveLags
from pipelines.sources.kafka_messages import reader_of
from pipelines.telemetry_store import TelemetryStore
from schemas.topology import topology_from_frames

BEGAN = datetime(2026, 5, 1, 8, tzinfo=UTC)
NODES = tuple(f"n{number}" for number in range(8))
SLOW = timedelta(seconds=31)
READER = reader_of("hotspare.heartbeat", "hotspare.", {}, 10_000)
Clock = Callable[[str, int], float]


def message(node: str, second: int, slow_seconds: float, *, own_clock: bool = False, grouped: int = 1) -> Any:
    """One second's beats of a host. own_clock: its agent writes to Kafka itself, and says when by the same clock."""
    way = timedelta(milliseconds=37 * (int(node[1:]) + 1))
    times = [BEGAN + timedelta(seconds=second - back - slow_seconds) for back in reversed(range(grouped))]
    micros = [int(time.timestamp() * 1e6) for time in times]
    value = {"time": micros[0] if grouped == 1 else micros, "node": node, "gpu": 0, "job": "j", "rank": int(node[1:]),
             "step": second}  # fmt: skip
    written = BEGAN + timedelta(seconds=second - (slow_seconds if own_clock else 0)) + way
    return SimpleNamespace(
        offset=second * 8 + int(node[1:]), value=json.dumps(value).encode(), key=b"pod", headers=[],
        timestamp=int(written.timestamp() * 1000),
    )  # fmt: skip


def lags_after(seconds: int, slow: Clock, **more: Any) -> dict[str, float]:
    clocks = LiveLags()
    for second in range(seconds):
        assert READER is not None
        records = [message(node, second, slow(node, second), **more) for node in NODES]
        clocks.seen(READER.take(0, records).notes.delays)
    return {node: lag.total_seconds() for node, lag in clocks.lags.items()}


def n3_by(slow_seconds: float) -> Clock:
    return lambda node, _: slow_seconds if node == "n3" else 0.0


@pytest.mark.parametrize("own_clock", [False, True])
@pytest.mark.parametrize(
    ("slow", "expected"), [(31.0, {"n3": 31.0}), (3.2, {"n3": 4.0}), (1.0, {}), (-30.0, {"n3": -30.0})]
)
def test_a_clock_that_is_slow_or_fast_is_measured(slow: float, expected: dict[str, float], *, own_clock: bool) -> None:
    assert lags_after(4, n3_by(slow), own_clock=own_clock) == expected


@pytest.mark.parametrize("polled", [1, 3, 8])
def test_a_host_is_measured_with_its_first_message_however_few_come_in_a_poll(polled: int) -> None:
    assert READER is not None
    clocks = LiveLags()
    records = [message(node, 0, 31.0 if node == "n3" else 0.0) for node in NODES]
    for first in range(0, 4, polled):
        clocks.seen(READER.take(0, records[first : first + polled]).notes.delays)
    assert list(clocks.lags) == ["n3"]
    assert timedelta(seconds=31) <= clocks.lags["n3"] <= timedelta(seconds=32)  # rounded up, over one way or another


def test_one_odd_second_is_no_clock_and_a_step_is_known_after_three() -> None:
    assert lags_after(9, lambda node, second: 20.0 if node == "n3" and second == 6 else 0.0) == {}
    stepped = lags_after(9, lambda node, second: 20.0 if node == "n3" and second >= 6 else 0.0)
    assert stepped == {"n3": 20.0}


def test_rows_that_a_producer_gathers_are_as_late_as_the_newest_of_them() -> None:
    assert lags_after(6, n3_by(0.0), grouped=1) == lags_after(40, n3_by(0.0), grouped=30) == {}


def test_what_is_played_again_from_the_past_says_nothing_of_clocks() -> None:
    assert lags_after(4, lambda node, _: 86_400.0 + (31.0 if node == "n3" else 0.0)) == {}


def test_hostile_messages_measure_nothing() -> None:
    assert READER is not None
    values = [b"", b"[]", b'{"node": "n3"}', b'{"node": ["n3"], "time": [1, 2]}', b'{"time": 1e400, "node": 3}',
              b'{"node": "n3", "time": 99999999999999999999999}', b'{"node": "n3", "time": "never"}']  # fmt: skip
    records = [
        SimpleNamespace(offset=at, value=value, key=b"", headers=[], timestamp=1) for at, value in enumerate(values)
    ]
    assert LiveLags().seen(READER.take(0, records).notes.delays) == {}


def lost(slow_seconds: float, stops_at: int, seconds: int, *, measured: bool = True) -> list[tuple[str, datetime]]:
    """Nodes that the heartbeat detector calls lost, when n3 runs slow and stops at a second of the true time."""
    topology = topology_from_frames("t", pl.DataFrame({"node": NODES}), pl.DataFrame(), gpus_per_node=1)
    engine = Engine(detectors=(MissedHeartbeats(),), topology=topology, intervals_seconds={})
    state, clocks, said = engine.start(BEGAN - SLOW), LiveLags(), []
    for second in range(seconds):
        assert READER is not None
        records = [
            message(node, second, slow_seconds if node == "n3" else 0.0)
            for node in NODES if node != "n3" or second < stops_at
        ]  # fmt: skip
        intake = READER.take(0, records)
        lags = clocks.seen(intake.notes.delays) if measured else {}
        step = engine.step(state, Batch(tables=intake.tables, now=BEGAN + timedelta(seconds=second), lags=lags))
        state = step.state
        said += step.findings.filter("active", cause="node_lost", severity="page").select("entity", "time").rows()
    return said


@pytest.mark.parametrize("slow", [4.0, 31.0])
def test_a_slow_host_is_not_lost_and_one_that_stops_is_lost_by_the_clock_of_the_others(slow: float) -> None:
    assert {name for name, _ in lost(slow, stops_at=99, seconds=12, measured=False)} == {"n3"}
    assert lost(slow, stops_at=99, seconds=12) == []
    # the last beat was sent at second 11; dead is three intervals and a quarter later (docs/decisions.md 10)
    assert lost(slow, stops_at=12, seconds=17) == [("n3", BEGAN + timedelta(seconds=11 + 3.25))]


def test_the_store_knows_from_when_to_when_a_node_was_slow(tmp_path: Path) -> None:
    topology = topology_from_frames("t", pl.DataFrame({"node": NODES}), pl.DataFrame(), gpus_per_node=1)
    engine = Engine(detectors=(), topology=topology, intervals_seconds={})
    store, state = TelemetryStore(tmp_path / "t.duckdb"), engine.start(BEGAN)
    for second, lag in ((10, 31.0), (20, 31.4), (30, 0.0), (40, 0.0)):
        lags = {"n3": timedelta(seconds=lag)} if lag else {}
        step = engine.step(state, Batch(tables={}, now=BEGAN + timedelta(seconds=second), lags=lags))
        store.flush("kafka", [step], {})
        state = step.state

    def lags_in(begin: int, end: int) -> dict[str, float]:
        found = store.lags(BEGAN + timedelta(seconds=begin), BEGAN + timedelta(seconds=end))
        return {node: lag.total_seconds() for node, lag in found.items()}

    assert (lags_in(0, 10), lags_in(30, 99)) == ({}, {})
    assert lags_in(0, 11) == lags_in(15, 16) == lags_in(29, 50) == {"n3": 31.0}
