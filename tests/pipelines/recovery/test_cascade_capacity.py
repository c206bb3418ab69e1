"""A lost power domain from its spares to full capacity again: what is out, what stands in, and what comes back."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from pipelines.failure_map import capacity, failure_map
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology
from schemas.topology_presets import build

Make = Callable[..., Incident]
T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENFORCE = RecoverySettings(mode="enforce", approvals={})
BACK_SECONDS = 600  # power is back
PROBATION_SECONDS = int(ENFORCE.node_clean_seconds)


@dataclass
class Plant:
    asked: list[ActionRequest] = field(default_factory=list)

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.asked.append(request)
        return ActionOutcome(done=True)

    def outcome_of(self, request_id: str) -> None:
        return None

    def kinds(self) -> list[str]:
        return [request.kind for request in self.asked]


def run(one: Incident, topology: Topology, store: OperationsStore, plant: Plant, seconds: float) -> None:
    now = T0 + timedelta(seconds=seconds)
    store.upsert_incidents([one], now)
    recover([one], topology, store, ENFORCE, dict.fromkeys(get_args(ActionKind), plant), now)


def dark(incident: Make, topology: Topology, *pdus: str) -> Incident:
    members = tuple(sorted(gpu for pdu in pdus for gpu in topology.gpus_under("pdu", pdu)))
    return incident("power_domain_lost", "pdu", *pdus, members=members)


def over(one: Incident) -> Incident:
    return replace(one, state="resolved", ends_at=T0 + timedelta(seconds=BACK_SECONDS))


def available(store: OperationsStore) -> set[str]:
    return {spare.node for spare in store.spares() if spare.state == "available"}


def test_384_gpus_of_24576_leave_98_percent_and_128_spares_bring_half_a_percent_back(incident: Make) -> None:
    topology = build("ndr-fat-tree", pods=24, spare_nodes=16)
    compute = (3072 - 16) * 8
    store, plant = OperationsStore.open(":memory:"), Plant()
    assert capacity(store, topology).share == 1.0
    pdus = [f"pdu-{number:03}" for number in range(3)]  # 16 nodes each, none of them a spare
    lost = dark(incident, topology, *pdus)
    store.upsert_incidents([lost], T0)
    assert len(lost.members) == 384
    assert capacity(store, topology).share == pytest.approx((compute - 384) / compute)
    run(lost, topology, store, plant, 2)
    runs = capacity(store, topology)
    assert (runs.gpus, runs.gpus_out, runs.gpus_stand_in) == (compute, 384, 128)
    assert runs.share == pytest.approx((compute - 384 + 128) / compute)
    reclaimed = next(request for request in plant.asked if request.kind == "reclaim_gpus")
    assert reclaimed.parameters["nodes"] == 48 - 16
    store.close()


def test_a_rehearsal_counts_the_spares_that_it_would_get_and_the_nodes_that_are_left_short(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    # Seven of the domain's eight nodes are no spares; of the four spares one is dark, and one stands in for a node.
    one, lost = incident("node_lost", "node", "n00017"), dark(incident, topology, "pdu-0")
    records = recover([one, lost], topology, store, RecoverySettings(), {}, T0)
    given, reclaimed = (
        next(each for each in records if (each.request.incident, each.request.kind) == (lost.id, kind))
        for kind in ("allocate_spare", "reclaim_gpus")
    )
    assert (given.outcome, given.request.parameters["would_get"]) == ("dry-run", 2)
    assert given.why.endswith("; 2 of the 7 wanted")
    assert (reclaimed.outcome, reclaimed.request.parameters["nodes"]) == ("dry-run", 7 - 2)


def test_spares_that_are_in_use_are_not_counted_on_when_gpus_are_reclaimed(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, one, lost = Plant(), incident("node_lost", "node", "n00017"), dark(incident, topology, "pdu-0")
    run(one, topology, store, plant, 2)
    run(lost, topology, store, plant, 3)
    assert next(each for each in plant.asked if each.kind == "reclaim_gpus").parameters["nodes"] == 7 - 2


def test_capacity_is_full_again_when_power_is_back_and_spares_return_after_probation(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, lost = Plant(), dark(incident, topology, "pdu-0")
    run(lost, topology, store, plant, 2)
    assert capacity(store, topology).share == pytest.approx((224 - 56 + 24) / 224)  # 7 of 28 nodes, 3 spares
    assert [(one.entity, one.state) for one in failure_map(store, T0) if one.kind == "pdu"] == [("pdu-0", "failed")]
    run(over(lost), topology, store, plant, BACK_SECONDS + 30)
    assert capacity(store, topology).share == 1.0
    run(over(lost), topology, store, plant, BACK_SECONDS + PROBATION_SECONDS - 1)
    assert available(store) == {"n00007"}
    run(over(lost), topology, store, plant, BACK_SECONDS + PROBATION_SECONDS)
    assert available(store) == {"n00007", "n00015", "n00023", "n00031"}
    assert plant.kinds().count("release_spare") == 1
    run(over(lost), topology, store, plant, BACK_SECONDS + PROBATION_SECONDS + 60)
    assert plant.kinds().count("release_spare") == 1


def test_spares_stay_while_the_domain_sags_again(store: OperationsStore, topology: Topology, incident: Make) -> None:
    plant, lost = Plant(), dark(incident, topology, "pdu-0")
    run(lost, topology, store, plant, 2)
    sag = incident("power_sag", "pdu", "pdu-0", detected_at=T0 + timedelta(seconds=BACK_SECONDS + 60))
    store.upsert_incidents([sag], T0 + timedelta(seconds=BACK_SECONDS + 60))
    run(over(lost), topology, store, plant, BACK_SECONDS + 2 * PROBATION_SECONDS)
    assert "release_spare" not in plant.kinds()


def test_a_spare_that_took_over_for_one_node_keeps_its_place(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, lost = Plant(), incident("node_lost", "node", "n00001")
    run(lost, topology, store, plant, 2)
    for seconds in (BACK_SECONDS, BACK_SECONDS + 2 * PROBATION_SECONDS, BACK_SECONDS + 4 * PROBATION_SECONDS):
        run(over(lost), topology, store, plant, seconds)
    assert "return_to_service" in plant.kinds()
    assert "release_spare" not in plant.kinds()


def test_spares_of_an_earlier_cascade_serve_in_the_next(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, lost = Plant(), dark(incident, topology, "pdu-0")
    run(lost, topology, store, plant, 2)
    run(over(lost), topology, store, plant, BACK_SECONDS + PROBATION_SECONDS)
    later = T0 + timedelta(seconds=9000)
    again = replace(dark(incident, topology, "pdu-2"), id="inc-again", detected_at=later, starts_at=later)
    run(again, topology, store, plant, 9000)
    given = [request.parameters["spares"] for request in plant.asked if request.kind == "allocate_spare"]
    assert [len(spares) for spares in given] == [3, 3]
