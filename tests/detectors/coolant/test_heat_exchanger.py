import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.coolant.heat_exchanger import HeatExchangerFouled
from schemas.coolant import CoolantLoop
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def loop(ends, approach, *, facility=lambda _: 30.0, heat=lambda _: 1.0, flow=lambda _: 1.0, every=1):
    """100 L/min that rise by 10 K; approach in kelvin, facility in celsius, heat and flow as shares, by second."""
    return rows(
        CoolantLoop,
        *(
            {
                "time": s, "cdu": "cdu-0", "flow_liters_per_minute": 100.0 * flow(s),
                "facility_supply_celsius": facility(s), "supply_celsius": facility(s) + approach(s),
                "return_celsius": facility(s) + approach(s) + 10 * heat(s) / flow(s),
            }
            for s in range(0, ends, every)
        ),
    )  # fmt: skip


def judge(frame, ends=600, detector=None):
    return run(detector or HeatExchangerFouled(), {CoolantLoop: frame}, ends)[0]


def risen(kelvin):
    return lambda second: kelvin if second >= 200 else 4.0


def test_an_approach_that_grows_by_half_at_the_same_heat_is_fouling():
    found = judge(loop(600, risen(6.0)))
    assert found.select("cause", "kind", "entity", "severity", "active").rows() == [
        ("heat_exchanger_fouled", "cdu", "cdu-0", "ticket", True)
    ]


def test_a_fifth_more_is_below_the_threshold_and_a_lower_one_finds_it():
    assert judge(loop(600, risen(4.8))).is_empty()
    assert judge(loop(600, risen(4.8)), detector=HeatExchangerFouled(fouled_share=0.1)).height == 1


def test_more_heat_takes_more_approach_and_is_no_fouling():
    assert judge(loop(600, risen(6.0), heat=lambda s: 1.5 if s >= 200 else 1.0)).is_empty()


def test_while_facility_water_falls_the_approach_is_not_judged():
    def lagging(second):
        return 4.0 + (3.0 if 200 <= second < 320 else 0.0)

    assert judge(loop(600, lagging, facility=lambda s: 27.0 if s >= 200 else 30.0)).is_empty()


def test_begins_and_ends_when_its_means_and_waits_say_so():
    # Every 10 s a mean over a minute goes a seventh of the way: half of it after 5 samples, at 240 s and 540 s.
    frame = loop(1200, lambda second: 6.0 if 200 <= second < 500 else 4.0, every=10)
    assert said(judge(frame, 1200), "active") == [(300.0, True), (1140.0, False)]


def test_after_a_step_of_the_facility_water_it_is_judged_when_its_mean_is_within_half_a_kelvin():
    # Every 10 s a mean over 300 s goes 1/31 of the way: half a kelvin of one is left after 22 samples, at 410 s.
    frame = loop(600, risen(6.0), facility=lambda second: 29.0 if second >= 200 else 30.0, every=10)
    assert said(judge(frame), "active") == [(470.0, True)]


def test_at_little_heat_or_another_flow_the_approach_is_not_judged():
    def later(share):
        return lambda second: share if second >= 200 else 1.0

    assert judge(loop(600, risen(4.0), heat=later(0.6), every=10)).is_empty()
    assert judge(loop(600, risen(6.0), heat=later(0.9), every=10)).height == 1
    assert judge(loop(600, risen(6.0), flow=later(0.8), every=10)).is_empty()
    assert judge(loop(600, risen(6.0), flow=later(0.95), every=10)).height == 1


@pytest.mark.parametrize(("share_a_day", "days", "actives"), [(0.05, 8, []), (0.1, 5, [True])])
def test_fouling_of_a_tenth_a_day_is_seen_and_slower_is_followed(share_a_day, days, actives):
    frame = loop(86_400 * days, lambda second: 4.0 * (1 + share_a_day * second / 86_400), every=3600)
    assert judge(frame, 86_400 * days)["active"].to_list() == actives


@settings(deadline=None, max_examples=15)
@given(cuts=cutting(400), kelvin=st.sampled_from([3.0, 4.5, 6.0]))
def test_cuts_change_nothing(cuts, kelvin):
    assert_cuts_change_nothing(HeatExchangerFouled(), {CoolantLoop: loop(400, risen(kelvin))}, 400, cuts)
