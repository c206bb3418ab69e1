from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.telemetry.implausible import ImplausibleTelemetry
from schemas.intake import Quarantine
from tests.detectors.timelines import T0, assert_cuts_change_nothing, cutting, rows, run, said

HOT = "temperature_celsius|max"


def refused(*seconds, source="n1", rule=HOT):
    return [{"time": second, "table": "gpu", "source": source, "rule": rule} for second in seconds]


def judge(*given_rows, detector=None, ends=400):
    return run(detector or ImplausibleTelemetry(), {Quarantine: rows(Quarantine, *given_rows)}, ends)[0]


def test_three_refusals_within_a_minute_are_implausible_until_a_minute_has_passed_without_one():
    found = judge(*refused(10, 30, 50))
    assert said(found, "cause", "entity", "code", "severity", "active") == [
        (50.0, "telemetry_implausible", "gpu:n1", HOT, "ticket", True),
        (110.0, "telemetry_implausible", "gpu:n1", HOT, "ticket", False),
    ]
    assert found["first_bad_at"].unique().to_list() == [T0 + timedelta(seconds=10)]


def test_two_are_not_enough_and_neither_are_three_in_more_than_a_minute():
    assert judge(*refused(10, 30)).is_empty()
    assert judge(*refused(10, 45, 71, 120)).is_empty()


def test_the_number_of_refusals_is_the_threshold():
    assert said(judge(*refused(10, 30), detector=ImplausibleTelemetry(refused_minimum=2)), "active")[0] == (30.0, True)


def test_many_rows_of_one_instant_are_one_glitch():
    assert judge(*(refused(10) * 8)).is_empty()


def test_sources_do_not_add_up():
    assert judge(*(row for source in ("n1", "n2", "n3") for row in refused(10, source=source))).is_empty()


def test_a_row_that_is_no_number_at_all_is_not_implausible():
    assert judge(*refused(10, 20, 30, rule="temperature_celsius|type")).is_empty()


@settings(deadline=None, max_examples=40)
@given(
    cuts=cutting(400),
    seconds=st.lists(st.sampled_from([0, 1, 2, 30, 59, 60, 61, 90, 120, 121, 180, 181, 300]), max_size=9, unique=True),
    more=st.lists(st.integers(0, 300), max_size=9, unique=True),
)
def test_cuts_change_nothing(cuts, seconds, more):
    tables = {Quarantine: rows(Quarantine, *refused(*seconds), *refused(*more, source="n2"))}
    assert_cuts_change_nothing(ImplausibleTelemetry(), tables, 400, cuts)
