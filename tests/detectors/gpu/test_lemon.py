from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.lemon import LemonNode
from schemas.gpu import GpuEvent
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

HOUR = 3600


def logged(*lines):
    """(time, slot, code) of node n1; code None: fallen off the bus."""
    return {
        GpuEvent: rows(GpuEvent, *(
            {"time": t, "node": "n1", "gpu": slot, "kind": "fallen_off_bus" if code is None else "xid", "code": code}
            for t, slot, code in lines
        ))
    }  # fmt: skip


def judge(*lines, ends=100 * HOUR):
    return run(LemonNode(), logged(*lines), ends)[0]


def test_three_failures_of_different_gpus_and_codes_make_a_lemon_of_the_node():
    found = judge((0, 1, 79), (20 * HOUR, 4, 119), (60 * HOUR, 2, None))
    assert said(found, "cause", "kind", "entity", "severity", "active") == [
        (60.0 * HOUR, "lemon_node", "node", "n1", "ticket", True)
    ]


def test_what_one_failure_logs_is_one_failure():
    assert judge(*((t, slot, 79) for t in range(0, 600, 60) for slot in range(8))).is_empty()


def test_lines_three_minutes_apart_are_one_failure_and_ten_minutes_apart_three():
    assert judge((0, 1, 79), (200, 1, 79), (400, 1, 79)).is_empty()
    assert judge((0, 1, 79), (600, 1, 79), (1200, 1, 79))["active"].to_list() == [True]


def test_errors_of_programs_are_no_failures():
    assert judge(*((t * HOUR, 0, code) for t, code in enumerate((13, 31, 43, 45, 94, 63)))).is_empty()


def test_three_failures_in_more_than_a_week_are_chance():
    assert judge((0, 0, 79), (96 * HOUR, 0, 79), (170 * HOUR, 0, 79), ends=400 * HOUR).is_empty()


def test_a_week_later_it_is_no_lemon_any_more():
    found = judge((0, 0, 79), (HOUR, 0, 79), (2 * HOUR, 0, 79), ends=400 * HOUR)
    assert said(found, "active") == [(2.0 * HOUR, True), (168.0 * HOUR, False)]


@settings(max_examples=25, deadline=None)
@given(times=st.lists(st.integers(0, 1500), max_size=12, unique=True).map(sorted), cuts=cutting(1500))
def test_cuts_change_nothing(times, cuts):
    quick = LemonNode(window_seconds=600, apart_seconds=60)
    assert_cuts_change_nothing(quick, logged(*((t, 0, 79) for t in times)), 1500, cuts)
