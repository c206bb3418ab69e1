from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest

from pipelines.recovery.playbook import PLAYBOOK
from pipelines.recovery.policy import plan
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind
from schemas.causes import CAUSES
from schemas.incident import Incident
from schemas.topology import Topology

SETTINGS = RecoverySettings()
Make = Callable[..., Incident]


def test_every_cause_has_its_steps() -> None:
    assert set(PLAYBOOK) == {cause.name for cause in CAUSES}
    assert all(PLAYBOOK.values())


def test_every_step_is_of_a_known_kind_and_waits_only_for_an_earlier_one() -> None:
    for steps in PLAYBOOK.values():
        kinds = [step.kind for step in steps]
        assert set(kinds) <= set(get_args(ActionKind))
        assert all(step.after is None or step.after in kinds[:at] for at, step in enumerate(steps))


@pytest.mark.parametrize(
    ("cause", "kind", "root", "expected"),
    [
        (
            "gpu_fallen_off_bus", "gpu", "n00002/5",
            [("drain_node", "n00002"), ("pause_stage", "n00002"), ("allocate_spare", "n00002"),
             ("restore_shard", "n00002"), ("resume", "n00002"), ("reboot_node", "n00002")],
        ),
        (
            "gpu_memory", "gpu", "n00002/5",
            [("drain_node", "n00002"), ("pause_stage", "n00002"), ("allocate_spare", "n00002"),
             ("restore_shard", "n00002"), ("resume", "n00002"), ("reset_gpu", "n00002/5")],
        ),
        (
            "coolant_pump_failure", "cdu", "cdu-1",
            [("raise_flow", "cdu-1"), ("cap_power", "cdu-1"), ("global_checkpoint", "test"),
             ("staged_shutdown", "cdu-1"), ("open_ticket", "cdu-1")],
        ),
        (
            "coolant_leak", "cdu", "cdu-1",
            [("open_ticket", "cdu-1"), ("cap_power", "cdu-1"), ("global_checkpoint", "test"),
             ("staged_shutdown", "cdu-1"), ("isolate_loop", "cdu-1")],
        ),
        ("link_flap", "link", "s00003", [("isolate_port", "spine-3:1"), ("open_ticket", "s00003")]),
        ("optic_degrading", "link", "s00003", [("open_ticket", "s00003")]),
        ("connector_contaminated", "link", "s00003", [("clean_connector", "s00003")]),
        ("fiber_loss", "cable", "s00003", [("clean_connector", "s00003"), ("reseat", "s00003")]),
        ("telemetry_stale", "source", "gpu:n00001", [("open_ticket", "gpu:n00001")]),
    ],
)  # fmt: skip
def test_what_an_incident_calls_for_in_order(
    topology: Topology, incident: Make, *, cause: str, kind: str, root: str, expected: list[tuple[str, str]]
) -> None:
    requests = plan(incident(cause, kind, root), topology, SETTINGS)
    assert [(request.kind, request.target) for request in requests] == expected


@pytest.mark.parametrize(
    ("code", "work"),
    [
        ("xid 48", "reset_gpu"), ("ecc_uncorrectable", "reset_gpu"), ("row_remap_pending", "reset_gpu"),
        ("row_remap_failure", "rma"), ("xid 64", "rma"),
    ],
)  # fmt: skip
def test_only_a_remap_that_failed_makes_a_gpu_go_back_to_its_maker(
    topology: Topology, incident: Make, code: str, work: str
) -> None:
    """domain.md 4.2: pending wants a reset; RMA when the failure flag is set. An XID 48 alone says neither."""
    evidence = ({"cause": "gpu_memory", "entity": "n00002/5", "code": code},)
    requests = plan(incident("gpu_memory", "gpu", "n00002/5", evidence=evidence), topology, SETTINGS)
    assert [one.kind for one in requests if one.target == "n00002/5"] == [work]


def test_a_lost_power_domain_gets_one_checkpoint_spares_per_domain_and_reclaims_the_rest(
    topology: Topology, incident: Make
) -> None:
    # pdu-0 and pdu-1 hold 16 nodes, two of them spares; two spares are left elsewhere for 14 nodes that had work.
    requests = plan(incident("power_domain_lost", "pdu", "pdu-0", "pdu-1"), topology, SETTINGS)
    assert [(request.kind, request.target) for request in requests] == [
        ("global_checkpoint", "test"),
        ("allocate_spare", "pdu-0"),
        ("allocate_spare", "pdu-1"),
        ("reclaim_gpus", "test"),
        ("restore_shard", "pdu-0"),
        ("restore_shard", "pdu-1"),
        ("resume", "pdu-0"),
        ("resume", "pdu-1"),
        ("open_ticket", "pdu-0"),
        ("open_ticket", "pdu-1"),
    ]
    assert [request.parameters.get("count") for request in requests[1:3]] == [7, 7]
    assert requests[3].parameters["nodes"] == 14 - 2


def test_nothing_is_reclaimed_while_there_are_spares_enough(topology: Topology, incident: Make) -> None:
    roles = topology.nodes.with_columns(
        role=topology.nodes["superblock"].replace_strict({"sb-0": "compute", "sb-1": "spare"})
    )
    requests = plan(incident("power_domain_lost", "pdu", "pdu-0"), replace(topology, nodes=roles), SETTINGS)
    assert "reclaim_gpus" not in {request.kind for request in requests}


@pytest.mark.parametrize("state", ["suspect", "resolved"])
def test_a_suspicion_and_what_is_over_call_for_nothing(topology: Topology, incident: Make, state: str) -> None:
    assert plan(incident("node_lost", "node", "n00001", state=state), topology, SETTINGS) == ()


def test_two_gpus_of_a_node_are_one_drain(topology: Topology, incident: Make) -> None:
    requests = plan(incident("gpu_fatal_error", "gpu", "n00001/0", "n00001/1"), topology, SETTINGS)
    assert [request.target for request in requests if request.kind == "drain_node"] == ["n00001"]
    assert [request.target for request in requests if request.kind == "reset_gpu"] == ["n00001/0", "n00001/1"]


def test_a_reset_waits_for_the_drain_of_its_node(topology: Topology, incident: Make) -> None:
    by_kind = {
        request.kind: request for request in plan(incident("gpu_fatal_error", "gpu", "n00001/0"), topology, SETTINGS)
    }
    assert by_kind["reset_gpu"].parameters["after"] == by_kind["drain_node"].id


def test_requests_are_bounded_and_the_rest_is_left_to_people_aloud(topology: Topology, incident: Make) -> None:
    nodes = [f"n{i:05}" for i in range(32)]
    requests = plan(incident("node_lost", "node", *nodes), topology, RecoverySettings(targets_maximum=3))
    assert len(requests) == 3 * len(PLAYBOOK["node_lost"]) + 1
    assert (requests[-1].kind, requests[-1].reason[:2]) == ("open_ticket", "29")


def test_ids_come_from_content(topology: Topology, incident: Make) -> None:
    lost = incident("node_lost", "node", "n00001", "n00002")
    again = plan(replace(lost, evidence=({"late": 1},)), topology, SETTINGS)
    ids = [request.id for request in plan(lost, topology, SETTINGS)]
    assert ids == [request.id for request in again]
    assert len(set(ids)) == len(ids)


def test_an_unknown_link_and_a_hostile_name_are_carried_as_data(topology: Topology, incident: Make) -> None:
    name = "c'; $(reboot)\n`x`"
    requests = plan(incident("link_flap", "link", name), topology, SETTINGS)
    assert {request.target for request in requests} == {name}
