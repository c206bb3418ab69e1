"""Beats at 1 Hz: a beat is missed 0.25 s after it was due, so suspect comes 2.25 s and dead 3.25 s after the last."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.job.heartbeat import MissedHeartbeats
from schemas.job import Heartbeat, JobEvent, Maintenance
from tests.detectors.job.heartbeat_rows import beats, judge
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, presence, rows, run, said


def test_a_rank_that_stops_alone_is_suspect_then_dead():
    found = judge([*beats("n1", 0, 0, 10), *beats("n1", 1, 0, 30)], 20)
    assert said(found, "cause", "kind", "entity", "code", "severity") == [
        (12.25, "gpu_hang", "gpu", "n1/0", "suspect", "info"),
        (13.25, "gpu_hang", "gpu", "n1/0", "dead", "page"),
    ]
    assert found["first_bad_at"].dt.second().to_list() == [11, 11]


def test_two_lost_beats_are_not_a_death():
    found = judge([*beats("n1", 0, 0, 10), *beats("n1", 0, 13, 30), *beats("n1", 1, 0, 30)], 30)
    assert said(found, "code", "active") == [(12.25, "suspect", True), (13.0, "suspect", False)]


def test_one_lost_beat_is_nothing():
    assert judge([*beats("n1", 0, 0, 10), *beats("n1", 0, 12, 30), *beats("n1", 1, 0, 30)], 30).is_empty()


def test_a_beat_at_the_very_deadline_still_counts():
    late = {"time": 13.25, "node": "n1", "gpu": 0, "job": "train", "rank": 0}
    found = judge([*beats("n1", 0, 0, 10), late, *beats("n1", 0, 14, 30), *beats("n1", 1, 0, 30)], 30)
    assert "dead" not in found["code"].to_list()


def test_a_node_whose_ranks_beat_one_after_another_is_lost_once_and_no_gpu_hangs():
    # The node dies at 10.5: slots 0 to 4 have beaten in that second, slots 5 to 7 have not.
    dying = [beats("n1", gpu, 0, 10 if gpu < 5 else 9, offset=gpu / 10) for gpu in range(8)]
    found = judge([beat for one in dying for beat in one], 20)
    assert said(found.filter(code="dead"), "cause", "kind", "entity", "active") == [
        (13.65, "node_lost", "node", "n1", True)
    ]
    assert "gpu_hang" not in found["cause"].to_list()


def test_a_node_with_one_rank_is_lost_with_it():
    assert said(judge(beats("n1", 0, 0, 10), 20).filter(code="dead"), "cause") == [(13.25, "node_lost")]


def test_a_node_is_lost_at_its_last_survivors_deadline():
    found = judge([*beats("n1", 0, 0, 10), *beats("n1", 1, 0, 20)], 40).filter(code="dead")
    assert said(found, "entity") == [(13.25, "n1/0"), (23.25, "n1")]


def test_a_returning_beat_ends_both_stages_at_its_time():
    found = judge([*beats("n1", 0, 0, 10), *beats("n1", 0, 20, 30), *beats("n1", 1, 0, 30)], 30)
    assert said(found.filter(~found["active"]), "entity", "code") == [(20.0, "n1/0", "dead"), (20.0, "n1/0", "suspect")]


def test_a_returning_node_gives_its_ranks_time_to_come_back():
    first = [beat for gpu in range(4) for beat in beats("n1", gpu, 0, 10, offset=gpu / 10)]
    again = [beat for gpu in range(4) for beat in beats("n1", gpu, 20 + gpu // 2, 40, offset=gpu / 10)]
    found = judge([*first, *again], 40)
    assert set(found["cause"]) == {"node_lost"}
    assert said(found.filter(~found["active"] & (found["code"] == "dead")), "entity") == [(20.0, "n1")]


def test_a_rank_that_does_not_come_back_with_its_node_hangs():
    found = judge([*beats("n1", 0, 0, 10), *beats("n1", 1, 0, 10), *beats("n1", 1, 20, 40)], 40)
    assert said(found.filter(cause="gpu_hang", code="dead"), "entity") == [(23.25, "n1/0")]


def lost_after_restart(members):
    """Four nodes beat; the job restarts at 10 s with these members, and n0 falls silent after 14 s."""
    going_on = [beat for n in range(1, 4) for beat in beats(f"n{n}", 0, 0, 40)]
    event = {"time": 10, "job": "train", "kind": "restart", "members": members}
    found = judge([*going_on, *beats("n0", 0, 0, 14)], 41, events=[event])
    return found.filter(cause="node_lost", severity="page")["entity"].to_list()


def test_a_node_lost_seconds_after_a_restart_that_keeps_it_is_lost():
    assert lost_after_restart(["n0/0", "n1/0", "n2/0", "n3/0"]) == ["n0"]
    assert lost_after_restart(["n1/0", "n2/0", "n3/0"]) == []


def test_members_of_a_restart_may_take_their_time_to_come_back():
    nodes = [f"n{n}" for n in range(4)]
    around = [beat for node in nodes for beat in (*beats(node, 0, 0, 9), *beats(node, 0, 30, 40))]
    event = {"time": 10, "job": "train", "kind": "restart", "members": [f"{node}/0" for node in nodes]}
    assert judge(around, 41, events=[event]).filter(severity="page").is_empty()


@pytest.mark.parametrize("kind", ["stop", "restart"])
@pytest.mark.parametrize("when", [6.0, 10.5, 13.0])
def test_a_clean_end_is_not_a_loss(kind, when):
    ended = [*beats("n1", 0, 0, 10), *beats("n1", 1, 0, 9, offset=0.5), *beats("n2", 0, 0, 10)]
    found = judge(ended, 60, events=[{"time": when, "job": "train", "kind": kind}])
    assert "dead" not in found["code"].to_list()
    assert found["active"].sum() * 2 == found.height  # a suspicion that had begun is withdrawn


@pytest.mark.parametrize("event", [("train", "checkpoint", 10.5), ("other", "stop", 10.5), ("train", "stop", 2.0)])
def test_other_events_other_jobs_and_old_ends_excuse_nothing(event):
    job, kind, when = event
    found = judge(beats("n1", 0, 0, 10), 60, events=[{"time": when, "job": job, "kind": kind}])
    assert found.filter(code="dead").height == 1


@pytest.mark.parametrize(
    ("kind", "entity"), [("node", "n1"), ("job", "train"), ("pdu", "pdu-0"), ("superblock", "sb0")]
)
def test_maintenance_is_not_a_loss(kind, entity):
    plan = {"starts_at": 9, "ends_at": 60, "kind": kind, "id": entity}
    assert judge([*beats("n1", 0, 0, 10), *beats("n1", 1, 0, 10)], 60, plans=[plan]).is_empty()


def test_maintenance_of_one_gpu_excuses_that_gpu():
    plan = {"starts_at": 9, "ends_at": None, "kind": "gpu", "id": "n1/0"}
    stopped = [*beats("n1", 0, 0, 10), *beats("n1", 1, 0, 10), *beats("n1", 2, 0, 40)]
    assert set(judge(stopped, 30, plans=[plan])["entity"]) == {"n1/1"}


def test_maintenance_that_is_over_excuses_nothing():
    plan = {"starts_at": 2, "ends_at": 9, "kind": "node", "id": "n1"}
    assert judge(beats("n1", 0, 0, 10), 30, plans=[plan]).filter(code="dead").height == 1


def test_a_window_announced_open_and_then_closed_excuses_nothing_after_its_end():
    announced = [{"starts_at": 2, "ends_at": end, "kind": "node", "id": "n1"} for end in (None, 6)]
    assert judge(beats("n1", 0, 0, 10), 30, plans=announced).filter(code="dead").height == 1


@pytest.mark.parametrize(("first", "last", "lost"), [(60, 6, 1), (6, 60, 0), (60, 2, 1)])
def test_of_a_window_what_was_announced_last_holds(first, last, lost):
    told = [
        {"announced_at": second, "starts_at": 2, "ends_at": end, "kind": "node", "id": "n1"}
        for second, end in ((0, first), (1, last))
    ]
    assert judge(beats("n1", 0, 0, 10), 30, plans=told).filter(code="dead").height == lost


def test_ranks_that_left_as_planned_are_forgotten():
    tables = {
        Heartbeat: rows(Heartbeat, *beats("n1", 0, 0, 10), *beats("n1", 1, 0, 10)),
        JobEvent: rows(JobEvent, {"time": 10.5, "job": "train", "kind": "stop"}),
    }
    assert run(MissedHeartbeats(), tables, 60)[1].is_empty()


def test_a_rank_dead_before_the_job_ends_stays_dead():
    stopped = [*beats("n1", 0, 0, 10), *beats("n1", 1, 0, 30)]
    found = judge(stopped, 60, events=[{"time": 30.5, "job": "train", "kind": "stop"}])
    assert said(found.filter(code="dead"), "entity", "active") == [(13.25, "n1/0", True)]


def test_a_dead_rank_outlives_its_node_which_left_as_planned():
    tables = {
        Heartbeat: rows(Heartbeat, *beats("n1", 0, 0, 10), *beats("n1", 1, 0, 30)),
        JobEvent: rows(JobEvent, {"time": 30.5, "job": "train", "kind": "stop"}),
    }
    # From second 40 on nothing comes, and no node is known any more.
    assert_cuts_change_nothing(MissedHeartbeats(), tables, 60, [31, 40, 45, 50, 55])


def test_nobody_is_judged_while_the_collector_lags():
    # No newer row has come from anyone, so the watermark stands at the last beat.
    assert judge([*beats("n1", 0, 0, 10), *beats("n2", 0, 0, 10)], 10.001).is_empty()


def test_a_node_that_no_topology_knows_is_judged_too():
    assert said(judge(beats("stranger", 0, 0, 10), 30).filter(code="dead"), "entity") == [(13.25, "stranger")]


OFFSETS = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.999])


@settings(max_examples=20, deadline=None)
@given(
    ranks=st.lists(st.tuples(presence(30), OFFSETS), min_size=1, max_size=4),
    ended=st.none() | st.tuples(st.integers(0, 80).map(lambda half: half / 2), st.sampled_from(["stop", "restart"])),
    window=st.none() | st.tuples(st.integers(0, 40), st.integers(1, 20), st.sampled_from(["n0", "n1"])),
    cuts=cutting(40),
)
def test_no_cut_changes_anything(ranks, ended, window, cuts):
    alive = [
        {"time": second + offset, "node": f"n{rank // 3}", "gpu": rank % 3, "job": "train", "rank": rank}
        for rank, (flags, offset) in enumerate(ranks)
        for second, beating in enumerate(flags)
        if beating
    ]
    events = [{"time": ended[0], "job": "train", "kind": ended[1]}] if ended else []
    plans = (
        [{"starts_at": window[0], "ends_at": window[0] + window[1], "kind": "node", "id": window[2]}] if window else []
    )
    tables = {
        Heartbeat: rows(Heartbeat, *alive),
        JobEvent: rows(JobEvent, *events),
        Maintenance: rows(Maintenance, *plans),
    }
    assert_cuts_change_nothing(MissedHeartbeats(), tables, 40, cuts)
