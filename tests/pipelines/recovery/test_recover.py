from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from pipelines.wording import why
from schemas.action import ActionKind, ActionRecord, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology

T0 = datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC)
ENFORCE = RecoverySettings(mode="enforce", approvals={})
Make = Callable[..., Incident]


def later(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


@dataclass
class Plant:
    """An executor that remembers its effects; `answers` are given instead of done, by kind."""

    effects: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    answers: dict[str, ActionOutcome] = field(default_factory=dict)
    dies_at: str = ""

    def apply(self, request: ActionRequest) -> ActionOutcome:
        answer = self.answers.get(request.kind, ActionOutcome(done=True, detail="ok"))
        if request.kind != self.dies_at or answer.done:
            self.effects.append(request.id)
            self.kinds.append(request.kind)
        if request.kind == self.dies_at:
            raise KeyboardInterrupt  # as if killed: after the effect when done, before it when not
        return answer

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        return ActionOutcome(done=True, detail="it was done") if request_id in self.effects else None


def everything(plant: Plant) -> dict[str, Plant]:
    return dict.fromkeys(get_args(ActionKind), plant)


def outcomes(records: tuple[ActionRecord, ...]) -> list[tuple[str, str]]:
    return [(record.request.kind, record.outcome) for record in records]


# Recovery as a whole


def test_a_dry_run_touches_nothing_and_says_what_it_would_do(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Plant()
    lost = incident("gpu_fallen_off_bus", "gpu", "n00001/3")
    records = recover([lost], topology, store, RecoverySettings(), everything(plant), T0)
    assert outcomes(records) == [
        ("drain_node", "dry-run"), ("pause_stage", "dry-run"), ("allocate_spare", "dry-run"),
        ("restore_shard", "dry-run"), ("resume", "dry-run"), ("reboot_node", "dry-run"),
    ]  # fmt: skip
    assert plant.effects == []
    assert all(spare.state == "available" for spare in store.spares())


def test_enforced_steps_happen_once_and_in_order(store: OperationsStore, topology: Topology, incident: Make) -> None:
    plant, lost = Plant(), incident("gpu_fallen_off_bus", "gpu", "n00001/3")
    for seconds in (0, 1, 2000):
        records = recover([lost], topology, store, ENFORCE, everything(plant), later(seconds))
        assert {outcome for _, outcome in outcomes(records)} == {"done"}
    assert plant.kinds == ["drain_node", "pause_stage", "allocate_spare", "restore_shard", "resume", "reboot_node"]


def test_the_nearest_spare_is_taken_outside_the_failed_domain(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    # pdu-0 holds n00000..n00007 with spare n00007; n00015 is the spare left in its superblock.
    small = RecoverySettings(mode="enforce", approvals={})
    store.add_spares(["n00007"], T0)
    store.allocate_spares("act-earlier", ["n00007"], 1, T0)  # it works
    lost = incident("node_lost", "node", "n00007")
    records = recover([lost], topology, store, small, everything(Plant()), T0)
    assert records[2].request.parameters["spares"] == ["n00015"]


def test_what_follows_a_failed_step_is_refused(store: OperationsStore, topology: Topology, incident: Make) -> None:
    plant = Plant(answers={"drain_node": ActionOutcome(done=False, detail="scheduler said no")})
    lost = incident("gpu_fallen_off_bus", "gpu", "n00001/3")
    records = recover([lost], topology, store, ENFORCE, everything(plant), T0)
    assert outcomes(records)[0] == ("drain_node", "failed")
    assert {outcome for _, outcome in outcomes(records)[1:-1]} == {"refused"}
    assert outcomes(records)[-1] == ("open_ticket", "done")  # and a person is told
    assert "scheduler said no" in records[-1].request.reason
    assert plant.kinds == ["drain_node", "open_ticket"]
    assert records[0].why == "scheduler said no"


def test_a_failure_without_effect_is_tried_again_up_to_the_bound(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Plant(answers={"open_ticket": ActionOutcome(done=False, recoverable=True, detail="timeout")})
    worn = incident("optic_degrading", "link", "s00003")
    for seconds in range(5):
        recover([worn], topology, store, ENFORCE, everything(plant), later(seconds))
    assert plant.kinds == ["open_ticket"] * 3


def test_a_failure_that_may_have_had_an_effect_is_never_tried_again(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Plant(answers={"open_ticket": ActionOutcome(done=False, detail="no answer")})
    for seconds in range(5):
        recover(
            [incident("optic_degrading", "link", "s00003")], topology, store, ENFORCE, everything(plant), later(seconds)
        )
    assert plant.kinds == ["open_ticket"]


def test_two_people_let_a_checkpoint_go_ahead(store: OperationsStore, topology: Topology, incident: Make) -> None:
    plant, chosen = Plant(), RecoverySettings(mode="enforce")
    lost = incident("power_domain_lost", "pdu", "pdu-0")
    first = recover([lost], topology, store, chosen, everything(plant), T0)[0]
    assert first.outcome == "waiting_approval"
    for seconds, by in ((1, "ann"), (2, "ann"), (3, "bob")):
        assert "global_checkpoint" not in plant.kinds
        Ledger(store).answer(first.request.id, by, "", later(seconds), verdict="approved")
        recover([lost], topology, store, chosen, everything(plant), later(seconds))
    assert plant.kinds.count("global_checkpoint") == 1


@pytest.mark.parametrize(
    ("people", "told"),
    [
        (("ann",), "approved by 1 of 2 people, and its deadline has come; ok"),
        (("ann", "Bob"), "approved by ann and Bob; ok"),
    ],
)
def test_who_or_what_let_an_action_go_ahead_is_still_told_when_it_is_done(
    store: OperationsStore, topology: Topology, incident: Make, people: tuple[str, ...], told: str
) -> None:
    plant, chosen = Plant(), RecoverySettings(mode="enforce")
    lost = incident("power_domain_lost", "pdu", "pdu-0")
    first = recover([lost], topology, store, chosen, everything(plant), T0)[0]
    for number, by in enumerate(people, 1):
        Ledger(store).answer(first.request.id, by, "", later(number), verdict="approved")
    done = recover([lost], topology, store, chosen, everything(plant), later(30))[0]
    assert (done.outcome, why(done)) == ("done", told)
    assert done.request.parameters["approved_at"] == later(len(people)).isoformat()


def test_a_refusal_is_decided_again_when_its_reason_has_gone(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    hang = incident("gpu_hang", "gpu", "n00001/3")
    blind = incident("telemetry_stale", "source", "gpu:n00001")
    refused = recover([hang, blind], topology, store, ENFORCE, everything(Plant()), T0)
    assert (refused[0].outcome, refused[0].why.split(":")[0]) == ("refused", "telemetry_degraded")
    seeing = replace(blind, state="resolved", ends_at=later(5))
    again = recover([hang, seeing], topology, store, ENFORCE, everything(Plant()), later(5))
    assert again[0].outcome == "done"


def test_a_stored_telemetry_incident_counts_although_it_was_not_given(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    store.upsert_incidents([incident("telemetry_frozen", "source", "gpu:n00001")], T0)
    hang = incident("gpu_hang", "gpu", "n00001/3")
    assert recover([hang], topology, store, ENFORCE, everything(Plant()), T0)[0].outcome == "refused"


def test_a_storm_trips_the_breaker_for_all_and_keeps_its_word(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    plant = Plant()
    generous = RecoverySettings(
        mode="enforce", drained_nodes_minimum=99, drained_nodes_per_superblock=99, breaker_share=0.5
    )
    storm = [incident("node_lost", "node", f"n{i:05}") for i in range(32)]
    recover(storm, topology, store, generous, everything(plant), T0)
    assert plant.kinds.count("drain_node") == 16
    assert store.breaker().tripped
    store.reset_breaker("ann", "bad detector", later(1))
    recover(storm, topology, store, generous, everything(plant), later(2))
    assert plant.kinds.count("drain_node") == 16  # the backlog stays put


def test_a_person_who_returns_a_node_frees_its_place_in_the_budget(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    tight = RecoverySettings(mode="enforce", drained_nodes_per_superblock=1)
    first, second = (incident("node_lost", "node", node) for node in ("n00001", "n00002"))
    recover([first], topology, store, tight, everything(Plant()), T0)
    assert recover([second], topology, store, tight, everything(Plant()), later(1))[0].outcome == "refused"
    Ledger(store).record_return("n00001", "ann", later(2))
    assert recover([second], topology, store, tight, everything(Plant()), later(3))[0].outcome == "done"


# Crashes and rivals


@pytest.mark.parametrize("happened", [True, False])
def test_an_intent_without_outcome_is_settled_by_asking_and_never_done_again(
    store: OperationsStore, topology: Topology, incident: Make, *, happened: bool
) -> None:
    plant = Plant(dies_at="drain_node")
    if not happened:
        plant.answers["drain_node"] = ActionOutcome(done=False)
    lost = incident("gpu_fallen_off_bus", "gpu", "n00001/3")
    with pytest.raises(KeyboardInterrupt):
        recover([lost], topology, store, ENFORCE, everything(plant), T0)
    assert [record.outcome for record in Ledger(store).actions()] == ["pending"]
    plant.dies_at = ""
    early = recover([lost], topology, store, ENFORCE, everything(plant), later(59))
    assert early[0].outcome == "pending"  # its worker may still be at it
    records = recover([lost], topology, store, ENFORCE, everything(plant), later(60))
    assert records[0].outcome == ("done" if happened else "failed")
    assert records[1].outcome == ("done" if happened else "refused")
    assert plant.kinds.count("drain_node") == int(happened)


@dataclass
class Slow(Plant):
    """Every drain takes 50 s; during(seconds) is called at its end, before it has answered."""

    ledger: Ledger = field(kw_only=True)
    during: Callable[[float], None] = field(kw_only=True)
    seconds: float = 0.0
    begun: list[datetime] = field(default_factory=list)

    def apply(self, request: ActionRequest) -> ActionOutcome:
        if request.kind == "drain_node":
            self.begun.append(self.ledger.known([request.id])[request.id].at)
            self.seconds += 50
            self.during(self.seconds)
        return super().apply(request)


def test_an_intent_is_as_old_as_its_effect_however_long_those_before_it_take(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    ledger, settled = Ledger(store), list[ActionRecord]()

    def rival(seconds: float) -> None:
        settled.extend(ledger.resolve({}, ENFORCE, later(seconds)))

    plant = Slow(ledger=ledger, during=rival)
    lost = [incident("node_lost", "node", f"n0000{i}") for i in range(3)]
    records = recover(lost, topology, store, ENFORCE, everything(plant), T0, clock=lambda: plant.seconds)
    assert settled == []
    assert plant.begun == [later(0), later(50), later(100)]
    drains = [record for record in records if record.request.kind == "drain_node"]
    assert [(record.outcome, record.at) for record in drains] == [
        ("done", later(50)), ("done", later(100)), ("done", later(150)),
    ]  # fmt: skip
    assert [(outcome, at) for at, _, outcome, _ in ledger.events(drains[2].request.id)] == [
        ("pending", later(0)), ("pending", later(100)), ("done", later(150)),
    ]  # fmt: skip


def test_what_another_worker_has_settled_meanwhile_is_not_begun(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    ledger = Ledger(store)

    def rival(_: float) -> None:
        ledger.resolve({}, ENFORCE, later(1000))  # its clock is far ahead

    plant = Slow(ledger=ledger, during=rival)
    lost = [incident("node_lost", "node", f"n0000{i}") for i in range(2)]
    records = recover(lost, topology, store, ENFORCE, everything(plant), T0, clock=lambda: plant.seconds)
    assert plant.kinds.count("drain_node") == 1
    assert [record.outcome for record in records if record.request.kind == "drain_node"] == ["done", "failed"]
