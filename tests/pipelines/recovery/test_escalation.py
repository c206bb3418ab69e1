"""What did not work is never met with silence, and what was taken out comes back only when it is whole."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from pipelines.operations_holds import Holds
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRecord, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology

T0 = datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC)
ENFORCE = RecoverySettings(mode="enforce", approvals={}, cooldown_seconds=0)
Make = Callable[..., Incident]


class Willing:
    """Does everything, at once."""

    def __init__(self, **answers: ActionOutcome) -> None:
        self.answers, self.taken = answers, list[tuple[str, str]]()

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.taken.append((request.kind, request.target))
        return self.answers.get(request.kind, ActionOutcome(done=True))

    def outcome_of(self, request_id: str) -> None:
        return None


def later(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def run(  # noqa: PLR0917 - what recover takes, in its order
    incidents: list[Incident], topology: Topology, store: OperationsStore, plant: Willing, seconds: float,
    chosen: RecoverySettings = ENFORCE,
) -> tuple[ActionRecord, ...]:  # fmt: skip
    store.upsert_incidents(incidents, later(seconds))
    return recover(incidents, topology, store, chosen, dict.fromkeys(get_args(ActionKind), plant), later(seconds))


def of_kind(records: tuple[ActionRecord, ...], kind: str) -> ActionRecord:
    return next(record for record in records if record.request.kind == kind)


def resets(number: int, incident: Make, seconds: float) -> Incident:
    return incident(
        "gpu_fatal_error", "gpu", "n00001/0", id=f"inc-{number}", starts_at=later(seconds), detected_at=later(seconds)
    )


def test_two_resets_then_field_diagnostics_then_rma(store: OperationsStore, topology: Topology, incident: Make) -> None:
    plant, hour = Willing(), 3600
    kinds = []
    for number in range(4):
        run([resets(number, incident, number * hour)], topology, store, plant, number * hour)
        on_gpu = [kind for kind, target in plant.taken if target == "n00001/0"]
        kinds.append(on_gpu[-1])
    assert kinds == ["reset_gpu", "reset_gpu", "field_diagnostics", "rma"]


def test_without_a_spare_the_stage_goes_on_without_the_node_and_a_spare_that_comes_later_is_taken(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Willing()
    spares = [f"n{i:05}" for i in (7, 15, 23, 31)]
    store.add_spares(spares, T0)
    store.allocate_spares("act-other", spares, 4, T0)
    lost = incident("gpu_fallen_off_bus", "gpu", "n00001/3")
    records = run([lost], topology, store, plant, 0)
    assert of_kind(records, "allocate_spare").outcome == "refused"
    without = [record for record in records if record.request.parameters.get("without") == "n00001"]
    assert [(one.request.kind, one.outcome) for one in without] == [("resume", "done")]
    store.put_spare("n00015", "available", later(5))
    assert of_kind(run([lost], topology, store, plant, 6), "allocate_spare").outcome == "done"


def test_a_phase_that_misses_its_deadline_goes_to_a_person_once(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    chosen = ENFORCE.model_copy(update={"approvals": {"drain_node": 1}})
    lost, plant = incident("gpu_fallen_off_bus", "gpu", "n00001/3", detected_at=T0), Willing()
    for seconds in (0, 1, 2, 3):
        run([lost], topology, store, plant, seconds, chosen)
    assert plant.taken == [("open_ticket", "n00001")]
    ticket = Ledger(store).actions(outcomes=["done"])[0]
    assert "drain_node of n00001 is late (waiting_approval)" in ticket.request.reason


def test_what_waits_when_its_incident_ends_is_not_done_by_a_late_approval(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    chosen = ENFORCE.model_copy(update={"approvals": {"restart_app": 1}})
    hang = incident("gpu_hang", "gpu", "n00001/3")
    asked = of_kind(run([hang], topology, store, Willing(), 0, chosen), "restart_app")
    assert asked.outcome == "waiting_approval"
    run([replace(hang, state="resolved", ends_at=later(5))], topology, store, Willing(), 5, chosen)
    assert Ledger(store).known([asked.request.id])[asked.request.id].outcome == "cancelled"
    with pytest.raises(ValueError, match="is cancelled"):
        Ledger(store).answer(asked.request.id, "ann", "", later(6), verdict="approved")


def test_a_person_cancels_what_has_not_begun_and_it_stays_so(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    chosen, plant = ENFORCE.model_copy(update={"approvals": {"restart_app": 1}}), Willing()
    hang = incident("gpu_hang", "gpu", "n00001/3")
    asked = of_kind(run([hang], topology, store, plant, 0, chosen), "restart_app").request.id
    Ledger(store).cancel(asked, "ann", "I restart it myself", later(1))
    assert of_kind(run([hang], topology, store, plant, 2, ENFORCE), "restart_app").outcome == "cancelled"
    assert ("restart_app", "n00001/3") not in plant.taken
    done = Ledger(store).actions(outcomes=["done"])[0].request.id
    with pytest.raises(ValueError, match="cannot be cancelled: it is done"):
        Ledger(store).cancel(done, "ann", "", later(3))


# The way back


def repaired(store: OperationsStore, topology: Topology, plant: Willing, one: Incident) -> Incident:
    run([one], topology, store, plant, 0)
    over = replace(one, state="resolved", ends_at=later(100))
    run([over], topology, store, plant, 101)
    return over


def test_a_node_returns_through_diagnostics_and_probation_and_joins_the_pool(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Willing()
    repaired(store, topology, plant, incident("gpu_fallen_off_bus", "gpu", "n00001/3"))
    assert plant.taken[-1] == ("field_diagnostics", "n00001")
    run([], topology, store, plant, 101 + 1799)
    assert ("return_to_service", "n00001") not in plant.taken
    run([], topology, store, plant, 101 + 1800)
    assert plant.taken[-1] == ("return_to_service", "n00001")
    assert {spare.node: spare.state for spare in store.spares()}["n00001"] == "available"
    run([], topology, store, plant, 9999)
    assert plant.taken.count(("return_to_service", "n00001")) == 1


def test_a_node_that_fails_diagnostics_stays_out(store: OperationsStore, topology: Topology, incident: Make) -> None:
    plant = Willing(field_diagnostics=ActionOutcome(done=False, detail="memory test"))
    repaired(store, topology, plant, incident("gpu_fallen_off_bus", "gpu", "n00001/3"))
    for seconds in (2000, 8000, 90000):
        run([], topology, store, plant, seconds)
    assert ("return_to_service", "n00001") not in plant.taken


def test_a_link_returns_after_126_clean_minutes_and_not_while_a_detector_complains(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Willing()
    repaired(store, topology, plant, incident("link_flap", "link", "s00003"))
    errors = incident("link_degraded", "link", "s00003", detected_at=later(4000), starts_at=later(4000))
    store.upsert_incidents([errors], later(4000))
    run([], topology, store, plant, 100 + 126 * 60)
    assert ("return_to_service", "spine-3:1") not in plant.taken
    store.upsert_incidents([replace(errors, state="resolved", ends_at=later(5000))], later(7000))
    run([], topology, store, plant, 5000 + 126 * 60 - 1)
    assert ("return_to_service", "spine-3:1") not in plant.taken
    run([], topology, store, plant, 5000 + 126 * 60)
    assert ("return_to_service", "spine-3:1") in plant.taken


def test_a_complaint_during_probation_begins_it_anew(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Willing()
    repaired(store, topology, plant, incident("gpu_fallen_off_bus", "gpu", "n00001/3"))
    hot = incident("gpu_thermal_throttle", "gpu", "n00001/5", detected_at=later(900), starts_at=later(900))
    store.upsert_incidents([replace(hot, state="resolved", ends_at=later(1200))], later(1230))
    run([], topology, store, plant, 1200 + 1799)
    assert ("return_to_service", "n00001") not in plant.taken
    run([], topology, store, plant, 1200 + 1800)
    assert ("return_to_service", "n00001") in plant.taken


def test_a_tripped_breaker_does_not_keep_a_healthy_node_out(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, lost = Willing(), incident("gpu_fallen_off_bus", "gpu", "n00001/3")
    run([lost], topology, store, plant, 0)
    store.trip_breaker("storm", later(1))
    run([replace(lost, state="resolved", ends_at=later(100))], topology, store, plant, 101)
    run([], topology, store, plant, 2000)
    assert plant.taken[-1] == ("return_to_service", "n00001")


@pytest.mark.parametrize("held", ["n00001", "pdu-0"])
def test_a_node_that_a_person_holds_is_neither_drained_nor_returned(
    store: OperationsStore, topology: Topology, incident: Make, held: str
) -> None:
    plant, lost = Willing(), incident("gpu_fallen_off_bus", "gpu", "n00001/3")
    Holds(store).hold(held, T0, later(50), "ann", "hands inside")
    refused = of_kind(run([lost], topology, store, plant, 0), "drain_node")
    assert refused.why.startswith("held_by_person")
    assert of_kind(run([lost], topology, store, plant, 50), "drain_node").outcome == "done"
    Holds(store).hold(held, later(90), later(99999), "ann", "again")
    run([replace(lost, state="resolved", ends_at=later(100))], topology, store, plant, 101)
    run([], topology, store, plant, 5000)
    assert {kind for kind, _ in plant.taken} & {"field_diagnostics", "return_to_service"} == set()


def test_what_was_drained_in_a_rehearsal_is_never_really_returned(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant, lost = Willing(), incident("gpu_fallen_off_bus", "gpu", "n00001/3")
    run([lost], topology, store, plant, 0, RecoverySettings())
    over = replace(lost, state="resolved", ends_at=later(100))
    for seconds in (101, 4000, 9000):
        run([over], topology, store, plant, seconds)
    assert plant.taken == []


def test_nothing_comes_back_by_itself_after_a_leak(store: OperationsStore, topology: Topology, incident: Make) -> None:
    plant: Any = Willing()
    repaired(store, topology, plant, incident("coolant_leak", "cdu", "cdu-0"))
    assert ("isolate_loop", "cdu-0") in plant.taken
    run([], topology, store, plant, 99999)
    assert "return_to_service" not in {kind for kind, _ in plant.taken}


def test_shards_of_a_domain_without_spares_go_onto_reclaimed_gpus(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    """Two domains of eight nodes and two spares outside of them: the first domain gets both, the second none."""
    plant = Willing()
    records = run([incident("power_domain_lost", "pdu", "pdu-0", "pdu-1")], topology, store, plant, 0)
    assert [(one.request.target, one.outcome) for one in records if one.request.kind == "allocate_spare"] == [
        ("pdu-0", "done"), ("pdu-1", "refused"),
    ]  # fmt: skip
    for kind in ("restore_shard", "resume"):
        assert [one.outcome for one in records if one.request.kind == kind] == ["done", "done"]
    order = [kind for kind, target in plant.taken if target in ("test", "pdu-1") and kind != "open_ticket"]
    assert order == ["global_checkpoint", "reclaim_gpus", "restore_shard", "resume"]


def test_without_spares_and_without_gpus_to_reclaim_the_job_goes_on_at_reduced_capacity_and_that_is_said(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Willing(reclaim_gpus=ActionOutcome(done=False, detail="no pod gives any"))
    records = run([incident("power_domain_lost", "pdu", "pdu-0", "pdu-1")], topology, store, plant, 0)
    (smaller,) = [one for one in records if "without" in one.request.parameters]
    assert (smaller.request.kind, smaller.request.target, smaller.outcome) == ("resume", "pdu-1", "done")
    assert smaller.why == "no spare, and reclaim_gpus is failed: go on at reduced capacity, without pdu-1"
    refused = next(one for one in records if one.request.kind == "restore_shard" and one.request.target == "pdu-1")
    assert refused.why.endswith("allocate_spare of 'pdu-1' is refused and reclaim_gpus of 'test' is failed")
