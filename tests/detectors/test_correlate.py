"""Timelines of cascades, of waiting, of better explanations and of ends."""

import json

import pytest

from detectors.catalog import CATALOG
from detectors.correlation_state import LEVEL_PER_CODE
from tests.detectors.correlation_timeline import end, finding, nodes_lost, play, seconds

PDUS_LOST = [finding(5.2, "power_domain_lost", f"pdu{pdu}", onset=5.0) for pdu in range(3)]
GPUS_384 = {f"n{node:02}/{slot}" for node in range(48) for slot in range(8)}


class TestCascade:
    def test_three_pdus_lost_at_once_are_one_incident_of_384_gpus(self):
        incident = play(*PDUS_LOST).only()
        assert (incident.cause, incident.root_kind, incident.state) == ("power_domain_lost", "pdu", "firing")
        assert incident.roots == ("pdu0", "pdu1", "pdu2")
        assert set(incident.members) == GPUS_384
        assert (seconds(incident.starts_at), seconds(incident.detected_at)) == (5.0, 5.2)

    @pytest.mark.parametrize("first", [4.0, 6.5, 14.0], ids=["before", "around", "after"])
    def test_nodes_lost_before_or_after_the_pdus_fold_into_their_incident(self, first):
        timeline = play(*PDUS_LOST, *nodes_lost(first, step=0.05, onset=5.1), until=25)
        incident = timeline.only()
        assert incident.cause == "power_domain_lost"
        assert set(incident.members) == GPUS_384
        assert incident.findings == {"node_lost": 48, "power_domain_lost": 3}
        assert timeline.pages() == {incident.id}

    def test_gpus_links_sources_and_jobs_of_the_domain_are_symptoms(self):
        job = json.dumps({"members": ["n01/3", "n60/0"]})
        incident = play(
            *PDUS_LOST,
            finding(6, "gpu_hang", "n03/1"),
            finding(6, "link_down", "c04"),
            finding(7, "job_hang", "llm", evidence=job),
            finding(8, "telemetry_stale", "gpu:n05"),
            finding(8, "telemetry_stale", "fabric_port:n05/hca0"),
            finding(8, "telemetry_stale", "power:pdu1"),
        ).only()
        assert incident.symptoms == (
            ("gpu", "n03/1"), ("job", "llm"), ("link", "c04"), ("source", "fabric_port:n05/hca0"),
            ("source", "gpu:n05"), ("source", "power:pdu1"),
        )  # fmt: skip

    def test_members_are_the_silent_ones_when_nodes_spoke_first_and_only_grow(self):
        nodes = [finding(4 + 0.1 * n, "node_lost", f"n{n:02}", onset=3.9) for n in range(10)]
        late = finding(8, "node_lost", "n11", onset=4.5)
        timeline = play(*nodes, finding(5.5, "power_domain_lost", "pdu0", onset=4.0), late)
        assert len(timeline.only(7).members) == 10 * 8
        assert len(timeline.only().members) == 11 * 8

    def test_a_second_feed_keeps_nodes_out_of_the_members(self):
        assert play(finding(5, "power_domain_lost", "pdu3")).only().members == ()

    def test_nodes_whose_both_feeds_are_lost_are_members(self):
        incident = play(finding(5, "power_domain_lost", "pdu3"), finding(6, "power_domain_lost", "pdu9")).only()
        assert len(incident.members) == 16 * 8

    def test_a_pump_is_explained_only_when_its_whole_loop_is_dark(self):
        pump = finding(6, "coolant_pump_failure", "cdu0")
        half = play(finding(5, "power_domain_lost", "pdu0"), pump)
        assert {incident.cause for incident in half.at(20)} == {"power_domain_lost", "coolant_pump_failure"}
        assert play(*PDUS_LOST, pump).only().cause == "power_domain_lost"


class TestWaiting:
    def test_a_usual_symptom_without_a_cause_fires_when_it_has_waited(self):
        timeline = play(finding(5, "node_lost", "n01", onset=2))
        assert timeline.at(7) == []
        incident = timeline.only(8)
        assert (seconds(incident.starts_at), seconds(incident.detected_at)) == (2, 8)
        assert incident.members == tuple(f"n01/{slot}" for slot in range(8))

    def test_other_causes_fire_at_once(self):
        assert seconds(play(finding(5.25, "gpu_fatal_error", "n01/3")).only(6).detected_at) == 5.25

    def test_what_is_over_before_it_has_waited_is_not_told(self):
        assert play(finding(5, "node_lost", "n01"), end(7, "node_lost", "n01")).told == []

    def test_a_suspicion_is_told_but_never_fires(self):
        timeline = play(finding(5, "node_lost", "n01", severity="info", code="suspect"), until=60)
        assert {(incident.state, incident.members) for _, incident in timeline.told} == {("suspect", ())}

    def test_a_suspicion_that_is_confirmed_fires(self):
        incident = play(finding(5, "node_lost", "n01", severity="info"), finding(6, "node_lost", "n01")).only()
        assert (incident.state, seconds(incident.detected_at), len(incident.members)) == ("firing", 9, 8)

    def test_a_suspected_node_takes_no_part_in_its_neighbours_incident(self):
        timeline = play(finding(5, "node_lost", "n00"), finding(5, "node_lost", "n01", severity="info"))
        assert {(incident.state, incident.roots) for incident in timeline.at(20)} == {
            ("firing", ("n00",)), ("suspect", ("n01",)),
        }  # fmt: skip

    def test_a_suspicion_explains_no_certainty(self):
        timeline = play(finding(5, "node_lost", "n01", severity="info"), finding(5, "gpu_fatal_error", "n01/0"))
        assert {incident.cause for incident in timeline.at(20)} == {"node_lost", "gpu_fatal_error"}

    def test_a_suspicion_that_is_confirmed_takes_over_the_incident_that_it_now_explains(self):
        suspected = finding(5, "power_domain_lost", "pdu1", severity="info")
        timeline = play(suspected, finding(5, "node_lost", "n17"), finding(10, "power_domain_lost", "pdu1"))
        (node,) = (incident for incident in timeline.at(9) if incident.cause == "node_lost")
        assert (timeline.only().id, timeline.only().cause, timeline.only().roots) == (
            node.id, "power_domain_lost", ("pdu1",),
        )  # fmt: skip

    def test_a_suspected_hang_that_is_confirmed_has_its_gpus_in_the_incident_that_it_takes_over(self):
        evidence = json.dumps({"nodes": ["n01"]})
        suspected = finding(5, "job_hang", "train", severity="info", evidence=evidence)
        stale = finding(5, "checkpoint_stale", "train")
        incident = play(suspected, stale, finding(10, "job_hang", "train", evidence=evidence)).only()
        assert (incident.cause, len(incident.members)) == ("job_hang", 8)


class TestBetterExplanation:
    def test_an_open_incident_is_re_rooted_and_keeps_its_id(self):
        timeline = play(finding(5, "gpu_fatal_error", "n01/3"), finding(20, "node_lost", "n01", onset=4), until=30)
        before, after = timeline.only(10), timeline.only()
        assert (before.cause, after.cause, after.root_kind, after.roots) == (
            "gpu_fatal_error",
            "node_lost",
            "node",
            ("n01",),
        )
        assert after.id == before.id
        assert after.detected_at == before.detected_at
        assert after.symptoms == (("gpu", "n01/3"),)
        assert timeline.pages() == {before.id}

    def test_of_two_open_incidents_the_earlier_keeps_its_id_and_the_other_says_where_it_went(self):
        timeline = play(
            finding(5, "gpu_fatal_error", "n01/3"),
            finding(6, "gpu_fatal_error", "n02/3"),
            finding(9, "power_domain_lost", "pdu0", onset=4),
        )
        kept = timeline.only()
        (gone,) = {incident.id: incident for _, incident in timeline.told if incident.merged_into}.values()
        assert (kept.cause, kept.evidence[0]["entity"]) == ("power_domain_lost", "pdu0")
        assert (gone.state, gone.merged_into, seconds(gone.ends_at)) == ("resolved", kept.id, 9)
        assert {("gpu", "n01/3"), ("gpu", "n02/3")} <= set(kept.symptoms)

    def test_an_incident_older_than_a_minute_is_left_as_it_is(self):
        timeline = play(finding(5, "gpu_fatal_error", "n01/3"), finding(90, "node_lost", "n01", onset=4), until=100)
        assert {incident.cause for incident in timeline.at(100)} == {"gpu_fatal_error", "node_lost"}


class TestEnd:
    def test_it_ends_when_its_root_ended_and_is_resolved_when_that_has_lasted(self):
        timeline = play(finding(5, "gpu_fatal_error", "n01/3"), end(20, "gpu_fatal_error", "n01/3"), until=60)
        assert (timeline.only(49).state, timeline.only(49).ends_at) == ("firing", None)
        assert (timeline.only(50).state, seconds(timeline.only(50).ends_at)) == ("resolved", 20)

    def test_it_lasts_as_long_as_any_of_its_members_is_out(self):
        timeline = play(
            finding(5, "power_domain_lost", "pdu0"), finding(7, "node_lost", "n01", onset=5),
            end(20, "power_domain_lost", "pdu0"), end(100, "node_lost", "n01"), until=140,
        )  # fmt: skip
        assert timeline.only(129).state == "firing"
        assert (timeline.only(130).state, seconds(timeline.only(130).ends_at)) == ("resolved", 100)

    def test_a_root_that_comes_back_before_it_is_resolved_is_a_flap_of_the_same_incident(self):
        flap = [finding(5, "link_down", "c01"), end(20, "link_down", "c01"), finding(30, "link_down", "c01")]
        timeline = play(*flap, until=80)
        assert (timeline.only().state, timeline.only().flaps, seconds(timeline.only().starts_at)) == ("firing", 1, 5)
        assert timeline.only().evidence[0]["flaps"] == 1

    def test_a_root_that_comes_back_soon_after_re_opens_the_incident(self):
        flap = [finding(5, "link_down", "c01"), end(20, "link_down", "c01"), finding(200, "link_down", "c01")]
        timeline = play(*flap, until=210)
        assert timeline.only(100).state == "resolved"
        assert (timeline.only().state, timeline.only().ends_at, timeline.only().flaps) == ("firing", None, 1)

    def test_a_root_that_comes_back_late_is_a_new_incident(self):
        flap = [finding(5, "link_down", "c01"), end(20, "link_down", "c01"), finding(400, "link_down", "c01")]
        assert [incident.state for incident in play(*flap, until=410).at(410)] == ["resolved", "firing"]

    def test_a_symptom_that_outlives_its_cause_stands_for_itself(self):
        timeline = play(
            finding(5, "node_lost", "n01"), finding(6, "link_down", "c01"), end(20, "node_lost", "n01"), until=70
        )
        lasting = {incident.cause: incident for incident in timeline.at(70)}
        assert lasting["node_lost"].state == "resolved"
        assert (lasting["link_down"].state, seconds(lasting["link_down"].detected_at)) == ("firing", 53)
        assert seconds(lasting["link_down"].starts_at) == 6

    def test_the_end_of_what_nobody_stated_is_nothing(self):
        assert play(end(5, "node_lost", "n01")).told == []


def test_evidence_is_bounded_and_the_roots_come_first():
    sources = [
        finding(6, "gpu_hang", f"n{node:02}/{slot}", evidence='{"beats_missed": 3}')
        for node in range(16)
        for slot in range(8)
    ]
    incident = play(*sources, finding(6.5, "power_domain_lost", "pdu0", onset=5, evidence='{"volts": 0.0}')).only()
    assert len(incident.evidence) == 20
    assert (incident.evidence[0]["cause"], incident.evidence[0]["values"]) == ("power_domain_lost", {"volts": 0.0})
    assert incident.findings == {"gpu_hang": 128, "power_domain_lost": 1}


def test_severity_rises_to_that_of_the_gravest_finding():
    assert play(finding(5, "cold_plate_clogged", "n01/3")).only().severity == "ticket"
    throttled = finding(9, "gpu_thermal_throttle", "n01/3")
    assert play(finding(5, "cold_plate_clogged", "n01/3"), throttled).only().severity == "page"


class TestLevelsOfOneEntity:
    """What is one level and what is two: an XID each, one leak however it shows."""

    @staticmethod
    def xid(at, code, **said):
        return finding(at, "gpu_fatal_error", "n01/3", detector="gpu.xid", code=f"xid {code}", **said)

    def test_the_end_of_one_driver_error_does_not_end_another_of_the_same_gpu(self):
        timeline = play(self.xid(5, 48), self.xid(6, 119), self.xid(10, 48, active=False), until=80)
        incident = timeline.only()
        assert (incident.state, incident.findings) == ("firing", {"gpu_fatal_error": 2})
        ended = play(
            self.xid(5, 48), self.xid(6, 119), self.xid(10, 48, active=False), self.xid(12, 119, active=False), until=80
        )
        assert (ended.only().state, seconds(ended.only().ends_at)) == ("resolved", 12)

    def test_a_code_that_is_only_a_word_about_the_level_does_not_make_another(self):
        leak = {"detector": "coolant.leak"}
        timeline = play(
            finding(5, "coolant_leak", "cdu0", code="rope", **leak),
            finding(8, "coolant_leak", "cdu0", code="rope+level", **leak),
            end(20, "coolant_leak", "cdu0", code="", **leak),
            until=80,
        )
        assert timeline.only().state == "resolved"

    def test_a_job_that_hangs_by_itself_has_its_gpus_as_members_and_as_a_symptom_has_none(self):
        nodes = json.dumps({"job": "llm", "nodes": ["n01", "n60"]})
        assert len(play(finding(5, "job_hang", "llm", evidence=nodes)).only().members) == 16
        fatal = finding(5, "gpu_fatal_error", "n01/3")
        assert play(fatal, finding(7, "job_hang", "llm", evidence=nodes)).only().members == ("n01/3",)

    def test_gpus_of_a_hang_that_was_told_stay_members_when_a_better_cause_is_found(self):
        nodes = json.dumps({"job": "llm", "nodes": ["n01", "n60"]})
        hang, fatal = finding(5, "job_hang", "llm", evidence=nodes), finding(20, "gpu_fatal_error", "n01/3", onset=4)
        timeline = play(hang, fatal, until=40)
        before, after = timeline.only(15), timeline.only()
        assert (len(before.members), after.cause, after.id) == (16, "gpu_fatal_error", before.id)
        assert after.members == before.members

    def test_gpus_of_a_hang_that_nobody_was_told_of_are_not_members_of_its_cause(self):
        nodes = json.dumps({"job": "llm", "nodes": ["n01", "n60"]})
        hang, fatal = finding(5, "job_hang", "llm", evidence=nodes), finding(7, "gpu_fatal_error", "n01/3", onset=4)
        assert play(hang, fatal).only().members == ("n01/3",)

    def test_a_collector_that_stops_is_one_incident_over_tables_and_places(self):
        silent = [
            finding(60 + n / 10, "telemetry_stale", source)
            for n, source in enumerate(("gpu:n01", "cold_plate:n01", "power:pdu2", "coolant_loop:cdu1", "gpu:n60"))
        ]
        assert len(play(*silent, until=70).only().roots) == 5


def test_detectors_with_a_level_for_each_code_are_in_the_catalogue():
    assert {detector.name for detector in CATALOG} >= LEVEL_PER_CODE
