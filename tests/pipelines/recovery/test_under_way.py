"""An effect that takes long holds nobody up: it is begun, and asked for on later turns, whatever comes in between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import get_args

from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from pipelines.recovery.warm_up import warm_up
from schemas.action import ActionKind, ActionRecord, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology

T0 = datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC)
ENFORCE = RecoverySettings(mode="enforce", approvals={})
Make = Callable[..., Incident]


@dataclass
class Slow:
    """Drains in `takes` seconds, and does everything else at once."""

    takes: float = 3.0
    begun: list[str] = field(default_factory=list)
    pushed: list[float] = field(default_factory=list)

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.begun.append(request.kind)
        if request.kind == "drain_node":
            return ActionOutcome(done=False, under_way=True, detail="2 pods are still there")
        return ActionOutcome(done=True)

    def carry_on(self, request: ActionRequest, seconds: float) -> ActionOutcome:
        assert request.kind == "drain_node"
        self.pushed.append(seconds)
        ended = seconds >= self.takes
        return ActionOutcome(done=ended, under_way=not ended, detail="empty" if ended else "1 pod is still there")

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        raise AssertionError(f"{request_id} was not lost")


def turn(
    store: OperationsStore, topology: Topology, plant: Slow, seconds: float, *lasting: Incident
) -> tuple[ActionRecord, ...]:
    executors = dict.fromkeys(get_args(ActionKind), plant)
    return recover(lasting, topology, store, ENFORCE, executors, T0 + timedelta(seconds=seconds))


def drain_of(store: OperationsStore) -> ActionRecord:
    return next(one for one in Ledger(store).actions(limit=None) if one.request.kind == "drain_node")


def test_what_is_begun_is_an_intent_until_its_executor_says_that_it_has_ended(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, lost = Slow(), incident("node_lost", "node", "n00002")
    turn(store, topology, plant, 0, lost)
    assert (drain_of(store).outcome, drain_of(store).why) == ("pending", "under way: 2 pods are still there")
    assert [kind for kind in plant.begun if kind != "open_ticket"] == ["drain_node"]
    turn(store, topology, plant, 1, lost)
    turn(store, topology, plant, 3, lost)
    assert (drain_of(store).outcome, drain_of(store).why) == ("done", "empty")
    assert plant.pushed == [1.0, 3.0]
    assert plant.begun.count("drain_node") == 1
    assert "resume" in plant.begun  # and its steps have followed


def test_a_drain_goes_on_though_its_incident_is_over_or_another_process_has_taken_over(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    turn(store, topology, Slow(), 0, incident("node_lost", "node", "n00002"))
    turn(store, topology, Slow(), 59)  # another process: nothing of the first one's memory
    assert drain_of(store).outcome == "done"


def test_warming_up_leaves_nothing_behind_and_asks_nobody(store: OperationsStore, topology: Topology) -> None:
    warm_up(topology, store, T0)
    assert Ledger(store).actions(limit=None) == ()
    assert store.incidents(limit=None) == ()
    assert store.spares() == ()


def test_warming_up_touches_nothing_of_what_waits(store: OperationsStore, topology: Topology, incident: Make) -> None:
    turn(store, topology, Slow(), 0, incident("node_lost", "node", "n00002"))
    before = Ledger(store).actions(limit=None)
    warm_up(topology, store, T0 + timedelta(hours=1))
    assert Ledger(store).actions(limit=None) == before
