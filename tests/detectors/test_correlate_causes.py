"""Which findings are one incident, and which stay apart."""

from graphlib import TopologicalSorter

import pytest

from detectors.explanation import EXPLAINS, MERGES
from schemas.causes import CAUSE_BY_NAME
from tests.detectors.correlation_timeline import finding, play

OVER = ("same", "inside", "whole", "end", "job", "source")


class TestOneRootOneIncident:
    def test_xid_absence_and_hang_of_one_gpu_are_one_incident(self):
        timeline = play(
            finding(5, "gpu_fatal_error", "n01/3", onset=5),
            finding(6, "gpu_fallen_off_bus", "n01/3", onset=5),
            finding(6, "gpu_fallen_off_bus", "n01/3", onset=5, detector="test.other"),
            finding(8, "gpu_hang", "n01/3", onset=5),
        )
        incident = timeline.only()
        assert (incident.cause, incident.roots, incident.members) == ("gpu_fallen_off_bus", ("n01/3",), ("n01/3",))
        assert incident.symptoms == ()
        assert timeline.pages() == {incident.id}

    def test_eight_hung_ranks_of_a_node_are_one_incident(self):
        incident = play(*(finding(5 + slot / 10, "gpu_hang", f"n01/{slot}") for slot in range(8))).only()
        assert (incident.cause, len(incident.roots), len(incident.members)) == ("gpu_hang", 8, 8)

    def test_eight_hung_ranks_of_a_lost_node_are_the_nodes_incident(self):
        ranks = [finding(5, "gpu_hang", f"n01/{slot}") for slot in range(8)]
        incident = play(*ranks, finding(5.5, "node_lost", "n01", onset=5)).only()
        assert (incident.cause, incident.roots, len(incident.members)) == ("node_lost", ("n01",), 8)

    def test_nodes_of_one_superblock_lost_within_ten_seconds_are_one_incident(self):
        assert play(finding(5, "node_lost", "n00"), finding(14, "node_lost", "n20"), until=30).only().roots == (
            "n00",
            "n20",
        )

    def test_both_ends_of_a_flapping_link_are_one_incident(self):
        incident = play(
            finding(5, "link_flap", "c01", detector="test.near"),
            finding(6, "link_flap", "c01", detector="test.far"),
            finding(6, "link_degraded", "c01", onset=4),
        ).only()
        assert (incident.cause, incident.roots, incident.severity) == ("link_degraded", ("c01",), "page")

    def test_a_fibre_fault_explains_the_link_of_the_same_name(self):
        incident = play(finding(5, "fiber_loss", "c01"), finding(6, "link_down", "c01")).only()
        assert (incident.cause, incident.root_kind, incident.symptoms) == ("fiber_loss", "cable", (("link", "c01"),))

    def test_links_at_a_lost_switch_are_its_symptoms(self):
        links = [finding(5, "link_down", f"c{n:02}") for n in range(32)]
        incident = play(*links, finding(6, "switch_lost", "leaf0", onset=5)).only()
        assert (incident.cause, incident.roots, len(incident.symptoms)) == ("switch_lost", ("leaf0",), 32)

    def test_throttling_under_a_failed_pump_and_what_it_slows_are_its_symptoms(self):
        incident = play(
            finding(5, "coolant_pump_failure", "cdu0"),
            *(finding(12, "gpu_thermal_throttle", f"n{node:02}/0") for node in range(32)),
            finding(15, "gpu_straggler", "n04/0"),
            finding(16, "job_hang", "llm", evidence='{"nodes": ["n04", "n50"]}'),
        ).only()
        assert (incident.cause, len(incident.members), incident.findings["job_hang"]) == ("coolant_pump_failure", 32, 1)

    def test_a_job_named_in_the_evidence_of_its_gpu_is_explained_by_it(self):
        gpu = finding(5, "gpu_fatal_error", "n01/3", evidence='{"job": "llm", "xid": 79}')
        assert play(gpu, finding(6, "job_hang", "llm")).only().cause == "gpu_fatal_error"

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (("gpu_fatal_error", "n01/3"), ("gpu_fatal_error", "n02/3")),
            (("node_lost", "n01"), ("node_lost", "n40")),
            (("coolant_leak", "cdu0"), ("coolant_leak", "cdu1")),
            (("optic_degrading", "c01"), ("optic_degrading", "c02")),
            (("switch_lost", "leaf0"), ("link_down", "c40")),
            (("coolant_pump_failure", "cdu0"), ("coolant_chemistry", "cdu0")),
            (("gpu_memory", "n01/3"), ("gpu_hang", "n01/4")),
        ],
    )
    def test_unrelated_faults_at_one_instant_stay_apart(self, one, other):
        assert len(play(finding(5, *one), finding(5, *other)).at(20)) == 2

    def test_a_fault_long_before_its_would_be_cause_is_not_its_symptom(self):
        assert (
            len(play(finding(5, "gpu_straggler", "n01/3"), finding(30, "gpu_fatal_error", "n01/3"), until=40).at(40))
            == 2
        )

    def test_a_cause_that_seems_to_begin_a_moment_later_still_explains(self):
        node, power = finding(6, "node_lost", "n01", onset=3), finding(7, "power_domain_lost", "pdu0", onset=6)
        assert play(node, power).only().cause == "power_domain_lost"

    def test_a_lost_node_takes_its_own_sources_out_of_a_collectors_outage(self):
        sources = [finding(65, "telemetry_stale", f"gpu:n{node:02}", onset=5) for node in range(40)]
        timeline = play(*sources, finding(70, "node_lost", "n01", onset=6), until=80)
        found = {incident.cause: incident for incident in timeline.at(80)}
        assert found["node_lost"].symptoms == (("source", "gpu:n01"),)
        assert len(found["telemetry_stale"].roots) == 39

    def test_entities_that_the_topology_does_not_know_get_their_incident(self):
        said = [
            finding(5, "node_lost", "ghost"), finding(5, "gpu_hang", "ghost/1"), finding(5, "link_down", "nowhere"),
            finding(5, "power_domain_lost", "pdu77"), finding(5, "telemetry_stale", "odd"),
            finding(5, "job_hang", "lost", evidence="not json"), finding(5, "switch_lost", "sw"),
        ]  # fmt: skip
        roots = {incident.root_kind: incident.roots for incident in play(*said).at(20)}
        assert roots == {
            "node": ("ghost",), "link": ("nowhere",), "pdu": ("pdu77",), "source": ("odd",), "job": ("lost",),
            "switch": ("sw",),
        }  # fmt: skip


def test_no_cause_explains_itself_even_by_way_of_others():
    known = {cause: {name for over in OVER for name in getattr(row, over)} for row in EXPLAINS for cause in row.causes}
    TopologicalSorter(known).prepare()  # raises CycleError


def test_each_cause_has_one_row_and_every_word_is_a_cause():
    causes = [cause for row in EXPLAINS for cause in row.causes]
    named = {name for row in EXPLAINS for over in OVER for name in getattr(row, over)}
    merged = [cause for row in MERGES for cause in row.causes]
    assert (len(causes), len(merged)) == (len(set(causes)), len(set(merged)))
    assert {*causes, *named, *merged} <= CAUSE_BY_NAME.keys()


def test_a_cause_never_stands_lower_in_the_causal_order_than_its_symptoms():
    for row in EXPLAINS:
        for over in OVER:
            for symptom in getattr(row, over):
                assert all(CAUSE_BY_NAME[cause].order <= CAUSE_BY_NAME[symptom].order for cause in row.causes)


def test_what_a_cause_explains_over_a_relation_is_said_in_one_row():
    said = [(cause, over) for row in EXPLAINS for cause in row.causes for over in OVER if getattr(row, over)]
    assert len(said) == len(set(said))


def test_an_agent_that_a_dead_gpu_has_stalled_is_part_of_the_gpus_incident():
    dead = finding(5, "gpu_fallen_off_bus", "n01/3", onset=5)
    incident = play(dead, finding(70, "telemetry_stale", "gpu:n01", onset=10), until=200).only()
    assert (incident.cause, incident.symptoms) == ("gpu_fallen_off_bus", (("source", "gpu:n01"),))
