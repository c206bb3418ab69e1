import json

import pytest

from detectors.fabric.fiber_bend import FiberBend
from tests.detectors.fabric.fabric_timelines import A, B, judge, lane, statements

LANES = (0, 1, 2, 3)


def module(end, lost, *, lanes=LANES, sent=1.0, start=0, samples=20, begins=10):
    """A sample a minute of four lanes; from minute `begins` on, these have lost so much."""
    return [
        lane(
            60 * minute + start, end, -2.0 - 0.1 * number - (lost if minute >= begins and number in lanes else 0.0),
            sent if minute >= begins else 1.0, number=number,
        )
        for minute in range(samples) for number in LANES
    ]  # fmt: skip


def test_light_lost_on_every_lane_at_both_ends_is_the_cable():
    findings = judge(FiberBend(), module(A, 1.2) + module(B, 1.2, start=20))
    # a shows it at 600 s, b at 620 s: two witnesses.
    assert statements(findings) == [(620, "c1", True)]
    assert findings.select("cause", "kind", "code", "severity").row(0) == ("fiber_loss", "cable", "bend", "ticket")
    seen = json.loads(findings["evidence"][0])
    assert (seen["lost_mean_db"], seen["far_lost_mean_db"]) == (pytest.approx(1.2), pytest.approx(1.2))


def test_one_direction_alone_is_not_a_bend():
    assert judge(FiberBend(), module(A, 1.2) + module(B, 0.0, start=20)).is_empty()


def test_one_dirty_lane_at_each_end_is_not_a_bend():
    assert judge(FiberBend(), module(A, 6.0, lanes=(1,)) + module(B, 6.0, lanes=(2,), start=20)).is_empty()


def test_light_that_its_sender_no_longer_gives_is_not_lost_on_the_way():
    assert judge(FiberBend(), module(A, 1.2) + module(B, 1.2, sent=-0.2, start=20)).is_empty()


def test_a_mated_pairs_worth_is_within_limits():
    assert judge(FiberBend(), module(A, 0.75) + module(B, 0.75, start=20)).is_empty()


def test_a_slow_pull_shows_too():
    rows = [
        lane(60 * minute + start, end, -2.0 - 0.01 * minute, number=number)
        for minute in range(120) for end, start in ((A, 0), (B, 20)) for number in LANES
    ]  # fmt: skip
    assert [(entity, active) for _, entity, active in statements(judge(FiberBend(), rows))] == [("c1", True)]


def test_it_ends_when_the_bend_is_straightened():
    bent = module(A, 1.2, samples=15) + module(B, 1.2, start=20, samples=15)
    straight = [
        row
        for row in module(A, 0.0, samples=25) + module(B, 0.0, start=20, samples=25)
        if row["time"] > bent[-1]["time"]
    ]
    # The first straight sample is at 900 s, and a minute later it is said.
    assert statements(judge(FiberBend(), bent + straight)) == [(620, "c1", True), (960, "c1", False)]


def test_a_far_end_that_was_never_heard_proves_nothing():
    assert judge(FiberBend(), module(A, 1.2)).is_empty()


def test_a_sender_dimmer_by_a_quarter_of_a_decibel_does_not_explain_it():
    assert judge(FiberBend(), module(A, 1.2) + module(B, 1.2, sent=0.75, start=20)).height == 1


def test_the_far_ends_words_count_for_five_of_its_intervals():
    # b's last are from 620 s, a's first of lost light from 840 s or 1200 s.
    heard = module(B, 1.2, start=20, samples=11)
    assert statements(judge(FiberBend(), module(A, 1.2, begins=14) + heard)) == [(840, "c1", True)]
    assert judge(FiberBend(), module(A, 1.2, begins=20, samples=30) + heard).is_empty()


def test_after_one_sample_nothing_is_normal_yet():
    assert judge(FiberBend(), module(A, 1.2, begins=1) + module(B, 1.2, start=20, begins=1)).is_empty()


def stepped(*lost_by_minute):
    return [
        lane(60 * minute + start, end, -2.0 - lost, number=number)
        for minute, lost in enumerate(lost_by_minute) for end, start in ((A, 0), (B, 20)) for number in LANES
    ]  # fmt: skip


def test_the_normal_is_that_of_the_first_five_samples():
    assert judge(FiberBend(), stepped(*[0.0] * 5, *[0.7] * 10, *[1.1] * 5)).height == 1
    # Two samples brighter by 0.6 dB leave it 0.24 dB brighter, and 0.69 dB are lost.
    assert judge(FiberBend(), stepped(*[-0.6] * 2, *[0.0] * 8, *[0.45] * 5)).is_empty()
