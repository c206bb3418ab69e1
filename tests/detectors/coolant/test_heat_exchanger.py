from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.coolant.heat_exchanger import HeatExchangerFouled
from schemas.coolant import CoolantLoop
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run


def loop(ends, approach, *, facility=lambda _: 30.0, heat=lambda _: 1.0):
    """100 L/min that rise by 10 K; approach in kelvin, facility in celsius and heat as a share, by second."""
    return rows(
        CoolantLoop,
        *(
            {
                "time": s, "cdu": "cdu-0", "flow_liters_per_minute": 100.0, "facility_supply_celsius": facility(s),
                "supply_celsius": facility(s) + approach(s),
                "return_celsius": facility(s) + approach(s) + 10 * heat(s),
            }
            for s in range(ends)
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


@settings(deadline=None, max_examples=15)
@given(cuts=cutting(400), kelvin=st.sampled_from([3.0, 4.5, 6.0]))
def test_cuts_change_nothing(cuts, kelvin):
    assert_cuts_change_nothing(HeatExchangerFouled(), {CoolantLoop: loop(400, risen(kelvin))}, 400, cuts)
