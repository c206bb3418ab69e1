"""A pump that goes on again while its loop is about to be shut down, and one that fails a second time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from pipelines.operations_store import OperationsStore
from pipelines.recovery.ledger import Ledger
from schemas.incident import Incident
from schemas.topology import Topology
from tests.pipelines.recovery.playing import T0, At, Clocked, approve, at_second, expect, of_kind

Make = Callable[..., Incident]
LEFT_SECONDS = 60.0  # until the hardware stops: less two stages of 2 s the shutdown begins, 20 s before it a checkpoint
CHECKPOINT_AT, SHUTDOWN_AT = 60 - 4 - 20, 60 - 4


def pump(since: datetime, *, active: bool = True) -> dict[str, Any]:
    """What coolant.pump_failure says of cdu-0, which has been without flow since then."""
    return {
        "detector": "coolant.pump_failure", "cause": "coolant_pump_failure", "entity": "cdu-0", "active": active,
        "values": {
            "flow_liters_per_minute": 2.0, "normal_flow_liters_per_minute": 100.0, "seconds_to_shutdown": LEFT_SECONDS,
            "shuts_down_at": (since + timedelta(seconds=LEFT_SECONDS)).isoformat(),
        },
    }  # fmt: skip


@pytest.fixture
def dead(incident: Make) -> Incident:
    return incident("coolant_pump_failure", "cdu", "cdu-0", evidence=(pump(T0),))


def over(one: Incident, second: int) -> Incident:
    ended = T0 + timedelta(seconds=second)
    return replace(one, state="resolved", ends_at=ended, evidence=(pump(T0, active=False),))


def again(one: Incident, second: int) -> Incident:
    """The same incident, which goes on: its pump failed again before it was forgotten."""
    return replace(one, evidence=(pump(T0 + timedelta(seconds=second)),), flaps=1)


def test_a_loop_whose_pump_goes_on_is_left_alone_while_its_incident_waits_to_be_over(
    store: OperationsStore, topology: Topology, dead: Incident
) -> None:
    back, plant = replace(dead, evidence=(pump(T0, active=False),)), Clocked()
    for second in range(61):
        at_second(second, dead if second < 30 else back, topology, store, plant)
    expect(plant.told, At(0, "raise_flow"), At(0, "cap_power"), At(0, "open_ticket"))


def test_a_pump_that_fails_again_has_all_of_its_time_and_a_checkpoint(
    store: OperationsStore, topology: Topology, dead: Incident
) -> None:
    plant = Clocked()
    at_second(0, dead, topology, store, plant)
    at_second(10, over(dead, 10), topology, store, plant)
    first = len(plant.told)
    for second in range(200, 261):
        at_second(second, again(dead, 200), topology, store, plant)
    expect(plant.told[first:], At(200 + CHECKPOINT_AT, "global_checkpoint"), At(200 + SHUTDOWN_AT, "staged_shutdown"))
    tickets = [one for one in Ledger(store).actions(limit=None) if one.request.kind == "open_ticket"]
    assert [one.request.reason for one in tickets] == ["coolant pump failed: repair or exchange it"]  # nothing was late


def test_who_agreed_to_what_the_pump_has_made_needless_is_asked_anew_when_it_fails_again(
    store: OperationsStore, topology: Topology, dead: Incident
) -> None:
    plant = Clocked()
    at_second(0, dead, topology, store, plant)
    approve(store, "global_checkpoint")
    at_second(10, over(dead, 10), topology, store, plant)
    at_second(200, again(dead, 200), topology, store, plant)
    assert of_kind(store, "global_checkpoint").why.startswith("approved by 0 of 2 people")
    approve(store, "global_checkpoint")
    at_second(201, again(dead, 200), topology, store, plant)
    assert plant.told[-1] == (201, "global_checkpoint")


def test_what_a_person_cancelled_stays_so_when_the_pump_fails_again(
    store: OperationsStore, topology: Topology, dead: Incident
) -> None:
    plant = Clocked()
    at_second(0, dead, topology, store, plant)
    Ledger(store).cancel(of_kind(store, "global_checkpoint").request.id, "ann", "no", T0)
    at_second(10, over(dead, 10), topology, store, plant)
    for second in range(200, 261, 10):
        at_second(second, again(dead, 200), topology, store, plant)
    assert of_kind(store, "global_checkpoint").why == "cancelled by ann: no"


def test_a_gpu_that_throttles_again_gets_time_before_it_is_drained(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    # Flow has 20 s to help, then power 60 s. It throttles for 30 s, and again from 200 s on.
    def hot(second: int) -> dict[str, Any]:
        since = (T0 + timedelta(seconds=second)).isoformat()
        return {"cause": "gpu_thermal_throttle", "entity": "n00001/3", "active": True, "first_bad_at": since}

    first = incident("gpu_thermal_throttle", "gpu", "n00001/3", evidence=(hot(0),))
    plant = Clocked()
    for second in range(31):
        at_second(second, first, topology, store, plant)
    at_second(60, replace(first, state="resolved", ends_at=T0 + timedelta(seconds=30)), topology, store, plant)
    for second in range(200, 271):
        at_second(second, replace(first, evidence=(hot(200),)), topology, store, plant)
    expect(plant.told, At(0, "raise_flow"), At(0, "open_ticket"), At(20, "cap_power"), At(200 + 60, "drain_node"))


@pytest.mark.parametrize("later", [600, 7200])
def test_a_loop_that_loses_its_last_flow_later_has_all_of_its_time_however_old_its_incident_is(
    store: OperationsStore, topology: Topology, dead: Incident, later: int
) -> None:
    # With half of its flow a loop finds a new balance; the rest goes ten minutes or two hours later.
    half = pump(T0)
    half["values"] = {**half["values"], "seconds_to_shutdown": None, "shuts_down_at": None}
    plant = Clocked()
    for second in range(0, later, 300):
        at_second(second, replace(dead, evidence=(half,)), topology, store, plant)
    first = len(plant.told)
    for second in range(later, later + 61):
        at_second(second, again(dead, later), topology, store, plant)
    wanted = At(later + CHECKPOINT_AT, "global_checkpoint"), At(later + SHUTDOWN_AT, "staged_shutdown")
    expect(plant.told[first:], *wanted)
