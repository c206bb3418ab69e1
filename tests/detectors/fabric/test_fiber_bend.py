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
    assert [active for _, _, active in statements(judge(FiberBend(), bent + straight))] == [True, False]


def test_a_far_end_that_was_never_heard_proves_nothing():
    assert judge(FiberBend(), module(A, 1.2)).is_empty()
