"""Which spares are free: none is lost to an allocation that came to nothing, and none is taken that fails itself."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from pipelines.operations_records import NotFound
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from pipelines.recovery.spares import fill_pool, returned
from schemas.action import ActionKind, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENFORCE = RecoverySettings(mode="enforce", approvals={})
Make = Callable[..., Incident]


class Giving:
    """Does everything, but answers as it is told to when it is asked for a spare."""

    def __init__(self, answer: ActionOutcome | None = None) -> None:
        self.answer = answer or ActionOutcome(done=True)

    def apply(self, request: ActionRequest) -> ActionOutcome:
        return self.answer if request.kind == "allocate_spare" else ActionOutcome(done=True)

    def outcome_of(self, request_id: str) -> None:
        return None


def run(store: OperationsStore, topology: Topology, plant: Giving, seconds: float, *incidents: Incident) -> None:
    now = T0 + timedelta(seconds=seconds)
    store.upsert_incidents(incidents, now)
    recover(incidents, topology, store, ENFORCE, dict.fromkeys(get_args(ActionKind), plant), now)


def given(store: OperationsStore) -> dict[str, list[str]]:
    asked = (one for one in Ledger(store).actions(limit=None) if one.request.kind == "allocate_spare")
    return {one.request.target: one.request.parameters.get("spares", []) for one in asked if one.outcome == "done"}


def states(store: OperationsStore) -> set[str]:
    return {spare.state for spare in store.spares()}


def test_a_spare_that_nobody_came_to_use_is_free_again(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Giving(ActionOutcome(done=False, recoverable=True, detail="nobody was reached"))
    for seconds in range(1, ENFORCE.attempts_maximum + 2):
        run(store, topology, plant, seconds, incident("node_lost", "node", "n00001"))
    assert states(store) == {"available"}


def test_a_spare_that_may_have_been_used_is_not_given_to_another(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Giving(ActionOutcome(done=False, detail="no answer"))
    run(store, topology, plant, 1, incident("node_lost", "node", "n00001"))
    assert states(store) == {"available", "allocated"}


@pytest.mark.parametrize("severity", ["page", "ticket"])
def test_no_spare_stands_in_while_it_is_in_a_domain_that_people_are_paged_for(
    store: OperationsStore, topology: Topology, incident: Make, severity: str
) -> None:
    # n00007 is the spare of pdu-0, and the nearest to n00009 beside n00015, which stands under pdu-1 with it.
    run(store, topology, Giving(), 1, incident("power_sag", "pdu", "pdu-0", severity=severity))
    held = incident("node_lost", "node", "n00008"), incident("node_lost", "node", "n00009")
    run(store, topology, Giving(), 2, *held)
    taken = {spare for spares in given(store).values() for spare in spares}
    assert ("n00007" in taken) == (severity == "ticket")
    assert len(given(store)) == 2


def test_a_spare_that_fails_while_it_waits_is_drained_and_takes_no_other_with_it(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    for seconds in range(1, 11):
        run(store, topology, Giving(), seconds, incident("node_lost", "node", "n00007"))
    assert given(store) == {}
    done = [one.request.kind for one in Ledger(store).actions(outcomes=["done"])]
    assert sorted(done) == ["drain_node", "reboot_node"]
    assert [spare.node for spare in store.spares() if spare.state == "available"] == ["n00015", "n00023", "n00031"]


def test_a_spare_that_fails_at_work_is_replaced(store: OperationsStore, topology: Topology, incident: Make) -> None:
    run(store, topology, Giving(), 1, incident("node_lost", "node", "n00001"))
    run(store, topology, Giving(), 2, incident("node_lost", "node", "n00007"))
    assert given(store) == {"n00001": ["n00007"], "n00007": ["n00015"]}


def test_of_two_nodes_that_return_only_the_one_that_was_replaced_joins_the_pool(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    fill_pool(store, topology, T0)
    for spare in ("n00015", "n00023", "n00031"):
        store.put_spare(spare, "repair", T0)
    both = incident("node_lost", "node", "n00001", "n00002")
    run(store, topology, Giving(), 2, both)
    assert given(store) == {"n00001": ["n00007"]}
    ended = replace(both, state="resolved", ends_at=T0 + timedelta(seconds=10))
    for seconds in (11, 12 + ENFORCE.node_clean_seconds):
        run(store, topology, Giving(), seconds, ended)
    assert {spare.node for spare in store.spares() if spare.state == "available"} == {"n00001"}


def test_a_person_brings_back_what_nothing_else_does(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    run(store, topology, Giving(), 1, incident("node_lost", "node", "n00001"))  # n00007 takes its place
    run(store, topology, Giving(), 2, incident("node_lost", "node", "n00015"))
    for node in ("n00001", "n00015"):
        assert returned(store, node, "ann", "from its maker", T0).why == "by ann: from its maker"
    assert Ledger(store).taken_out() == ()
    assert {spare.node: spare.state for spare in store.spares()} == {
        "n00001": "available", "n00007": "allocated", "n00015": "available", "n00023": "available",
        "n00031": "available",
    }  # fmt: skip
    with pytest.raises(NotFound, match="'n00001' is not out"):
        returned(store, "n00001", "ann", "", T0)


def test_a_spare_of_which_nobody_knows_whether_it_was_used_is_freed_by_a_person(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Giving(ActionOutcome(done=False, detail="no answer"))
    run(store, topology, plant, 1, incident("node_lost", "node", "n00001"))
    (held,) = (spare.node for spare in store.spares() if spare.state == "allocated")
    returned(store, held, "ann", "it was not", T0)
    assert states(store) == {"available"}
