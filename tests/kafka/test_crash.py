"""Killing an ingest from Kafka anywhere and starting it again gives what an uninterrupted one gives."""

import multiprocessing
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipelines import telemetry_store as module
from pipelines.operations_store import OperationsStore
from pipelines.stream import Tally
from replay.simulate import topology_of
from schemas.topology import Topology
from tests.kafka.broker import Broker
from tests.kafka.ingest_child import DETECTORS, ingest
from tests.kafka.streaming import (
    Place,
    contents,
    incidents,
    kafka_source,
    offsets,
    place,
    produce,
    run,
    scenario,
    send_scenario,
)

pytestmark = pytest.mark.kafka
BATCH = 60


class Killed(BaseException):
    """What stands for a kill: nothing may catch it."""


@pytest.fixture(scope="module")
def filled(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Topics with a coolant scenario of two loops, with late rows, repeats and messages that are none among them."""
    there = place(broker, tmp_path_factory.mktemp("crash"), partitions=2)
    send_scenario(scenario("kafka_coolant"), there.kafka, window_seconds=20)
    loops = [b"{", None, b'{"time": "2026-03-02T09:00:01Z", "cdu": "cdu-00", "ph": 8.5}', b'{"cdu": "cdu-01"}']
    produce(there.kafka, "coolant_loop", [{"value": value, "key": b"pod-1"} for value in loops])
    again = b'{"time": "2026-03-02T09:01:19Z", "cdu": "cdu-00", "pump": "1", "speed_rpm": 10.0}'
    produce(there.kafka, "coolant_pump", [{"value": again, "key": b"x"}] * 3)
    return there


@pytest.fixture(scope="module")
def topology() -> Topology:
    return topology_of(scenario("kafka_coolant"))


@pytest.fixture(scope="module")
def uninterrupted(filled: Place, topology: Topology) -> dict[str, Any]:
    """What stands in the stores after a run that nobody interrupts."""
    run(kafka_source(filled.kafka, topology, batch=BATCH), filled.folder / "whole", DETECTORS)
    return outcome(filled.folder / "whole")


def outcome(folder: Path) -> dict[str, Any]:
    return {**contents(folder), "offsets": offsets(folder), "incidents": incidents(folder)}


def compare(folder: Path, expected: dict[str, Any]) -> None:
    found = outcome(folder)
    for name in expected:
        assert found[name] == expected[name], name


def test_the_uninterrupted_run_has_something_of_everything(uninterrupted: dict[str, Any]) -> None:
    for name in ("coolant_loop", "coolant_pump", "findings", "late", "quarantine", "offsets", "incidents"):
        assert uninterrupted[name], name
    assert len(uninterrupted["quarantine"]) == 3


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, point: int) -> Iterator[None]:
    """A kill at the n-th step: each statement in DuckDB and its commit, before and after, and each upsert of incidents."""
    left = [point]

    def step() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    class Connection:
        def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
            self.connection = connection

        def __getattr__(self, name: str) -> Any:
            method = getattr(self.connection, name)
            if name not in ("execute", "begin", "commit", "register"):
                return method

            def watched(*arguments: Any) -> Any:
                step()
                result = method(*arguments)
                if name == "commit":
                    step()
                return self if result is self.connection else result

            return watched

    connect, upsert = duckdb.connect, OperationsStore.upsert_incidents

    def upsert_watched(self: OperationsStore, *arguments: Any, **named: Any) -> None:
        step()
        upsert(self, *arguments, **named)
        step()

    with monkeypatch.context() as patch:
        patch.setattr(module.duckdb, "connect", lambda *a, **k: Connection(connect(*a, **k)))
        patch.setattr(OperationsStore, "upsert_incidents", upsert_watched)
        yield


def attempt(place_: Place, topology: Topology, folder: Path, batch: int = BATCH) -> Tally | None:
    try:
        return run(kafka_source(place_.kafka, topology, batch=batch), folder, DETECTORS)
    except Killed:
        return None


def points(
    folder: Path,
    chosen: Sequence[int],
    place_: Place,
    topology: Topology,
    patch: pytest.MonkeyPatch,
    batch: int = BATCH,
) -> int:
    """One ingest that is killed at these points of its consecutive lives, and then left alone. How often it was."""
    kills = 0
    for point in chosen:
        with killed_at(patch, point):
            if attempt(place_, topology, folder, batch) is not None:
                break
        kills += 1
    attempt(place_, topology, folder, batch)
    return kills


def test_killed_at_every_statement_of_its_first_flush(
    filled: Place, topology: Topology, uninterrupted: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = points(tmp_path, range(0, 90), filled, topology, monkeypatch)
    compare(tmp_path, uninterrupted)
    assert kills >= 60


@pytest.mark.parametrize("seed", range(5))
def test_killed_at_random_points_of_all_its_lives(
    filled: Place, topology: Topology, uninterrupted: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:  # fmt: skip
    chosen = random.Random(seed)
    lives = [chosen.randrange(10, 120) for _ in range(14)]
    assert points(tmp_path, lives, filled, topology, monkeypatch, batch=23) >= 5
    compare(tmp_path, uninterrupted)


def test_a_process_that_is_killed_goes_on_where_it_was(
    filled: Place, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    """SIGKILL at moments of a seeded choice; the lease of the dead process does not keep the next one waiting."""
    chosen, context = random.Random(24576), multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.kafka.ingest_child"])
    killed = 0
    for _ in range(12):
        begins = context.Event()
        child = context.Process(target=ingest, args=(filled.kafka.model_dump(), tmp_path, 23, "kafka_coolant", begins))
        child.start()
        assert begins.wait(60)
        child.join(chosen.uniform(0.1, 1.2))
        if child.is_alive():
            child.kill()
            killed += 1
        child.join()
        if child.exitcode == 0:
            break
    assert killed >= 3
    last = context.Process(
        target=ingest, args=(filled.kafka.model_dump(), tmp_path, 23, "kafka_coolant", context.Event())
    )
    last.start()
    last.join(60)
    assert last.exitcode == 0
    compare(tmp_path, uninterrupted)
