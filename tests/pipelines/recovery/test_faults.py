"""Recovery while the ground moves: nothing is done twice, nothing is lost, nothing is done that is not written down."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest

from pipelines.operations_database import StoreUnavailable
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology

T0 = datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC)
ENFORCE = RecoverySettings(mode="enforce", approvals={})
Make = Callable[..., Incident]


class Effects:
    """Counts effects; during(request) is called between an effect and its answer."""

    def __init__(self, during: Callable[[ActionRequest], None] = lambda _: None) -> None:
        self.during, self.done = during, list[str]()

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.done.append(request.id)
        self.during(request)
        return ActionOutcome(done=True)

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        return ActionOutcome(done=True, detail="it was done") if request_id in self.done else None


def run(one: Incident, topology: Topology, store: OperationsStore, plant: Effects, seconds: float) -> list[str]:
    executors = dict.fromkeys(get_args(ActionKind), plant)
    records = recover([one], topology, store, ENFORCE, executors, T0 + timedelta(seconds=seconds))
    return [record.outcome for record in records]


@pytest.fixture
def hang(incident: Make) -> Incident:
    return incident("gpu_hang", "gpu", "n00001/3")


def test_nothing_is_done_while_the_store_is_locked(tmp_path: Path, topology: Topology, hang: Incident) -> None:
    store, plant = OperationsStore.open(tmp_path / "o.sqlite", busy_seconds=0.05), Effects()
    other = sqlite3.connect(tmp_path / "o.sqlite", isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(StoreUnavailable, match="locked"):
        run(hang, topology, store, plant, 0)
    assert plant.done == []
    other.execute("rollback")
    other.close()
    assert set(run(hang, topology, store, plant, 1)) == {"done"}
    store.close()


def test_a_store_that_goes_between_effect_and_outcome_leads_to_no_second_effect(
    tmp_path: Path, topology: Topology, hang: Incident
) -> None:
    store = OperationsStore.open(tmp_path / "o.sqlite", busy_seconds=0.05)
    locks: list[sqlite3.Connection] = []

    def lock(_: ActionRequest) -> None:
        locks.append(sqlite3.connect(tmp_path / "o.sqlite", isolation_level=None))
        locks[-1].execute("begin immediate")

    plant = Effects(lock)
    with pytest.raises(StoreUnavailable):
        run(hang, topology, store, plant, 0)
    assert len(plant.done) == 1
    for held in locks:
        held.execute("rollback")
        held.close()
    plant.during = lambda _: None
    run(hang, topology, store, plant, 5)  # the intent is not old enough to be asked about
    # Whoever did it is asked; the ticket that was planned with it was never begun, which only a person can know.
    assert run(hang, topology, store, plant, 61) == ["done", "failed"]
    assert len(plant.done) == 1
    store.close()


def test_a_store_that_is_gone_stops_recovery_aloud(tmp_path: Path, topology: Topology, hang: Incident) -> None:
    store, plant = OperationsStore.open(tmp_path / "o.sqlite"), Effects()
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(StoreUnavailable):
        run(hang, topology, store, plant, 0)
    assert plant.done == []
    store.close()


def test_a_clock_that_steps_back_neither_repeats_nor_shortens_a_cooldown(
    store: OperationsStore, topology: Topology, incident: Make, hang: Incident
) -> None:
    plant = Effects()
    for seconds in (0, -3600, -1, 0, 5):
        run(hang, topology, store, plant, seconds)
    assert len(plant.done) == len(set(plant.done)) == 2
    again = incident("gpu_hang", "gpu", "n00001/3", id="inc-later")
    assert "refused" in run(again, topology, store, plant, -600)
    assert {record.why.partition(":")[0] for record in Ledger(store).actions(outcomes=["refused"])} == {"cooldown"}


def test_a_hostile_name_is_refused_and_is_kept_as_it_was(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    name, plant = "n1'; drop table actions; --\n$(reboot)`id`", Effects()
    run(incident("node_lost", "node", name), topology, store, plant, 0)
    kept = Ledger(store).actions(limit=None)
    assert {record.request.target for record in kept} == {name}
    done = [record.request.kind for record in kept if record.outcome == "done"]
    assert set(done) <= {"open_ticket"}  # a person may be told of it: as data
    assert {record.why.partition(":")[0] for record in kept if record.outcome == "refused"} == {"unknown_target"}
