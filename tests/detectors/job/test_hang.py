"""Eight ranks on two nodes, a step every four seconds; beats once a second."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from detectors.job.hang import JobHang
from schemas.gpu import Gpu
from schemas.job import Heartbeat, JobEvent
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

RANKS = 8


def beats(seconds, step, *, ranks=range(RANKS), step_seconds=4.0):
    """step: (rank, second) -> step."""
    return [
        {
            "time": second + rank / 10, "node": f"n{rank // 4}", "gpu": rank % 4, "job": "train", "rank": rank,
            "step": step(rank, second), "step_seconds": step_seconds,
        }
        for rank in ranks
        for second in seconds
    ]  # fmt: skip


def stuck_from(second_stuck, until=10**6):
    def step(_rank, second):
        return (min(second, second_stuck) + max(0, second - until)) // 4

    return step


def event(time, kind):
    return {"time": time, "job": "train", "kind": kind}


def judge(given_beats, *events, ends=500, utilization=(), detector=JobHang()):  # noqa: B008  # frozen
    tables = {
        Heartbeat: rows(Heartbeat, *given_beats), JobEvent: rows(JobEvent, *events), Gpu: rows(Gpu, *utilization),
    }  # fmt: skip
    return run(detector, tables, ends)[0]


def test_no_step_for_five_minutes_is_a_hang():
    found = judge(beats(range(500), stuck_from(100)))
    # The step of second 100 is last reported anew by rank 7, at 100.7.
    assert said(found, "cause", "entity", "severity", "active") == [(400.7, "job_hang", "train", "page", True)]


def test_a_job_seen_through_a_checkpoint_is_judged_after_three_of_its_pauses_or_a_minute():
    found = judge(beats(range(300), stuck_from(100)), event(50, "checkpoint"), ends=300)
    assert said(found, "active") == [(160.7, True)]


def test_a_long_pause_that_ended_well_widens_the_limit():
    def step(_rank, second):
        return (min(second, 40) + min(max(0, second - 70), 40)) // 4  # stands still from 40 to 74, and from 110 on

    found = judge(beats(range(400), step), event(30, "checkpoint"), ends=400)
    # 110 -> 40 + 38 = 78, step 19 begins at second 106; three times the pause of about 34 s after it.
    assert 200 < said(found, "active")[0][0] < 215


def test_slow_steps_have_ten_of_their_length():
    assert judge(beats(range(500), stuck_from(100), step_seconds=60.0)).is_empty()


def test_it_ends_with_the_next_step():
    found = judge(beats(range(500), stuck_from(100, until=450)))
    # 4 s after it goes on (450), rank 0 reports the next step.
    assert said(found, "active") == [(400.7, True), (454.0, False)]


def test_a_job_that_stopped_does_not_hang():
    assert judge(beats(range(500), stuck_from(100)), event(120, "stop")).is_empty()


def test_a_restart_begins_anew_and_may_compile_for_as_long_as_it_wants():
    assert judge(beats(range(900), stuck_from(100)), event(120, "restart"), ends=900).is_empty()


def test_ranks_that_do_not_beat_do_not_hang():
    assert judge(beats(range(120), stuck_from(100))).is_empty()


def test_a_rank_a_step_behind_is_named():
    found = judge(beats(range(500), lambda rank, second: min(second // 4, 24 if rank == 5 else 25)))
    assert json.loads(found["evidence"].item())["suspects"] == ["n1/1"]


def test_an_idle_gpu_among_busy_ones_is_named():
    used = [
        {"time": second, "node": f"n{rank // 4}", "gpu": rank % 4,
         "utilization_percent": 0.0 if rank == 2 and second > 100 else 100.0}
        for second in range(0, 500, 10)
        for rank in range(RANKS)
    ]  # fmt: skip
    found = judge(beats(range(500), stuck_from(100)), utilization=used)
    assert json.loads(found["evidence"].item())["suspects"] == ["n0/2"]


def one_idle(*, busy=100.0):
    """Readings once a second of a job whose rank 2 is idle from 100 s on."""
    return [
        {"time": second, "node": f"n{rank // 4}", "gpu": rank % 4,
         "utilization_percent": 0.0 if rank == 2 and second > 100 else busy}
        for second in range(300)
        for rank in range(RANKS)
    ]  # fmt: skip


def test_with_one_idle_gpu_among_spinning_ones_fifteen_seconds_are_enough():
    """Steps take 4 s and the longest pause of the job is 4 s: 15 s after its last step, at 100.7."""
    found = judge(beats(range(300), stuck_from(100)), event(50, "checkpoint"), ends=300, utilization=one_idle())
    assert said(found, "active") == [(115.7, True)]


def test_without_a_checkpoint_behind_it_or_with_all_idle_nobody_is_a_suspect():
    """The others idle as well: a barrier of the host, a slow store, an evaluation."""
    assert judge(beats(range(300), stuck_from(100)), ends=300, utilization=one_idle()).is_empty()
    found = judge(beats(range(300), stuck_from(100)), event(50, "checkpoint"), ends=300, utilization=one_idle(busy=3.0))
    assert said(found, "active") == [(160.7, True)]


def test_a_job_used_to_waiting_for_one_writer_is_given_half_as_much_again():
    """It stood still from 40.7 to 74 s: 1.5 times 33.3 s after its last step, at 138.7."""

    def step(_rank, second):
        return (min(second, 40) + min(max(0, second - 70), 70)) // 4

    found = judge(beats(range(300), step), event(72, "checkpoint"), ends=300, utilization=one_idle())
    assert said(found, "active") == [(188.65, True)]


def test_half_of_the_ranks_do_not_make_a_hang_when_the_others_do_not_beat():
    half = [row for row in beats(range(500), stuck_from(100)) if row["time"] < 120 or row["rank"] < 4]
    assert judge(half).is_empty()


def test_with_a_suspect_slow_steps_have_three_of_their_length():
    """Steps of 8 s, the last of which is reported by rank 7 at 96.7."""

    def step(_rank, second):
        return min(second, 100) // 8

    given_beats = beats(range(300), step, step_seconds=8.0)
    found = judge(given_beats, event(50, "checkpoint"), ends=300, utilization=one_idle())
    assert said(found, "active") == [(120.7, True)]


def test_with_half_of_the_gpus_spinning_nobody_is_a_suspect():
    used = [{**row, "utilization_percent": min(row["utilization_percent"], 100.0 if row["gpu"] < 2 else 50.0)}
            for row in one_idle()]  # fmt: skip
    found = judge(beats(range(300), stuck_from(100)), event(50, "checkpoint"), ends=300, utilization=used)
    assert said(found, "active") == [(160.7, True)]


@pytest.mark.parametrize(("percent", "second"), [(9.5, 115.7), (10.5, 160.7)])
def test_a_gpu_below_a_tenth_is_idle(percent, second):
    used = [{**row, "utilization_percent": max(row["utilization_percent"], percent)} for row in one_idle()]
    found = judge(beats(range(300), stuck_from(100)), event(50, "checkpoint"), ends=300, utilization=used)
    assert said(found, "active") == [(second, True)]


@pytest.mark.parametrize(("idle", "waits"), [(3, 15), (4, 60)])
def test_more_than_a_quarter_of_the_ranks_are_no_suspects(idle, waits):
    used = [
        {"time": second, "node": f"n{rank // 4}", "gpu": rank % 4,
         "utilization_percent": 0.0 if rank < idle and second > 100 else 100.0}
        for second in range(300)
        for rank in range(16)
    ]  # fmt: skip
    twelve = beats(range(300), stuck_from(100), ranks=range(12))
    found = judge(twelve, event(50, "checkpoint"), ends=300, utilization=used, detector=JobHang(spinning_share=0.6))
    # The step of second 100 is last reported by rank 11, at 101.1.
    assert said(found, "active") == [(101.1 + waits, True)]


QUICK = JobHang(steps=1, minimum_seconds=8, unproven_seconds=12, suspect_seconds=4, suspect_steps=1)


@settings(max_examples=20, deadline=None)
@example(moves=[False] * 59 + [True], events=[event(1, "stop"), event(2, "checkpoint")], cuts=[1.25], idle=False)
@given(
    moves=st.lists(st.booleans(), min_size=60, max_size=60),
    events=st.lists(
        st.builds(event, st.integers(0, 60), st.sampled_from(["checkpoint", "checkpoint", "restart", "stop"])),
        max_size=4,
    ),
    cuts=cutting(80),
    idle=st.booleans(),
)
def test_no_cut_changes_anything(moves, events, cuts, idle):
    steps = [sum(moves[: second // 6 * 6 : 6]) for second in range(80)]
    given_beats = beats(range(80), lambda _rank, second: steps[second], ranks=range(4), step_seconds=1.0)
    used = [
        {"time": second, "node": "n0", "gpu": gpu, "utilization_percent": 0.0 if idle and gpu == 2 else 100.0}
        for second in range(80)
        for gpu in range(4)
    ]
    tables = {
        Heartbeat: rows(Heartbeat, *given_beats), JobEvent: rows(JobEvent, *events), Gpu: rows(Gpu, *used),
    }  # fmt: skip
    assert_cuts_change_nothing(QUICK, tables, 80, cuts)
