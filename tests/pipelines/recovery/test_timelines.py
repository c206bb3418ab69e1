"""Recoveries as timelines: which action at which second after detection, and the timers that the incident shows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipelines.cli.session import replayed
from pipelines.operations_store import OperationsStore
from pipelines.recovery.heat import flow_liters_per_minute, seconds_to_shutdown, stages
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.phases import phases
from pipelines.settings import Settings
from pipelines.sources.choose import scenario_source
from replay.scenario import load_scenario
from replay.simulate import topology_of
from schemas.incident import Incident
from schemas.topology import Topology
from tests.pipelines.recovery.playing import T0, At, Between, Clocked, approve, at_second, expect, of_kind, play
from tests.pipelines.timelines.plant import RUNS_OUT

Make = Callable[..., Incident]


def test_a_dead_gpu_is_replaced_within_eight_seconds(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    lost = incident("gpu_fallen_off_bus", "gpu", "n00001/3")
    told = play(lost, topology, store, 8)
    expect(
        told, At(0, "drain_node"), At(0, "pause_stage"), At(0, "allocate_spare"), At(0, "restore_shard"),
        At(0, "resume"), At(0, "reboot_node"),
    )  # fmt: skip
    timers = phases(Ledger(store).actions(limit=None)[::-1], T0)
    bound = sum(
        (one.deadline_at - one.begins_at).total_seconds() for one in timers if one.deadline_at and one.begins_at
    )
    assert bound == 8
    assert not any(one.late for one in timers)


def test_a_throttling_gpu_gets_flow_then_less_power_then_is_drained(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    hot = incident("gpu_thermal_throttle", "gpu", "n00001/3")
    expect(
        play(hot, topology, store, 90),
        At(0, "raise_flow"), At(0, "open_ticket"), At(20, "cap_power"), At(80, "drain_node"),
    )  # fmt: skip


def test_a_gpu_that_flow_has_cooled_is_neither_capped_nor_drained(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    hot = incident("gpu_thermal_throttle", "gpu", "n00001/3")
    expect(play(hot, topology, store, 90, over_at=15), At(0, "raise_flow"), At(0, "open_ticket"))
    assert {one.outcome for one in Ledger(store).actions(limit=None) if one.request.kind == "cap_power"} == {
        "cancelled"
    }


DEAD_LOOP: dict[str, Any] = {
    "detector": "coolant.pump_failure", "cause": "coolant_pump_failure", "entity": "cdu-0",
    "values": {"flow_liters_per_minute": 2.0, "normal_flow_liters_per_minute": 100.0, "seconds_to_shutdown": 21.8},
}  # fmt: skip
SLOW_LOOP = {**DEAD_LOOP, "values": {**DEAD_LOOP["values"], "seconds_to_shutdown": 60.0}}


def test_a_loop_without_flow_is_shut_down_in_stages_before_the_hardware_does_it_itself(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    # Without flow 95 C is 21.8 s away; 128 GPUs are two stages of 96 and 32, 2 s each: begin at 17.8 s. A checkpoint
    # takes 20 s, so it cannot wait for people.
    dead = incident("coolant_pump_failure", "cdu", "cdu-0", evidence=(DEAD_LOOP,))
    chosen = play(dead, topology, store, 30)
    expect(
        chosen, At(0, "raise_flow"), At(0, "cap_power"), At(0, "global_checkpoint"), At(0, "open_ticket"),
        Between(17.8, 18.8, "staged_shutdown"),
    )  # fmt: skip
    shutdown = of_kind(store, "staged_shutdown")
    assert [len(stage) for stage in shutdown.request.parameters["stages"]] == [96, 32]
    assert shutdown.why.startswith("approved by 0 of 2 people, and its deadline has come")
    assert "lost" not in shutdown.why


def test_a_checkpoint_that_there_is_time_for_waits_for_people_until_it_would_be_too_late(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    # 60 s, less two stages of 2 s and a checkpoint of 20 s.
    dead = incident("coolant_pump_failure", "cdu", "cdu-0", evidence=(SLOW_LOOP,))
    chosen = play(dead, topology, store, 60)
    expect(chosen[-2:], At(36, "global_checkpoint"), At(56, "staged_shutdown"))


@pytest.mark.parametrize(
    ("agreed", "checkpoint_at"),
    [
        # People are at it three seconds after the page.
        (("global_checkpoint", "staged_shutdown"), 3),
        # Nobody agrees to the checkpoint: 60 s less two stages of 2 s and its own 20 s.
        (("staged_shutdown",), 36),
    ],
)
def test_a_shutdown_that_people_approve_early_comes_after_its_checkpoint_and_what_that_may_help(
    store: OperationsStore, topology: Topology, incident: Make, agreed: tuple[str, ...], checkpoint_at: int
) -> None:
    dead = incident("coolant_pump_failure", "cdu", "cdu-0", evidence=(SLOW_LOOP,))
    play(dead, topology, store, 0)
    for kind in agreed:
        approve(store, kind)
    plant = Clocked()
    for second in range(3, 60):
        at_second(second, dead, topology, store, plant)
    expect(plant.told, At(checkpoint_at, "global_checkpoint"), At(checkpoint_at + 5, "staged_shutdown"))


def test_a_shutdown_whose_checkpoint_failed_waits_until_the_hardware_would_stop_and_says_what_is_lost(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    dead = incident("coolant_pump_failure", "cdu", "cdu-0", evidence=(DEAD_LOOP,))
    plant = Clocked(failing=("global_checkpoint",))
    for second in range(31):
        at_second(second, dead, topology, store, plant)
    assert [at for at, kind in plant.told if kind == "staged_shutdown"] == [18]
    assert of_kind(store, "staged_shutdown").why.endswith(
        "global_checkpoint of 'test' is failed, and what was not saved is lost either way"
    )
    tickets = [one for one in Ledger(store).actions(limit=None) if one.request.kind == "open_ticket"]
    assert any(one.request.reason.startswith("global_checkpoint of test failed") for one in tickets)


def test_a_loop_whose_heat_still_goes_is_shut_down_only_by_people(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    warm = {**DEAD_LOOP, "values": {**DEAD_LOOP["values"], "seconds_to_shutdown": None}}
    chosen = play(incident("coolant_pump_failure", "cdu", "cdu-0", evidence=(warm,)), topology, store, 900)
    expect(chosen, At(0, "raise_flow"), At(0, "cap_power"), At(0, "open_ticket"))
    assert of_kind(store, "global_checkpoint").why == "approved by 0 of 2 people"


def test_a_lost_domain_waits_half_a_minute_for_people_then_saves_what_is_left(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    told = play(incident("power_domain_lost", "pdu", "pdu-0"), topology, store, 32)
    spares = [At(0, kind) for kind in ("allocate_spare", "reclaim_gpus", "restore_shard", "resume", "open_ticket")]
    expect(told, *spares, At(30, "global_checkpoint"))
    allocated = next(one for one in Ledger(store).actions(limit=None) if one.request.kind == "allocate_spare")
    assert len(allocated.request.parameters["spares"]) == 3  # all that stand outside the dark domain


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        # No spares in this cluster: what is left of the pods gives them.
        ("pdu_cascade", [At(0, "reclaim_gpus"), At(0, "open_ticket"), At(30, "global_checkpoint")]),
        # The second sign comes 44 s after the first (timelines/plant.py); 32 GPUs are one stage of 2 s.
        (
            "coolant_leak",
            [
                At(0, "open_ticket"), At(0, "cap_power"),
                Between(44 + RUNS_OUT[0] - 2 - 20, 44 + RUNS_OUT[1] - 2 - 20 + 1, "global_checkpoint"),
                Between(44 + RUNS_OUT[0] - 2, 44 + RUNS_OUT[1] - 2 + 1, "staged_shutdown"),
                Between(44 + RUNS_OUT[0] - 2, 44 + RUNS_OUT[1] - 2 + 1, "isolate_loop"),
            ],
        ),
        ("link_flap", [At(0, "isolate_port"), At(0, "open_ticket")]),
    ],
)  # fmt: skip
def test_what_a_scenario_makes_recovery_do_and_when(scenario: str, expected: list[Any]) -> None:
    loaded = load_scenario(scenario)
    tally = replayed(scenario_source(loaded), Settings())
    fired = next(one for one in tally.incidents.values() if one.cause == loaded.expects[0].cause)
    store = OperationsStore.open(":memory:")
    told = play(replace(fired, state="firing", ends_at=None), topology_of(loaded), store, 44 + int(RUNS_OUT[1]))
    store.close()
    seen = [(at, kind) for at, kind in dict.fromkeys(told) if kind in {one.kind for one in expected}]
    expect(seen, *expected)


def test_heat_balance_is_that_of_the_physics() -> None:
    # 510 J/K from 65 to 95 C at 700 W; what the detector has said comes first
    assert seconds_to_shutdown({}) == pytest.approx(510 * 30 / 700, rel=1e-3)
    assert seconds_to_shutdown({"seconds_to_shutdown": 12.5, "flow_liters_per_minute": 60.0}) == 12.5
    assert seconds_to_shutdown({"seconds_to_shutdown": None, "flow_liters_per_minute": 0.0}) is None
    assert seconds_to_shutdown({"flow_liters_per_minute": 60.0, "normal_flow_liters_per_minute": 100.0}) is None
    # 700 W into PG25 at 10 K: 1.05 L/min (domain.md 1: 1.05 to 1.21 per GPU)
    assert flow_liters_per_minute(700, 10) == pytest.approx(1.053, abs=0.001)
    assert [len(stage) for stage in stages(tuple(f"n/{n}" for n in range(200)), 100, 8)] == [96, 96, 8]
