"""A PDU of four nodes (n0 to n3), 415 V line to line, everything at 1 Hz; the power fails at 10.5 s."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.power.domain_loss import PowerDomainLoss
from schemas.coolant import CoolantLoop
from schemas.gpu import Gpu
from schemas.job import Heartbeat, JobEvent, Maintenance
from schemas.power import Power
from schemas.topology import topology_from_frames
from tests.detectors.timelines import assert_cuts_change_nothing, cluster, cutting, presence, rows, run, said

HEALTHY = {"volts": 415.0, "breaker": "closed"}


def meter(first, last, pdu="pdu-0", offset=0.2, **reading):
    return [{"time": s + offset, "pdu": pdu, **(reading or HEALTHY)} for s in range(first, last + 1)]


def beats(first, last, *nodes, offset=0.0):
    return [
        {"time": second + offset + 0.05 * number, "node": node, "gpu": 0, "job": "train", "rank": number}
        for number, node in enumerate(nodes)
        for second in range(first, last + 1)
    ]


def cooled(topology):
    """With the nodes of pdu-0 on one loop."""
    nodes = topology.nodes.with_columns(cdu=pl.when(pl.col("pdu") == "pdu-0").then(pl.lit("cdu-0")))
    return topology_from_frames("cooled", nodes, topology.links, gpus_per_node=4)


def judge(power, hearts, ends, *, events=(), plans=(), topology=None, hosts=(), loops=()):
    tables = {
        Power: rows(Power, *power), Heartbeat: rows(Heartbeat, *hearts), JobEvent: rows(JobEvent, *events),
        Maintenance: rows(Maintenance, *plans), Gpu: rows(Gpu, *hosts), CoolantLoop: rows(CoolantLoop, *loops),
    }  # fmt: skip
    return run(PowerDomainLoss(), tables, ends, topology=topology)[0]


FOUR = ("n0", "n1", "n2", "n3")
NEIGHBOURS = ("n4", "n5")


@pytest.mark.parametrize(
    "reading", [{"volts": 0.0, "breaker": "closed"}, {"volts": 200.0}, {"breaker": "tripped"}, {"breaker": "open"}]
)
def test_a_meter_that_speaks_of_no_power_is_believed_at_once(reading):
    found = judge([*meter(0, 10), *meter(11, 20, **reading)], [], 20)
    assert said(found, "cause", "kind", "entity", "severity", "active") == [
        (11.2, "power_domain_lost", "pdu", "pdu-0", "page", True)
    ]


def test_a_sag_to_seventy_percent_is_not_a_loss():
    assert judge([*meter(0, 10), *meter(11, 20, volts=290.0)], [], 20).is_empty()


def test_one_wrong_high_reading_does_not_become_normal():
    assert judge([*meter(0, 10), *meter(11, 11, volts=1900.0), *meter(12, 30)], [], 30).is_empty()


def test_volts_back_end_it_and_half_way_back_does_not():
    power = [*meter(0, 10), *meter(11, 15, volts=0.0), *meter(16, 20, volts=300.0), *meter(21, 30)]
    found = judge(power, [], 30)
    assert said(found, "active") == [(11.2, True), (21.2, False)]
    assert found["first_bad_at"].n_unique() == 1


def test_a_dead_meter_and_its_dead_nodes_are_a_loss_within_four_seconds():
    found = judge(meter(0, 10), [*beats(0, 10, *FOUR), *beats(0, 30, "n4", "n5")], 30)
    # Last beats at 10.0 to 10.15, last sample at 10.2: all deadlines have passed at 13.45, 2.95 s after 10.5.
    assert said(found, "entity", "active") == [(13.45, "pdu-0", True)]
    assert found["first_bad_at"].item().microsecond == 150_000


def test_half_of_the_nodes_are_enough_with_a_dead_meter():
    found = judge(meter(0, 10), [*beats(0, 10, "n0", "n1"), *beats(0, 30, "n2", "n3")], 30)
    assert said(found, "entity") == [(13.45, "pdu-0")]


def test_fewer_than_half_are_lost_nodes_and_not_a_lost_domain():
    assert judge(meter(0, 10), [*beats(0, 10, "n0"), *beats(0, 30, "n1", "n2", "n3")], 30).is_empty()


def test_a_silent_meter_alone_is_not_a_loss():
    assert judge(meter(0, 10), beats(0, 40, *FOUR), 40).is_empty()


def test_nodes_that_fall_behind_a_healthy_meter_lost_something_else():
    assert judge(meter(0, 40), [*beats(0, 10, *FOUR), *beats(0, 40, *NEIGHBOURS)], 40).is_empty()


def test_nodes_that_fell_long_before_their_meter_are_not_its_doing():
    assert judge(meter(0, 35), [*beats(0, 10, *FOUR), *beats(0, 60, *NEIGHBOURS)], 60).is_empty()


def test_without_a_meter_four_of_five_nodes_within_ten_seconds_are_a_loss():
    topology = cluster(5, nodes_per_pdu=5)
    fallen = [*beats(0, 10, "n0", "n1", "n2"), *beats(0, 18, "n3"), *beats(0, 40, "n4")]
    found = judge([], fallen, 40, topology=topology)
    assert said(found, "entity") == [(21.25, "pdu-0")]


def test_without_a_meter_nodes_that_fall_far_apart_are_lost_nodes():
    fallen = [*beats(0, 10, "n0"), *beats(0, 21, "n1"), *beats(0, 32, "n2"), *beats(0, 43, "n3")]
    assert judge([], [*fallen, *beats(0, 60, *NEIGHBOURS)], 60).is_empty()


def test_without_a_meter_one_node_is_a_lost_node():
    assert judge([], beats(0, 10, "n0"), 40, topology=cluster(1)).is_empty()


def test_a_node_with_a_second_feed_proves_nothing():
    topology = cluster(4, second_feeds={"n2": "pdu-9", "n3": "pdu-9"})
    hearts = [*beats(0, 10, "n0", "n1"), *beats(0, 40, "n2", "n3")]
    assert said(judge([], hearts, 40, topology=topology), "entity") == [(13.3, "pdu-0")]
    assert judge([], [*beats(0, 10, "n2", "n3"), *beats(0, 40, "n0", "n1")], 40, topology=topology).is_empty()


def test_a_node_that_beats_again_ends_what_silence_began():
    neighbours = beats(0, 120, *NEIGHBOURS)
    hearts = [*beats(0, 10, *FOUR), *beats(100, 120, "n1"), *beats(105, 120, "n0", "n2", "n3"), *neighbours]
    assert said(judge(meter(0, 10), hearts, 120), "active") == [(13.45, True), (100.0, False)]


def test_a_meter_that_speaks_again_ends_it_before_the_nodes_have_booted():
    found = judge(
        [*meter(0, 10), *meter(60, 90)], [*beats(0, 10, *FOUR), *beats(80, 90, *FOUR), *beats(0, 90, *NEIGHBOURS)], 90
    )
    assert said(found, "active") == [(13.45, True), (60.2, False)]


def test_a_beating_node_does_not_overrule_a_meter_that_speaks():
    power = [*meter(0, 10), *meter(11, 40, volts=0.0)]
    hearts = [*beats(0, 10, *FOUR), *beats(20, 40, "n0")]
    assert said(judge(power, hearts, 40), "active") == [(11.2, True)]


@pytest.mark.parametrize("kind", ["stop", "restart"])
def test_a_job_that_ends_is_not_a_power_loss(kind):
    hearts = [*beats(0, 10, *FOUR), *beats(0, 40, *NEIGHBOURS)]
    assert judge([], hearts, 40).height == 1
    assert judge([], hearts, 40, events=[{"time": 10.6, "job": "train", "kind": kind}]).is_empty()


@pytest.mark.parametrize(("kind", "entity"), [("pdu", "pdu-0"), ("superblock", "sb0")])
def test_maintenance_is_not_a_loss(kind, entity):
    plan = {"starts_at": 9, "ends_at": 60, "kind": kind, "id": entity}
    assert judge([], [*beats(0, 10, *FOUR), *beats(0, 40, *NEIGHBOURS)], 40, plans=[plan]).is_empty()


def test_a_breaker_opened_under_maintenance_of_the_pdu_is_not_a_loss():
    plan = {"starts_at": 9, "ends_at": 60, "kind": "pdu", "id": "pdu-0"}
    assert judge([*meter(0, 10), *meter(11, 40, breaker="open")], [], 40, plans=[plan]).is_empty()


def test_meters_and_nodes_that_no_topology_knows_do_not_raise():
    found = judge([*meter(0, 10, pdu="x"), *meter(11, 20, pdu="x", breaker="open")], beats(0, 10, "stranger"), 20)
    assert said(found, "entity") == [(11.2, "x")]


def test_readings_that_are_missing_say_nothing():
    assert judge([*meter(0, 10), *meter(11, 30, volts=None)], [], 30).is_empty()


def test_everything_silent_at_once_is_the_collector_and_no_loss_of_power():
    assert judge(meter(0, 10), beats(0, 10, *FOUR, *NEIGHBOURS), 60).is_empty()


def test_a_domain_silent_with_its_coolant_unit_is_the_collector_and_no_loss_of_power():
    topology = cooled(cluster())
    hearts = [*beats(0, 10, *FOUR), *beats(0, 30, *NEIGHBOURS)]
    silent, speaking = ([{"time": s + 0.5, "cdu": "cdu-0"} for s in range(end)] for end in (10, 30))
    assert judge(meter(0, 10), hearts, 30, topology=topology, loops=silent).is_empty()
    assert said(judge(meter(0, 10), hearts, 30, topology=topology, loops=speaking), "entity") == [(13.45, "pdu-0")]


def test_nodes_whose_hosts_report_have_power():
    hosts = [{"time": s + 0.4, "node": node, "gpu": 0, "power_watts": 90.0} for s in range(30) for node in FOUR]
    assert judge([], [*beats(0, 10, *FOUR), *beats(0, 30, *NEIGHBOURS)], 30, hosts=hosts).is_empty()
    assert judge(meter(0, 10), [*beats(0, 10, *FOUR), *beats(0, 30, *NEIGHBOURS)], 30, hosts=hosts).is_empty()


def test_a_job_explains_who_leaves_within_five_seconds_of_its_end():
    hearts = [*beats(0, 10, *FOUR), *beats(0, 30, *NEIGHBOURS)]
    assert judge([], hearts, 30, events=[{"time": 6.5, "job": "train", "kind": "stop"}]).is_empty()
    found = judge([], hearts, 30, events=[{"time": 2.0, "job": "train", "kind": "stop"}])
    assert said(found, "entity") == [(13.4, "pdu-0")]


def test_a_normal_that_was_wrong_fades_with_a_day():
    # Two readings of 900 V agree. 415 V are 80 % of what is left of them when ln(720 / 415) = 0.551 days have passed:
    # 47,605 s after 1.2 s.
    power = [*meter(0, 1, volts=900.0), *(row for tens in range(1, 100) for row in meter(600 * tens, 600 * tens))]
    assert said(judge(power, [], 60_000), "active") == [(600.2, True), (48_000.2, False)]


READINGS = st.sampled_from([HEALTHY, HEALTHY, {"volts": 0.0}, {"volts": 300.0}, {"breaker": "open"}, {"volts": None}])


@settings(max_examples=20, deadline=None)
@given(
    nodes=st.lists(presence(40), min_size=1, max_size=5),
    metered=st.none() | st.tuples(presence(40), st.lists(READINGS, min_size=40, max_size=40)),
    ended=st.none() | st.integers(0, 80).map(lambda half: half / 2),
    plan=st.none()
    | st.tuples(st.integers(0, 40), st.integers(1, 20), st.sampled_from([("pdu", "pdu-0"), ("node", "n1")])),
    cuts=cutting(50),
)
def test_no_cut_changes_anything(nodes, metered, ended, plan, cuts):
    hearts = [
        {"time": second + 0.1 * number, "node": f"n{number}", "gpu": 0, "job": "train", "rank": number}
        for number, flags in enumerate(nodes)
        for second, beating in enumerate(flags)
        if beating
    ]
    power = [
        {"time": second + 0.2, "pdu": "pdu-0", **reading}
        for second, (sends, reading) in enumerate(zip(*metered, strict=True) if metered else ())
        if sends
    ]
    plans = [{"starts_at": plan[0], "ends_at": plan[0] + plan[1], "kind": plan[2][0], "id": plan[2][1]}] if plan else []
    tables = {
        Power: rows(Power, *power), Heartbeat: rows(Heartbeat, *hearts), Maintenance: rows(Maintenance, *plans),
        JobEvent: rows(JobEvent, *([{"time": ended, "job": "train", "kind": "stop"}] if ended is not None else [])),
    }  # fmt: skip
    assert_cuts_change_nothing(PowerDomainLoss(), tables, 50, cuts)
