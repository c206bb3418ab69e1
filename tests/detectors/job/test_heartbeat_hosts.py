"""Hosts, jobs and collectors beside the ranks: whose silence it is."""

import json
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.contract import Context
from detectors.job.heartbeat import MissedHeartbeats
from schemas.gpu import Gpu
from schemas.job import Heartbeat, JobEvent
from schemas.tables import TABLE_BY_SCHEMA, empty
from tests.detectors.job.heartbeat_rows import beats, judge
from tests.detectors.timelines import assert_cuts_change_nothing, at, cluster, cutting, presence, rows, said

EIGHT = tuple(f"n{number}" for number in range(8))
START = {"time": 0, "job": "train", "kind": "start"}


def reports(nodes, first, last, *, every=1):
    """Rows of a host's first GPU."""
    return [
        {"time": second + 0.4, "node": node, "gpu": 0, "power_watts": 600.0}
        for node in nodes
        for second in range(first, last + 1, every)
    ]


def of_each(nodes, first, last, *, job="train"):
    """One rank a node, a little after one another."""
    return [beat for n, node in enumerate(nodes) for beat in beats(node, 0, first, last, offset=n / 20, job=job)]


def dead(found):
    return said(found.filter(found["severity"] != "info"), "cause", "entity", "active")


def test_a_host_that_reports_on_is_not_lost_and_its_ranks_are_the_ones_that_stopped():
    stopped = [*beats("n1", 0, 0, 10), *beats("n1", 1, 0, 10), *of_each(("n2", "n3"), 0, 40)]
    found = judge(stopped, 40, hosts=reports(("n1", "n2", "n3"), 0, 40))
    assert dead(found) == [(13.25, "gpu_hang", "n1/0", True), (13.25, "gpu_hang", "n1/1", True)]


def test_a_host_that_reports_no_more_is_lost_as_fast_as_ever():
    found = judge(
        of_each(("n1", "n2"), 0, 10) + beats("n2", 0, 11, 40, offset=0.05),
        40,
        hosts=[*reports(("n1",), 0, 10), *reports(("n2",), 0, 40)],
    )
    assert dead(found) == [(13.25, "node_lost", "n1", True)]


def test_a_node_taken_for_lost_is_back_when_its_slow_exporter_reports():
    beating = [*beats("n1", 0, 0, 10), *of_each(("n2",), 0, 60)]
    found = judge(beating, 60, hosts=reports(("n1", "n2"), 0, 60, every=15))
    assert dead(found) == [
        (13.25, "node_lost", "n1", True), (15.4, "node_lost", "n1", False), (18.65, "gpu_hang", "n1/0", True),
    ]  # fmt: skip


@pytest.mark.parametrize(("events", "severity"), [([START], "page"), ([], "ticket")])
def test_a_job_whose_every_rank_stops_while_its_hosts_report_is_a_matter_of_the_job(events, severity):
    others = of_each(("o1", "o2"), 0, 60, job="other")
    found = judge([*of_each(EIGHT, 0, 10), *others], 60, events=events, hosts=reports(EIGHT, 0, 60))
    assert dead(found) == [(13.6, "job_hang", "train", True)]
    assert found["severity"].to_list() == [severity]
    assert json.loads(found["evidence"][0])["nodes"] == list(EIGHT)


def test_a_job_that_is_gone_ends_with_its_next_beat_or_event():
    again = [*of_each(EIGHT, 0, 10), *of_each(EIGHT, 30, 60)]
    found = judge(again, 60, events=[START], hosts=reports(EIGHT, 0, 60))
    assert dead(found) == [(13.6, "job_hang", "train", True), (30.0, "job_hang", "train", False)]
    stop = {"time": 25, "job": "train", "kind": "stop"}
    found = judge(of_each(EIGHT, 0, 10), 60, events=[START, stop], hosts=reports(EIGHT, 0, 60))
    assert dead(found) == [(13.6, "job_hang", "train", True), (25.0, "job_hang", "train", False)]


def test_a_job_that_stopped_as_told_is_not_gone():
    stop = {"time": 10.5, "job": "train", "kind": "stop"}
    assert judge(of_each(EIGHT, 0, 10), 60, events=[START, stop], hosts=reports(EIGHT, 0, 60)).is_empty()


def test_a_rank_that_does_not_come_back_with_its_job_hangs():
    again = [*of_each(EIGHT, 0, 10), *of_each(EIGHT[1:], 30, 60)]
    found = judge(again, 60, events=[START], hosts=reports(EIGHT, 0, 60))
    assert (30.0, "job_hang", "train", False) in dead(found)
    assert [each[1:] for each in dead(found) if each[0] > 30] == [("gpu_hang", "n0/0", True)]


def test_everything_silent_at_once_is_nobodys_loss():
    # Meters, say, move the watermark on; no node, host or neighbour says anything.
    assert judge(of_each(EIGHT, 0, 10), 60, events=[START], hosts=reports(EIGHT, 0, 10)).is_empty()


def test_the_share_of_a_collector_is_not_lost_but_who_does_not_come_back_with_it_is():
    # n2, n3 (of pdu-0) and n4, n5 (of pdu-1) fall silent in every table; half of each domain goes on.
    share, rest = EIGHT[2:6], EIGHT[:2] + EIGHT[6:]
    hearts = [*of_each(rest, 0, 90), *of_each(share, 0, 10), *of_each(share[1:], 30, 90)]
    hosts = [*reports(rest, 0, 90), *reports(share, 0, 10), *reports(share[1:], 30, 90)]
    found = judge(hearts, 90, hosts=hosts)
    # Asked 3.25 s after its last beat and every ten seconds from then on; the others are back at 30 s.
    assert dead(found) == [(33.25, "node_lost", "n2", True)]


def silent_share(fallen, nodes, *, reporting=True):
    """What is said when these of so many nodes, four to a PDU, fall silent in every table at 10 s."""
    every = tuple(f"n{number}" for number in range(nodes))
    fell = [f"n{number}" for number in fallen]
    rest = tuple(node for node in every if node not in fell)
    hosts = [*reports(every, 0, 10), *reports(rest, 11, 16)] if reporting else []
    found = judge([*of_each(every, 0, 10), *of_each(rest, 11, 16)], 16, hosts=hosts, topology=cluster(nodes))
    return found.filter(severity="page").height


def test_a_collectors_share_is_four_nodes_and_a_twentieth_of_all():
    assert silent_share((2, 3, 4), 8) == 3
    assert silent_share((2, 3, 4, 5), 40) == 0
    assert silent_share((2, 3, 4, 5), 100) == 4


def test_a_rack_and_one_node_more_are_no_collector():
    assert silent_share((0, 1, 2, 3, 4), 12) == 5


def test_when_a_tenth_goes_on_hardly_anybody_does():
    assert silent_share(range(2, 30), 30, reporting=False) == 0
    assert silent_share(range(3, 12), 12, reporting=False) == 9


def test_a_rack_that_dies_is_lost_though_all_else_goes_on():
    hearts = [*of_each(EIGHT[:4], 0, 10), *of_each(EIGHT[4:], 0, 40)]
    hosts = [*reports(EIGHT[:4], 0, 10), *reports(EIGHT[4:], 0, 40)]
    assert {each[1:] for each in dead(judge(hearts, 40, hosts=hosts))} == {
        ("node_lost", node, True) for node in EIGHT[:4]
    }


def test_a_slow_clock_in_rows_by_event_time_is_not_a_loss_and_its_node_is_found_when_it_is_lost():
    # By event time n1's rows begin 30 s before everybody's, and end 30 s before them.
    others = [beat for node in EIGHT[2:] for beat in beats(node, 0, 30, 130)]
    assert judge([*beats("n1", 0, 0, 100), *others], 131).is_empty()
    assert dead(judge([*beats("n1", 0, 0, 60), *others], 131)) == [(93.25, "node_lost", "n1", True)]


def slow_clocks(seconds, slow, nodes):
    """What is said, by event time, when so many of the nodes have a clock that is slow by so much."""
    every = [f"n{number}" for number in range(nodes)]
    hearts = [beat for node in every[slow:] for beat in beats(node, 0, seconds, seconds + 30)]
    hearts += [beat for node in every[:slow] for beat in beats(node, 0, 0, 30)]
    return dead(judge(hearts, seconds + 31, topology=cluster(nodes)))


def test_a_clock_is_slow_from_two_seconds_on():
    assert slow_clocks(5, 1, 8) == []
    others = [beat for node in EIGHT[2:] for beat in beats(node, 0, 1, 80)]
    assert dead(judge([*beats("n1", 0, 0, 60), *others], 81)) == [(63.25, "node_lost", "n1", True)]


def test_a_tenth_of_the_clocks_may_be_slow_and_more_are_no_clocks():
    assert slow_clocks(6, 2, 30) == []
    assert len(slow_clocks(6, 5, 30)) == 5


def test_a_node_whose_rows_come_late_is_waited_for_as_long():
    late = [*beats("n1", 0, 0, 30), *of_each(EIGHT[2:], 0, 50)]
    tables = {Heartbeat: rows(Heartbeat, *late)}
    detector, state = MissedHeartbeats(), pl.DataFrame(schema=MissedHeartbeats().keeps)
    batch = {schema: tables.get(schema, empty(TABLE_BY_SCHEMA[schema])) for schema in detector.reads}
    for lag, causes in ((20, set()), (2, {"node_lost"})):
        context = Context(now=at(51), began=at(0), topology=cluster(), lags={"n1": timedelta(seconds=lag)})
        assert set(detector.detect(batch, state, context).findings["cause"]) == causes


def test_a_clock_that_is_fast_makes_no_deadline_shorter():
    paused = [*beats("n1", 0, 0, 30), *beats("n1", 0, 33, 50), *of_each(EIGHT[2:], 0, 50)]
    detector, state = MissedHeartbeats(), pl.DataFrame(schema=MissedHeartbeats().keeps)
    batch = {schema: empty(TABLE_BY_SCHEMA[schema]) for schema in detector.reads} | {
        Heartbeat: rows(Heartbeat, *paused)
    }
    context = Context(now=at(51), began=at(0), topology=cluster(), lags={"n1": timedelta(seconds=-30)})
    assert dead(detector.detect(batch, state, context).findings) == []


@settings(max_examples=25, deadline=None)
@given(
    nodes=st.lists(st.tuples(presence(30), presence(30)), min_size=1, max_size=6),
    ended=st.none() | st.tuples(st.integers(0, 60).map(lambda half: half / 2), st.sampled_from(["start", "stop"])),
    cuts=cutting(45),
)
def test_no_cut_changes_anything_about_hosts_and_jobs(nodes, ended, cuts):
    alive = [
        {"time": second + number / 8, "node": f"n{number + 1}", "gpu": 0, "job": f"j{number // 3}", "rank": number}
        for number, (flags, _) in enumerate(nodes)
        for second, beating in enumerate(flags)
        if beating
    ]
    hosts = [
        {"time": second + 0.4, "node": f"n{number + 1}", "gpu": 0, "power_watts": 600.0}
        for number, (_, flags) in enumerate(nodes)
        for second, reporting in enumerate(flags)
        if reporting
    ]
    tables = {
        Heartbeat: rows(Heartbeat, *alive), Gpu: rows(Gpu, *hosts),
        JobEvent: rows(JobEvent, *([{"time": ended[0], "job": "j0", "kind": ended[1]}] if ended else [])),
    }  # fmt: skip
    assert_cuts_change_nothing(MissedHeartbeats(), tables, 45, cuts)
