from dataclasses import replace
from typing import Any

import pytest

from pipelines.operations_jobs import Roster
from pipelines.recovery.checks import Refusal
from pipelines.recovery.facts import Approval
from pipelines.recovery.guard import decide
from pipelines.recovery.settings import RecoverySettings
from schemas.topology import Topology
from tests.pipelines.recovery.guard_requests import ENFORCE, KINDS, T0, TRIPPED, ask, done, facts, later


def test_by_default_everything_is_a_dry_run(topology: Topology) -> None:
    decision = decide(ask("drain_node", "n00001"), facts(topology), RecoverySettings())
    assert (decision.mode, decision.outcome) == ("dry-run", "dry-run")


def test_mode_can_be_set_for_one_kind_of_action(topology: Topology) -> None:
    chosen = RecoverySettings(modes={"drain_node": "enforce", "reboot_node": "observe"})
    kinds: tuple[Any, ...] = ("drain_node", "reboot_node", "field_diagnostics")
    outcomes = [decide(ask(kind, "n00001"), facts(topology), chosen).outcome for kind in kinds]
    assert outcomes == ["pending", "observed", "dry-run"]


@pytest.mark.parametrize(
    "fact", ["topology", "history", "breaker", "degraded", "known", "approvals", "spares_available", "held", "jobs"]
)
def test_a_fact_that_could_not_be_found_out_is_a_refusal_that_names_it(topology: Topology, fact: str) -> None:
    decision = decide(ask("drain_node", "n00001"), replace(facts(topology), **{fact: None}), ENFORCE)
    assert decision.refusal is Refusal.MISSING_FACTS
    assert fact in decision.why


@pytest.mark.parametrize(
    ("kind", "target_kind", "target"),
    [
        ("drain_node", "node", "n99999"), ("drain_node", "node", "n1'; drop table x; --\n$(reboot)"),
        ("reset_gpu", "gpu", "n00001/8"), ("isolate_port", "port", "spine-3:2"), ("isolate_port", "link", "nothing"),
        ("raise_flow", "cdu", "pdu-0"), ("staged_shutdown", "cluster", "other"), ("drain_node", "", "n00001"),
    ],
)  # fmt: skip
def test_a_target_that_the_topology_does_not_know_is_refused(
    topology: Topology, kind: str, target_kind: str, target: str
) -> None:
    request = ask(kind, target, target_kind, cable="s00003")
    assert decide(request, facts(topology), ENFORCE).refusal is Refusal.UNKNOWN_TARGET


@pytest.mark.parametrize(("passed", "refusal"), [(0, "cooldown"), (899, "cooldown"), (900, None), (-60, "cooldown")])
def test_a_kind_cools_down_per_target_even_when_the_clock_steps_back(
    topology: Topology, passed: float, refusal: str | None
) -> None:
    request = ask("drain_node", "n00001")
    given_facts = facts(topology, done(request), now=later(passed))
    assert decide(request, given_facts, ENFORCE).refusal == refusal
    assert decide(ask("drain_node", "n00002"), given_facts, ENFORCE).refusal is None


@pytest.mark.parametrize("kind", ["global_checkpoint", "reclaim_gpus"])
def test_what_is_asked_of_the_cluster_for_one_incident_does_not_keep_another_from_it(
    topology: Topology, kind: str
) -> None:
    asked = ask(kind, "test", "cluster")
    given_facts = facts(topology, done(asked), now=later(60), executors=KINDS | {"global_checkpoint", "reclaim_gpus"})
    again = replace(asked, id="act-other", incident="inc-2", requested_at=later(60))
    assert decide(again, given_facts, ENFORCE).outcome == "pending"


def test_a_third_reset_within_seven_days_is_refused_whatever_resets_it(topology: Topology) -> None:
    day = 86400
    first, second = ask("reboot_node", "n00001"), ask("reset_port", "n00001")
    past = (done(first, T0), done(second, later(3 * day)))
    third = ask("reboot_node", "n00001", at=later(7 * day - 1))
    refused = decide(third, facts(topology, *past, now=later(7 * day - 1)), ENFORCE)
    assert refused.refusal is Refusal.RESETS_USED_UP
    assert (
        decide(replace(third, requested_at=later(7 * day)), facts(topology, *past, now=later(7 * day)), ENFORCE).refusal
        is None
    )


def test_a_failed_reset_counts_as_one(topology: Topology) -> None:
    past = [done(ask("reboot_node", "n00001"), later(at), "failed") for at in (0, 1)]
    decision = decide(ask("reboot_node", "n00001", at=later(5000)), facts(topology, *past, now=later(5000)), ENFORCE)
    assert decision.refusal is Refusal.RESETS_USED_UP


def test_old_requests_wait_for_a_person(topology: Topology) -> None:
    request = ask("drain_node", "n00001")
    assert decide(request, facts(topology, now=later(3600)), ENFORCE).refusal is None
    assert decide(request, facts(topology, now=later(3601)), ENFORCE).refusal is Refusal.EXPIRED


def test_degraded_telemetry_of_the_target_is_a_refusal_and_of_another_node_is_not(topology: Topology) -> None:
    blind = facts(topology, degraded=frozenset({"n00001"}))
    assert decide(ask("reset_gpu", "n00001/3", "gpu"), blind, ENFORCE).refusal is Refusal.TELEMETRY_DEGRADED
    assert decide(ask("reset_gpu", "n00002/3", "gpu"), blind, ENFORCE).refusal is None
    # Either end of a link counts.
    port = ask("isolate_port", "leaf-0:2", "port", cable="c00001")
    assert decide(port, blind, ENFORCE).refusal is Refusal.TELEMETRY_DEGRADED


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("done", "pending"),
        ("failed", "refused"),
        ("rejected", "refused"),
        ("dry-run", "refused"),
        # What is on its way may still be done, so that this is not refused for good.
        ("pending", "scheduled"),
        ("waiting_approval", "scheduled"),
        ("scheduled", "scheduled"),
    ],
)
def test_a_step_needs_the_one_before_it_done(topology: Topology, outcome: str, expected: str) -> None:
    drain = ask("drain_node", "n00001")
    reboot = ask("reboot_node", "n00001", after=drain.id)
    assert decide(reboot, facts(topology, known={drain.id: done(drain, outcome=outcome)}), ENFORCE).outcome == expected


def test_a_step_that_waits_says_for_what_and_how_many_have_approved_it_already(topology: Topology) -> None:
    save = ask("global_checkpoint", "test", "cluster")
    shutdown = ask("staged_shutdown", "cdu-0", "cdu", after=save.id)
    known = {save.id: done(save, outcome="waiting_approval")}
    said = facts(topology, known=known, approvals={shutdown.id: (approval("ann"),)})
    decision = decide(shutdown, said, RecoverySettings(mode="enforce", breaker_share=1.0))
    told = "once global_checkpoint of 'test' (waiting_approval) is done; approved by 1 of 2 people so far: because"
    assert (decision.outcome, decision.why) == ("scheduled", told)


def test_a_step_whose_predecessor_was_never_decided_is_refused(topology: Topology) -> None:
    decision = decide(ask("reboot_node", "n00001", after="act-0"), facts(topology), ENFORCE)
    assert decision.refusal is Refusal.EARLIER_STEP_NOT_DONE


def test_a_dry_run_goes_on_after_a_dry_run(topology: Topology) -> None:
    drain = ask("drain_node", "n00001")
    known = {drain.id: done(drain, outcome="dry-run")}
    assert (
        decide(ask("reboot_node", "n00001", after=drain.id), facts(topology, known=known), RecoverySettings()).outcome
        == "dry-run"
    )


def test_nothing_is_enforced_that_nobody_carries_out(topology: Topology) -> None:
    assert (
        decide(ask("drain_node", "n00001"), facts(topology, executors=frozenset()), ENFORCE).refusal
        is Refusal.NO_EXECUTOR
    )


def test_spares_promised_in_dry_runs_run_out_too(topology: Topology) -> None:
    past = [done(ask("allocate_spare", "pdu-0", "pdu", count=3), outcome="dry-run")]
    request = ask("allocate_spare", "pdu-1", "pdu", count=2)
    assert decide(request, facts(topology, *past), RecoverySettings()).refusal is Refusal.NO_SPARE
    assert decide(request, facts(topology, *past), ENFORCE).refusal is None


def approval(by: str, verdict: str = "approved") -> Approval:
    return Approval(by, verdict, "", T0)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ([], "waiting_approval"),
        ([approval("ann")], "waiting_approval"),
        ([approval("ann"), approval(" Ann ")], "waiting_approval"),
        ([approval("ann"), approval("bob")], "pending"),
        ([approval("ann"), approval("bob"), approval("eve", "rejected")], "rejected"),
    ],
)
def test_a_staged_shutdown_needs_two_people_and_no_objection(
    topology: Topology, said: list[Approval], outcome: str
) -> None:
    chosen = RecoverySettings(mode="enforce", breaker_share=1.0)
    request = ask("staged_shutdown", "cdu-0", "cdu")
    assert decide(request, facts(topology, approvals={request.id: tuple(said)}), chosen).outcome == outcome


# The breaker


@pytest.mark.parametrize(
    ("detectors", "mode"),
    [
        (["gpu.xid"], "enforce"),
        (["gpu.straggler"], "observe"),
        (["gpu.row_remap"], "dry-run"),
        (["gpu.straggler", "gpu.row_remap"], "dry-run"),  # the most trusted of those that say the same
        ([], "enforce"),
    ],
)
def test_a_detector_is_trusted_no_further_than_settings_say(detectors: list[str], mode: str) -> None:
    names = {"gpu.straggler": "observe", "gpu.row_remap": "dry-run"}
    chosen = RecoverySettings(mode="enforce", modes={"reboot_node": "dry-run"})
    tuned = chosen.model_copy(update={"detector_modes": names})
    assert tuned.mode_of("drain_node", detectors) == mode
    assert tuned.mode_of("reboot_node", detectors) in ("dry-run", mode)  # never more than the kind's own


def test_a_mode_for_a_detector_that_does_not_exist_is_refused_at_load() -> None:
    with pytest.raises(ValueError, match=r"no detector 'gpu\.xidd'"):
        RecoverySettings(detector_modes={"gpu.xidd": "observe"})


URGENT = {"cause": "coolant_pump_failure", "deadline_at": later(15).isoformat()}


@pytest.mark.parametrize(
    ("seconds", "cause", "said", "outcome"),
    [
        (14.9, "coolant_pump_failure", [], "waiting_approval"),
        (15, "coolant_pump_failure", [], "pending"),
        (15, "power_domain_lost", ["ann"], "pending"),
        (14.9, "coolant_leak", [], "waiting_approval"),
        (15, "coolant_leak", [], "pending"),  # its flow ends then in any case
        (15, "coolant_flow_restricted", [], "waiting_approval"),  # no other cause has a deadline that outweighs people
        (15, "coolant_pump_failure", ["ann", "!bob"], "rejected"),  # an objection outweighs the deadline
    ],
)
def test_two_people_or_the_deadline_of_a_pump_leak_or_power_incident(
    topology: Topology, seconds: float, cause: str, said: list[str], outcome: str
) -> None:
    chosen = RecoverySettings(mode="enforce", breaker_share=1.0)
    request = ask("staged_shutdown", "cdu-0", "cdu", **{**URGENT, "cause": cause})
    people = tuple(approval(name.strip("!"), "rejected" if "!" in name else "approved") for name in said)
    given_facts = facts(topology, approvals={request.id: people}, now=later(seconds))
    assert decide(request, given_facts, chosen).outcome == outcome


def test_a_deadline_does_not_overrule_mode_breaker_or_telemetry(topology: Topology) -> None:
    request = ask("staged_shutdown", "cdu-0", "cdu", **URGENT)
    chosen = RecoverySettings(mode="enforce", breaker_share=1.0)
    assert decide(request, facts(topology, now=later(20)), RecoverySettings()).outcome == "dry-run"
    assert decide(request, facts(topology, now=later(20), breaker=TRIPPED), chosen).outcome == "refused"
    blind = facts(topology, now=later(20), degraded=frozenset({"cdu-0"}))
    assert decide(request, blind, chosen).refusal is Refusal.TELEMETRY_DEGRADED


def test_a_step_that_gives_the_one_before_time_is_scheduled_and_then_done(topology: Topology) -> None:
    flow = ask("raise_flow", "n00001/0", "gpu")
    drain = ask("drain_node", "n00001", after=flow.id, settle_seconds=60)
    known = {flow.id: done(flow, later(1))}
    outcomes = [decide(drain, facts(topology, known=known, now=later(at)), ENFORCE).outcome for at in (1, 60, 61)]
    assert outcomes == ["scheduled", "scheduled", "pending"]


@pytest.mark.parametrize("held", ["n00001", "pdu-0", "cdu-0", "sb-0", "pod-0"])
def test_what_a_person_has_in_hand_is_left_alone_with_all_that_is_in_it(topology: Topology, held: str) -> None:
    given_facts = facts(topology, held=frozenset({held}), executors=KINDS | {"return_to_service", "open_ticket"})
    for kind, target, target_kind, extra in (
        ("drain_node", "n00001", "node", {}), ("reset_gpu", "n00001/3", "gpu", {}),
        ("isolate_port", "leaf-0:2", "port", {"cable": "c00001"}), ("return_to_service", "n00001", "node", {}),
    ):  # fmt: skip
        assert decide(ask(kind, target, target_kind, **extra), given_facts, ENFORCE).refusal is Refusal.HELD_BY_PERSON
    assert decide(ask("open_ticket", "n00001"), given_facts, ENFORCE).outcome == "pending"
    elsewhere = facts(topology, held=frozenset({"n00002", "pdu-3", "cdu-1"}))
    assert decide(ask("drain_node", "n00001"), elsewhere, ENFORCE).outcome == "pending"


def test_no_drain_takes_a_job_below_its_minimum_and_a_spare_that_stands_in_counts(topology: Topology) -> None:
    job = Roster("train", frozenset(f"n{i:05}" for i in range(8)))
    chosen = ENFORCE.model_copy(update={"job_nodes_minimum": {"train": 7}})
    first, second = ask("drain_node", "n00000"), ask("drain_node", "n00001")
    outside = ask("drain_node", "n00009")
    one_out = facts(topology, done(first), jobs={"train": job})
    assert decide(second, one_out, chosen).refusal is Refusal.JOB_MINIMUM
    assert decide(outside, one_out, chosen).outcome == "pending"
    spare = ask("allocate_spare", "n00000", spares=["n00007"])
    replaced = facts(topology, done(first), done(spare), jobs={"train": job})
    assert decide(second, replaced, chosen).outcome == "pending"
    # Without a number of its own: three quarters of what it began with.
    assert (
        decide(
            ask("drain_node", "n00002"), facts(topology, done(first), done(second), jobs={"train": job}), ENFORCE
        ).refusal
        is Refusal.JOB_MINIMUM
    )


def test_a_spare_of_an_earlier_failure_does_not_stand_in_for_the_next_one_of_its_node(topology: Topology) -> None:
    job = Roster("train", frozenset(f"n{i:05}" for i in range(8)))
    chosen = ENFORCE.model_copy(update={"job_nodes_minimum": {"train": 7}})
    first, spare = ask("drain_node", "n00000"), ask("allocate_spare", "n00000", spares=["n00007"])
    earlier = (done(first), done(spare), done(ask("return_to_service", "n00000"), later(60)))
    again = facts(topology, *earlier, done(first, later(120)), jobs={"train": job}, now=later(130))
    assert decide(ask("drain_node", "n00001", at=later(130)), again, chosen).refusal is Refusal.JOB_MINIMUM


def test_a_reboot_of_the_node_counts_as_a_reset_of_its_gpus(topology: Topology) -> None:
    past = (done(ask("reboot_node", "n00001"), T0), done(ask("reset_gpu", "n00001/3", "gpu"), later(3600)))
    third = ask("reset_gpu", "n00001/3", "gpu", at=later(7200))
    assert decide(third, facts(topology, *past, now=later(7200)), ENFORCE).refusal is Refusal.RESETS_USED_UP
    other = ask("reset_gpu", "n00001/4", "gpu", at=later(7200))
    assert decide(other, facts(topology, *past, now=later(7200)), ENFORCE).refusal is None
