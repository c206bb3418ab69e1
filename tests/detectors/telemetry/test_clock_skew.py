from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.telemetry.clock_skew import ClockSkew
from schemas.gpu import Gpu
from schemas.intake import Late
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def late(newest, *seconds, source="n1"):
    """Rows of `source` that came when it had already sent one of `newest`."""
    return [
        {"time": second, "table": "gpu", "source": source, "behind_seconds": newest - second, "row": "{}"}
        for second in seconds
    ]


def in_time(*seconds, node="n1"):
    return [{"time": second, "node": node, "gpu": 0} for second in seconds]


def judge(late_rows, gpu_rows=(), detector=None, ends=300):
    tables = {Late: rows(Late, *late_rows), Gpu: rows(Gpu, *gpu_rows)}
    return run(detector or ClockSkew(), tables, ends)[0]


def test_rows_that_are_late_behind_one_row_tell_of_a_clock_that_stepped_back_until_it_has_caught_up():
    found = judge(late(100, 96, 97, 98), in_time(99, 100, 101, 102))
    assert said(found, "cause", "kind", "entity", "severity", "active", "score") == [
        (100.0, "clock_skew", "source", "gpu:n1", "ticket", True, 4.0),
        (101.0, "clock_skew", "source", "gpu:n1", "ticket", False, 4.0),
    ]


def test_two_seconds_are_allowed():
    assert judge(late(100, 98, 98.5)).is_empty()
    assert not judge(late(100, 98, 98.5), detector=ClockSkew(skew_seconds=1.5)).is_empty()


def test_one_row_that_strays_is_not_a_clock():
    assert judge(late(100, 90)).is_empty()
    assert judge([*late(100, 90), *late(101, 91), *late(102, 92)]).is_empty()


def test_the_gpus_of_one_instant_are_one_row():
    assert judge(late(100, *[90] * 8)).is_empty()


def test_each_source_has_its_own_clock():
    assert judge([*late(100, 90), *late(100, 91, source="n2")]).is_empty()


@settings(deadline=None, max_examples=30)
@given(cuts=cutting(200), step=st.integers(2, 60), at=st.integers(70, 120))
def test_cuts_change_nothing(cuts, step, at):
    stepped = [*range(at)], [*range(at - step, at - 1)], [*range(at - 1, 180)]
    tables = {Late: rows(Late, *late(at - 1, *stepped[1])), Gpu: rows(Gpu, *in_time(*stepped[0], *stepped[2][1:]))}
    assert_cuts_change_nothing(ClockSkew(), tables, 200, cuts)
