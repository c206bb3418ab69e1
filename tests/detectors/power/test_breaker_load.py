import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.power.breaker_load import BreakerLoad
from schemas.power import Power
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def meter(*amps, rated=100.0):
    return {
        Power: rows(Power, *({"time": t, "pdu": "pdu-0", "amps": a, "rated_amps": rated} for t, a in enumerate(amps)))
    }


def judge(tables, ends=600):
    return run(BreakerLoad(), tables, ends)[0]


@pytest.mark.parametrize(
    ("amps", "severities"), [(100.0, []), (101.0, ["ticket"]), (125.0, ["ticket"]), (126.0, ["page"])]
)
def test_above_the_continuous_rating_is_a_ticket_and_above_the_breakers_own_a_page(amps, severities):
    found = judge(meter(*[80.0] * 10, *[amps] * 80))
    assert said(found, "cause", "kind", "entity", "severity", "active") == [
        (70.0, "breaker_overloaded", "pdu", "pdu-0", severity, True) for severity in severities
    ]


def test_a_swing_of_seconds_trips_nothing():
    assert judge(meter(*([140.0] * 30 + [80.0]) * 10)).is_empty()


def test_it_is_over_after_five_minutes_within_the_rating():
    found = judge(meter(*[110.0] * 100, *[80.0] * 400))
    assert said(found, "active") == [(60.0, True), (400.0, False)]


def test_without_a_rating_nothing_is_said():
    assert judge(meter(*[500.0] * 100, rated=None)).is_empty()
    assert judge(meter(*[500.0] * 100, rated=0.0)).is_empty()


@settings(deadline=None, max_examples=15)
@given(cuts=cutting(300), amps=st.sampled_from([80.0, 110.0, 130.0]))
def test_cuts_change_nothing(cuts, amps):
    assert_cuts_change_nothing(BreakerLoad(), meter(*[80.0] * 50, *[amps] * 150, *[80.0] * 100), 300, cuts)
