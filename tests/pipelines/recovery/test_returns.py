"""The way back when something is in its way: nothing stays out without a word, or comes back into what is broken."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from pipelines.failure_map import returning
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRecord, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENFORCE = RecoverySettings(mode="enforce", approvals={})
Make = Callable[..., Incident]


class Plant:
    """Does everything but what fails."""

    def __init__(self, *failing: str) -> None:
        self.failing, self.taken = failing, list[str]()

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.taken.append(request.kind)
        return ActionOutcome(done=request.kind not in self.failing, detail="as it went")

    def outcome_of(self, request_id: str) -> None:
        return None


def run(  # noqa: PLR0917 - what recover takes, in its order
    store: OperationsStore, topology: Topology, plant: Plant, seconds: float, incidents: list[Incident],
    chosen: RecoverySettings = ENFORCE,
) -> None:  # fmt: skip
    now = T0 + timedelta(seconds=seconds)
    store.upsert_incidents(incidents, now)
    recover(incidents, topology, store, chosen, dict.fromkeys(get_args(ActionKind), plant), now)


def over(one: Incident, seconds: float) -> Incident:
    return replace(one, state="resolved", ends_at=T0 + timedelta(seconds=seconds))


def of_kind(store: OperationsStore, kind: str) -> list[ActionRecord]:
    return [one for one in Ledger(store).actions(limit=None) if one.request.kind == kind]


def told(store: OperationsStore, seconds: float, chosen: RecoverySettings = ENFORCE) -> str:
    """What is said of the one place that is out."""
    (words,) = returning(store, chosen, T0 + timedelta(seconds=seconds)).values()
    return words


def test_a_port_says_what_it_waits_for_and_then_when_it_returns_and_does(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, flap = Plant(), incident("link_flap", "link", "c00003")
    dead = incident("switch_lost", "switch", "leaf-0", symptoms=(("link", "c00003"),))
    run(store, topology, plant, 1, [flap, dead])
    assert told(store, 1) == f"by itself, 126 min without a complaint after {flap.id} is over"
    run(store, topology, plant, 20, [over(flap, 10), dead])
    assert told(store, 20) == "by itself, 126 min without a complaint after what complains of it now is over"
    run(store, topology, plant, 30, [over(flap, 10), over(dead, 30)])
    at = 30 + 126 * 60  # 12:00:30 and two hours and six minutes
    assert told(store, 30).startswith("by itself at 2026-03-01 14:06:30; a complaint before then begins its 126 min")
    run(store, topology, plant, at - 1, [])
    assert "return_to_service" not in plant.taken
    run(store, topology, plant, at, [])
    assert plant.taken[-1] == "return_to_service"


def test_a_node_says_that_its_diagnostics_come_before_the_time_it_must_stay_clean(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, lost = Plant(), incident("node_lost", "node", "n00001")
    run(store, topology, plant, 1, [lost])
    assert told(store, 1) == f"by itself, 30 min without a complaint, diagnostics passed, after {lost.id} is over"
    run(store, topology, plant, 10, [over(lost, 10)])
    assert told(store, 10).startswith("by itself at 2026-03-01 12:30:10; ")


def test_what_does_not_return_by_itself_names_the_command(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    run(store, topology, Plant(), 1, [incident("link_flap", "link", "c00003")])
    by_hand = RecoverySettings(mode="enforce", modes={"return_to_service": "dry-run"})
    assert told(store, 1, by_hand).endswith("as return_to_service is not enforced: hotspare actions returned leaf-0:4")


@pytest.mark.parametrize("failing", ["field_diagnostics", "return_to_service"])
def test_a_node_that_cannot_return_is_told_to_a_person_once(
    store: OperationsStore, topology: Topology, incident: Make, failing: str
) -> None:
    plant, lost = Plant(failing), incident("node_lost", "node", "n00001")
    run(store, topology, plant, 1, [lost])
    for seconds in (10, 11, 5000, 9000):
        run(store, topology, plant, seconds, [over(lost, 10)])
    assert [one.request.reason for one in of_kind(store, "open_ticket")] == [f"{failing} of n00001 failed: as it went"]


def test_spares_that_cannot_be_released_are_told_to_a_person(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, dark = Plant("release_spare"), incident("power_domain_lost", "pdu", "pdu-0")
    run(store, topology, plant, 1, [dark])
    for seconds in (10, 5000):
        run(store, topology, plant, seconds, [over(dark, 10)])
    assert "release_spare of pdu-0 failed: as it went" in {one.request.reason for one in of_kind(store, "open_ticket")}


def test_a_return_that_people_must_approve_is_not_called_off_because_its_incident_is_over(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    asking = RecoverySettings(mode="enforce", approvals={"field_diagnostics": 1})
    plant, lost = Plant(), incident("node_lost", "node", "n00001")
    run(store, topology, plant, 1, [lost], asking)
    for seconds in (10, 11, 12):
        run(store, topology, plant, seconds, [over(lost, 10)], asking)
    (waiting,) = of_kind(store, "field_diagnostics")
    Ledger(store).answer(waiting.request.id, "ann", "", T0, verdict="approved")
    run(store, topology, plant, 13, [over(lost, 10)], asking)
    assert plant.taken[-1] == "field_diagnostics"


def test_a_link_does_not_return_to_a_switch_that_is_lost(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, flap = Plant(), incident("link_flap", "link", "c00003")
    dead = incident("switch_lost", "switch", "leaf-0", symptoms=(("link", "c00003"),))
    run(store, topology, plant, 1, [flap])
    clean = ENFORCE.link_clean_seconds
    run(store, topology, plant, 20 + clean, [over(flap, 10), dead])  # the switch explains it now
    assert "return_to_service" not in plant.taken
    run(store, topology, plant, 30 + clean, [over(flap, 10), over(dead, 30 + clean)])
    run(store, topology, plant, 30 + 2 * clean, [])
    assert plant.taken[-1] == "return_to_service"
