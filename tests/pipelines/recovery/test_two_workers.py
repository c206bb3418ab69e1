"""Two workers at one incident: whoever hears of an effect second finds it written, and both go on."""

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENFORCE = RecoverySettings(mode="enforce", approvals={})
Make = Callable[..., Incident]


@dataclass
class Crossed:
    """Drains take their time; the other worker has its turn while this one's drain, or a look after it, is under way.

    lasting: whether a drain is only begun, and looked after on later turns.
    """

    lasting: bool
    other: Callable[[], None] = lambda: None
    taken: list[str] = field(default_factory=list)

    def _cross(self) -> None:
        turn, self.other = self.other, lambda: None
        turn()

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.taken.append(request.id)
        if request.kind != "drain_node":
            return ActionOutcome(done=True)
        if not self.lasting:
            self._cross()
        return ActionOutcome(done=not self.lasting, under_way=self.lasting)

    def carry_on(self, request: ActionRequest, seconds: float) -> ActionOutcome:
        self._cross()
        return ActionOutcome(done=True, detail="empty")

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        return ActionOutcome(done=True, detail="found") if request_id in self.taken else None


def turn(store: OperationsStore, topology: Topology, plant: Crossed, seconds: float, lost: Incident) -> None:
    executors = dict.fromkeys(get_args(ActionKind), plant)
    recover([lost], topology, store, ENFORCE, executors, T0 + timedelta(seconds=seconds))


def events(store: OperationsStore) -> list[str]:
    (drain,) = (one for one in Ledger(store).actions(limit=None) if one.request.kind == "drain_node")
    return [outcome for _, _, outcome, _ in Ledger(store).events(drain.request.id)]


def test_two_workers_who_look_after_one_drain_both_go_on_when_it_has_ended(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, lost = Crossed(lasting=True), incident("node_lost", "node", "n00001")
    turn(store, topology, plant, 1, lost)
    plant.other = lambda: turn(store, topology, plant, 2, lost)
    turn(store, topology, plant, 2, lost)
    assert events(store) == ["pending", "pending", "done"]
    assert len(plant.taken) == len(set(plant.taken)) == 6  # the drain, the four that follow, and the reboot


def test_an_answer_that_comes_after_another_worker_has_asked_changes_nothing(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, lost = Crossed(lasting=False), incident("node_lost", "node", "n00001")
    late = 1 + ENFORCE.unanswered_seconds + 1
    plant.other = lambda: turn(store, topology, plant, late, lost)
    turn(store, topology, plant, 1, lost)
    assert events(store) == ["pending", "done"]
    assert len(plant.taken) == len(set(plant.taken)) == 6


@dataclass(frozen=True)
class Marker:
    """An executor whose effect is one more byte in a file of the request."""

    folder: Path

    def apply(self, request: ActionRequest) -> ActionOutcome:
        with (self.folder / request.id).open("ab") as file:
            file.write(b"x")
        return ActionOutcome(done=True)

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        return ActionOutcome(done=True) if (self.folder / request_id).exists() else None


def _work(folder: Path, topology: Topology, incidents: list[Incident], barrier: Any) -> None:
    store = OperationsStore.open(folder / "operations.sqlite")
    executors = dict.fromkeys(get_args(ActionKind), Marker(folder / "effects"))
    chosen = RecoverySettings(mode="enforce", approvals={}, drained_nodes_minimum=5, drained_nodes_per_superblock=99)
    barrier.wait()
    for number, found in enumerate(incidents):
        recover([found], topology, store, chosen, executors, T0 + timedelta(seconds=number / 10))
    store.close()


def test_two_workers_do_each_action_once_and_share_one_budget(
    tmp_path: Path, topology: Topology, incident: Make
) -> None:
    (tmp_path / "effects").mkdir()
    storm = [incident("node_lost", "node", f"n{i:05}") for i in range(12)]
    plain = replace(topology)  # without what was computed lazily, which a process need not be sent
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2)
    orders = (storm, storm[::-1])
    workers = [spawn.Process(target=_work, args=(tmp_path, plain, order, barrier)) for order in orders]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    assert [worker.exitcode for worker in workers] == [0, 0]
    effects = list((tmp_path / "effects").iterdir())
    assert {file.stat().st_size for file in effects} == {1}
    ledger = Ledger(OperationsStore.open(tmp_path / "operations.sqlite"))
    done = [record for record in ledger.actions(outcomes=["done"], limit=None) if record.request.kind == "drain_node"]
    assert len(done) == 5
    assert {record.outcome for record in ledger.actions(limit=None)} == {"done", "refused"}
    ledger.store.close()
