"""A leak: work is saved and GPUs are off before the flow ends, and water waits for that as long as its size allows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.heat import CHECKPOINT_SECONDS, STAGE_SECONDS
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.policy import plan
from pipelines.recovery.settings import RecoverySettings
from replay.scenario import load_scenario
from replay.simulate import topology_of
from schemas.action import ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology
from tests.pipelines.recovery.playing import T0, At, Clocked, approve, at_second, expect, of_kind, play

Make = Callable[..., Incident]
# Of a GPU at full load: 22 K up to where it throttles, on a plate of 510 J/K that takes 700 W (domain.md 4.6).
THROTTLES_SECONDS = (87 - 65) * 510 / 700
SLOW, FAST, BURST = 1.0, 3.0, 42.0  # percent of the reservoir a minute; 21 L/min is a hose of 6 mm at 2 bar


@pytest.fixture
def store() -> Iterator[OperationsStore]:
    """In memory alone: seconds are at stake here, not the database."""
    opened = OperationsStore.open(":memory:")
    yield opened
    opened.close()


def leak(incident: Make, rate: float | None, root: str = "cdu-0", **changes: Any) -> Incident:
    """Two signs, the second of which came when the incident was detected."""
    values = {"level_lost_percent_per_minute": rate, "seconds_since_first_sign": 0.0}
    said = {
        "detector": "coolant.leak", "cause": "coolant_leak", "entity": root, "first_bad_at": T0.isoformat(),
        "values": values,
    }  # fmt: skip
    return incident("coolant_leak", "cdu", root, **{"evidence": (said,), **changes})


def test_one_sign_alone_is_a_ticket_and_takes_no_flow_and_no_gpu(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    expect(play(leak(incident, BURST, severity="ticket"), topology, store, 300), At(0, "open_ticket"))


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [
        (SLOW, 60 * 1.5 / SLOW),  # as much again runs out as before it was seen, 1.5 %
        (0.05, 120),  # it would take half an hour, and two minutes are long enough for people
        (-0.2, 120),  # level does not fall: the rope is wet and the pressure low
        (None, 20 + 2 * 2),  # nobody knows how much runs out: a checkpoint of 20 s and two stages of 2 s
    ],
)
def test_a_leak_is_isolated_when_checkpoint_and_shutdown_have_had_their_time(
    store: OperationsStore, topology: Topology, incident: Make, rate: float | None, seconds: int
) -> None:
    told = play(leak(incident, rate), topology, store, 130)
    expect(
        told, At(0, "open_ticket"), At(0, "cap_power"), At(seconds - 24, "global_checkpoint"),
        At(seconds - 4, "staged_shutdown"), At(seconds - 4, "isolate_loop"),
    )  # fmt: skip


def test_a_burst_hose_waits_for_nobody(store: OperationsStore, topology: Topology, incident: Make) -> None:
    told = play(leak(incident, BURST), topology, store, 3)
    kinds = ("open_ticket", "cap_power", "global_checkpoint", "staged_shutdown", "isolate_loop")
    expect(told, *(At(0, kind) for kind in kinds))


class Endless(Clocked):
    """Begins a checkpoint that does not end."""

    def apply(self, request: ActionRequest) -> ActionOutcome:
        done = super().apply(request)
        return ActionOutcome(done=False, under_way=True) if request.kind == "global_checkpoint" else done

    def carry_on(self, request: ActionRequest, seconds: float) -> ActionOutcome:
        return ActionOutcome(done=False, under_way=True, detail=f"{request.kind} for {seconds:g} s")


@pytest.mark.parametrize(("rate", "shutdown"), [(FAST, 30 - 4), (BURST, 0)])
def test_water_does_not_wait_for_a_checkpoint_that_does_not_end(
    store: OperationsStore, topology: Topology, incident: Make, rate: float, shutdown: int
) -> None:
    plant, one = Endless(), leak(incident, rate)
    for second in range(40):
        at_second(second, one, topology, store, plant)
    last = [(at, kind) for at, kind in plant.told if kind in ("staged_shutdown", "isolate_loop")]
    expect(last, At(shutdown, "staged_shutdown"), At(shutdown, "isolate_loop"))
    assert "what was not saved is lost either way" in of_kind(store, "staged_shutdown").why


def test_a_loop_whose_shutdown_fails_is_isolated_all_the_same(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, one = Clocked(failing=("staged_shutdown",)), leak(incident, SLOW)
    for second in range(95):
        at_second(second, one, topology, store, plant)
    assert [at for at, kind in plant.told if kind == "isolate_loop"] == [90]


def test_people_who_approve_do_not_let_it_run_until_the_deadline(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, one = Clocked(), leak(incident, SLOW)
    at_second(0, one, topology, store, plant)
    approve(store, "global_checkpoint")
    at_second(3, one, topology, store, plant)
    approve(store, "staged_shutdown")
    at_second(5, one, topology, store, plant)
    expect(plant.told[2:], At(3, "global_checkpoint"), At(5, "staged_shutdown"), At(5, "isolate_loop"))


def test_whoever_objects_to_the_shutdown_keeps_the_flow(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, one = Clocked(), leak(incident, SLOW)
    for second in range(70):
        at_second(second, one, topology, store, plant)
    Ledger(store).answer(of_kind(store, "staged_shutdown").request.id, "ann", "dry", T0, verdict="rejected")
    for second in range(70, 200):
        at_second(second, one, topology, store, plant)
    assert {kind for _, kind in plant.told} == {"open_ticket", "cap_power", "global_checkpoint"}


def test_a_ticket_that_becomes_a_page_after_hours_is_timed_from_then(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    """A request is too old after an hour (recovery.expires_seconds), and no deadline passes before there is one."""
    plant, hours, wet = Clocked(), 7200, leak(incident, SLOW, severity="ticket")
    at_second(0, wet, topology, store, plant)
    said = wet.evidence[0]
    joined = {**said, "values": {**said["values"], "seconds_since_first_sign": float(hours)}}
    page = replace(wet, severity="page", evidence=(joined,))
    for second in range(hours, hours + 91):
        at_second(second, page, topology, store, plant)
    expect(
        plant.told, At(0, "open_ticket"), At(hours, "cap_power"), At(hours + 66, "global_checkpoint"),
        At(hours + 86, "staged_shutdown"), At(hours + 86, "isolate_loop"),
    )  # fmt: skip


def seconds_of(request: ActionRequest) -> float:
    return (datetime.fromisoformat(request.parameters["deadline_at"]) - request.requested_at) / timedelta(seconds=1)


def test_a_checkpoint_is_too_long_to_be_taken_without_flow() -> None:
    assert CHECKPOINT_SECONDS > THROTTLES_SECONDS == pytest.approx(16.0, abs=0.1)


@pytest.mark.parametrize("rate", [None, 0.0, 0.1, SLOW, FAST, 4.2, 10.0, BURST])
def test_no_gpu_throttles_for_want_of_flow_and_no_more_runs_out_than_before_it_was_seen(
    incident: Make, rate: float | None
) -> None:
    """On the largest loop that comes with the project: 32 nodes, 256 GPUs, three stages."""
    topology = topology_of(load_scenario("incident_day"))
    requests = {one.kind: one for one in plan(leak(incident, rate, "cdu-00"), topology, RecoverySettings())}
    saves, begins, ends = (
        seconds_of(requests[kind]) for kind in ("global_checkpoint", "staged_shutdown", "isolate_loop")
    )
    stages = requests["staged_shutdown"].parameters["stages"]
    assert sum(map(len, stages)) == 256
    assert begins + STAGE_SECONDS * len(stages) - ends <= THROTTLES_SECONDS
    assert saves == 0 or saves + CHECKPOINT_SECONDS <= begins + 1e-6
    assert ends <= 120
    assert rate is None or rate * ends / 60 <= 1.5 + 1e-6


def test_nothing_that_a_leak_switches_off_may_switch_itself_on(topology: Topology, incident: Make) -> None:
    requests = plan(leak(incident, SLOW), topology, RecoverySettings())
    taken = [one for one in requests if one.kind in ("staged_shutdown", "isolate_loop")]
    assert [one.parameters["automatic_power_on"] for one in taken] == [False, False]
