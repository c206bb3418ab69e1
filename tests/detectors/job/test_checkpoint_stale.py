from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.job.checkpoint_stale import CheckpointStale
from schemas.job import JobEvent
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def event(time, kind, job="train", interval=100):
    return {"time": time, "job": job, "kind": kind, "checkpoint_interval_seconds": interval}


def judge(*events, ends=1000):
    return run(CheckpointStale(), {JobEvent: rows(JobEvent, *events)}, ends)[0]


def test_no_checkpoint_for_two_and_a_half_intervals_is_a_ticket():
    found = judge(event(0, "start"), event(100, "checkpoint"))
    assert said(found, "cause", "entity", "severity", "active") == [
        (350.0, "checkpoint_stale", "train", "ticket", True)
    ]
    assert found["first_bad_at"].item().minute == 3  # 09:03:20, when the next one was due


def test_checkpoints_in_time_say_nothing():
    assert judge(*(event(time, "checkpoint") for time in range(0, 1000, 200))).is_empty()


def test_it_ends_with_the_next_one():
    found = judge(event(0, "start"), event(300, "checkpoint"), ends=500)
    assert said(found, "active") == [(250.0, True), (300.0, False)]


def test_a_stopped_job_owes_nothing():
    assert judge(event(0, "start"), event(200, "stop")).is_empty()


def test_a_restarted_job_has_its_time_again():
    assert said(judge(event(0, "start"), event(200, "restart"), ends=600), "active") == [(450.0, True)]


def test_a_job_that_does_not_say_its_interval_is_left_alone():
    assert judge(event(0, "start", interval=None)).is_empty()


def test_the_interval_is_that_of_the_last_word():
    assert judge(event(0, "start"), event(50, "checkpoint", interval=None), ends=310).height == 1


EVENTS = st.builds(
    event, st.integers(0, 100), st.sampled_from(["start", "stop", "restart", "checkpoint"]),
    job=st.sampled_from(["a", "b"]), interval=st.sampled_from([None, 5, 8]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(events=st.lists(EVENTS, max_size=20), cuts=cutting(130))
def test_no_cut_changes_anything(events, cuts):
    assert_cuts_change_nothing(CheckpointStale(), {JobEvent: rows(JobEvent, *events)}, 130, cuts)
