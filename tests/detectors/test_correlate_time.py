"""What time says of who explains whom: causes long past, and symptoms that are slower to end than their cause."""

import json

from tests.detectors.correlation_timeline import end, finding, play


def hang(at, onset):
    return finding(at, "job_hang", "train", onset=onset, evidence=json.dumps({"nodes": ["n01", "n02"]}))


def test_a_job_that_stops_with_a_broken_gpu_is_its_symptom():
    incident = play(finding(5, "gpu_memory", "n01/3"), hang(70, onset=12), until=80).only()
    assert (incident.cause, incident.symptoms) == ("gpu_memory", (("job", "train"),))


def test_a_job_that_went_on_without_a_broken_gpu_and_hangs_minutes_later_is_an_incident_of_its_own():
    """Its error still holds for an hour, until somebody has looked at the GPU; the job has gone on since."""
    timeline = play(finding(5, "gpu_memory", "n01/3"), hang(360, onset=300), until=370)
    assert {incident.cause for incident in timeline.at(370)} == {"gpu_memory", "job_hang"}


STUCK = [
    finding(5, "valve_stuck", "n01/3"),
    finding(30, "cold_plate_clogged", "n01/3"),
    end(60, "valve_stuck", "n01/3"),
]


def test_a_symptom_that_its_detector_holds_longer_than_its_cause_is_not_said_again():
    timeline = play(*STUCK, end(600, "cold_plate_clogged", "n01/3"), until=900)
    assert [incident.cause for incident in timeline.at(900)] == ["valve_stuck"]


def test_a_symptom_that_stays_for_good_is_said_when_its_detector_can_no_longer_be_late():
    timeline = play(*STUCK, until=900)
    assert {incident.cause for incident in timeline.at(700)} == {"valve_stuck"}
    assert {incident.cause for incident in timeline.at(900)} == {"valve_stuck", "cold_plate_clogged"}


def test_a_device_that_is_gone_explains_the_last_outage_of_a_flap_whatever_the_first_one_was():
    """The link was down with its node at 5 s; at 300 s its switch dies, which is known at 310 s."""
    flap, switch = finding(302, "link_flap", "c01", onset=5), finding(310, "switch_lost", "leaf0", onset=298)
    incident = play(flap, switch, until=320).only()
    assert (incident.cause, incident.symptoms) == ("switch_lost", (("link", "c01"),))


def test_a_link_that_flapped_before_its_switch_died_is_no_symptom():
    timeline = play(
        finding(100, "link_flap", "c01", onset=5), finding(310, "switch_lost", "leaf0", onset=298), until=320
    )
    assert {incident.cause for incident in timeline.at(320)} == {"link_flap", "switch_lost"}
