from hypothesis import given
from hypothesis import strategies as st

from detectors.hardware.health import HardwareHealth
from schemas.hardware import HardwareSensor
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

QUICK = HardwareHealth(sustained_seconds=3, clear_seconds=3)


def samples(*healths, sensor="PSU 1"):
    return [{"time": time, "device": "n1", "sensor": sensor, "health": one} for time, one in enumerate(healths)]


def judge(*given_rows, ends=100, detector=QUICK):
    return run(detector, {HardwareSensor: rows(HardwareSensor, *given_rows)}, ends)[0]


def test_a_part_that_stays_critical_is_a_ticket_for_its_node_under_the_parts_name():
    found = judge(*samples("ok", *["critical"] * 6))
    assert said(found, "cause", "kind", "entity", "code", "severity") == [
        (4.0, "hardware_degraded", "node", "n1", "PSU 1", "ticket")
    ]


def test_two_samples_a_minute_apart_agree():
    given_rows = [{"time": 60 * at, "device": "n1", "sensor": "fan 1", "health": "critical"} for at in range(2)]
    assert said(judge(*given_rows, detector=HardwareHealth()), "code") == [(60.0, "fan 1")]


def test_a_controller_that_restarts_calls_it_critical_once():
    assert judge(*samples("ok", "critical", "ok", "ok")).is_empty()


def test_a_warning_or_nothing_said_is_no_finding():
    assert judge(*samples(*["warning"] * 9), *samples(*[None] * 9, sensor="fan 1")).is_empty()


def test_it_ends_when_the_part_has_been_replaced():
    assert said(judge(*samples(*["critical"] * 5, *["ok"] * 9)), "active") == [(3.0, True), (8.0, False)]


def test_two_parts_of_a_node_are_two_levels():
    found = judge(*samples(*["critical"] * 9), *samples(*["critical"] * 5, *["ok"] * 4, sensor="fan 1"))
    assert said(found, "code", "active") == [(3.0, "PSU 1", True), (3.0, "fan 1", True), (8.0, "fan 1", False)]


def test_by_default_it_begins_and_ends_after_half_a_minute():
    given_rows = samples("ok", *["critical"] * 40, *["ok"] * 40)
    assert said(judge(*given_rows, detector=HardwareHealth()), "active") == [(31.0, True), (71.0, False)]


@given(healths=st.lists(st.sampled_from(["ok", "critical", "warning", None]), max_size=25), cuts=cutting(25))
def test_no_cut_changes_anything(healths, cuts):
    given_rows = [*samples(*healths), *samples(*reversed(healths), sensor="fan 1")]
    assert_cuts_change_nothing(QUICK, {HardwareSensor: rows(HardwareSensor, *given_rows)}, 25, cuts)
