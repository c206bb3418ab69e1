"""Killing an ingest from Kafka anywhere and starting it again gives what an uninterrupted one gives."""

import multiprocessing
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Ground:
    """Where it is read from, the cluster, and what stands in the stores after a run that nobody interrupts."""

    place: Place
    topology: Topology
    uninterrupted: dict[str, Any]


@pytest.fixture(scope="module")
def ground(filled: Place) -> Ground:
    topology = topology_of(scenario("kafka_coolant"))
    run(kafka_source(filled.kafka, topology, batch=BATCH), filled.folder / "whole", DETECTORS)
    return Ground(filled, topology, outcome(filled.folder / "whole"))


def outcome(folder: Path) -> dict[str, Any]:
    return {**contents(folder), "offsets": offsets(folder), "incidents": incidents(folder)}


def compare(folder: Path, expected: dict[str, Any]) -> None:
    found = outcome(folder)
    for name, rows in expected.items():
        assert found[name] == rows, name


def test_the_uninterrupted_run_has_something_of_everything(ground: Ground) -> None:
    found = {name for name, rows in ground.uninterrupted.items() if rows}
    assert found >= {"coolant_loop", "coolant_pump", "findings", "late", "quarantine", "offsets", "incidents"}
    assert len(ground.uninterrupted["quarantine"]) == 3


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, point: int) -> Iterator[None]:
    """A kill at the n-th step: before each statement in DuckDB, after each commit, around each upsert of incidents."""
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


def attempt(ground: Ground, folder: Path, batch: int) -> Tally | None:
    try:
        return run(kafka_source(ground.place.kafka, ground.topology, batch=batch), folder, DETECTORS)
    except Killed:
        return None


def kills(points: Sequence[int], ground: Ground, folder: Path, patch: pytest.MonkeyPatch, *, batch: int = BATCH) -> int:
    """One ingest that is killed at these points of its consecutive lives, and then left alone. How often it was."""
    done = 0
    for point in points:
        with killed_at(patch, point):
            if attempt(ground, folder, batch) is not None:
                break
        done += 1
    attempt(ground, folder, batch)
    return done


def test_killed_at_every_statement_of_its_first_flush(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kills(range(90), ground, tmp_path, monkeypatch) >= 60
    compare(tmp_path, ground.uninterrupted)


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_points_of_all_its_lives(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chosen = random.Random(seed)
    lives = [chosen.randrange(10, 120) for _ in range(14)]
    assert kills(lives, ground, tmp_path, monkeypatch, batch=23) >= 5
    compare(tmp_path, ground.uninterrupted)


def test_a_process_that_is_killed_goes_on_where_it_was(ground: Ground, tmp_path: Path) -> None:
    """SIGKILL at moments of a seeded choice; the lease of the dead process does not keep the next one waiting."""
    chosen, context = random.Random(24576), multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.kafka.ingest_child"])
    killed = 0
    for _ in range(12):
        begins = context.Event()
        arguments = (ground.place.kafka.model_dump(), tmp_path, 23, "kafka_coolant", begins)
        child = context.Process(target=ingest, args=arguments)
        child.start()
        assert begins.wait(60)
        child.join(None if killed == 6 else chosen.uniform(0.1, 1.2))
        if child.is_alive():
            child.kill()
            killed += 1
        child.join()
        if child.exitcode == 0:
            break
    assert child.exitcode == 0
    assert killed >= 3
    compare(tmp_path, ground.uninterrupted)
