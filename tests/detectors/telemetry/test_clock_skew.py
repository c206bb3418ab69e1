from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from detectors.contract import Context
from detectors.telemetry.clock_skew import ClockSkew
from schemas.gpu import Gpu
from schemas.intake import Late
from schemas.job import Heartbeat
from schemas.tables import TABLE_BY_SCHEMA, empty
from tests.detectors.timelines import T0, assert_cuts_change_nothing, at, cluster, cutting, rows, run, said


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


def test_an_old_stretch_of_many_sources_that_is_read_again_tells_of_no_clock():
    sources = [f"n{number}" for number in range(5)]
    again = [row for source in sources for row in late(100, 90, 91, 92, source=source)]
    assert judge(again, in_time(99, 100, 101, 102)).is_empty()


def test_three_sources_that_are_late_at_the_same_time_are_clocks():
    some = [row for number in range(3) for row in late(100, 90, 91, source=f"n{number}")]
    assert judge(some)["entity"].to_list() == ["gpu:n0", "gpu:n1", "gpu:n2"]


@settings(max_examples=40, deadline=None)
@given(
    cutting(110),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([60, 100]), st.integers(30, 99)), max_size=14, unique=True),
    st.lists(st.tuples(st.integers(0, 5), st.integers(101, 109)), max_size=4, unique=True),
)
def test_cuts_change_nothing_about_sources_that_are_late_together(cuts, came_late, went_on):
    rows_late = [row for n, newest, time in came_late if time < newest for row in late(newest, time, source=f"n{n}")]
    newer = [row for n, second in went_on for row in in_time(second, node=f"n{n}")]
    tables = {Late: rows(Late, *rows_late), Gpu: rows(Gpu, *newer)}
    whole, state = run(ClockSkew(), tables, 110)
    pieces, state_of_pieces = run(ClockSkew(), tables, 110, cuts)
    # Their time is that of the newest row before the step, which all share: only their order is the cut's.
    assert_frame_equal(pieces, whole, check_exact=True, check_row_order=False)
    assert_frame_equal(state_of_pieces, state, check_exact=True)


def test_each_source_has_its_own_clock():
    assert judge([*late(100, 90), *late(100, 91, source="n2")]).is_empty()


@settings(deadline=None, max_examples=30)
@given(cuts=cutting(200), step=st.integers(2, 60), at=st.integers(70, 120))
def test_cuts_change_nothing(cuts, step, at):
    stepped = [*range(at)], [*range(at - step, at - 1)], [*range(at - 1, 180)]
    tables = {Late: rows(Late, *late(at - 1, *stepped[1])), Gpu: rows(Gpu, *in_time(*stepped[0], *stepped[2][1:]))}
    assert_cuts_change_nothing(ClockSkew(), tables, 200, cuts)


def beats(*seconds, nodes=("n1",)):
    return [
        {"time": second, "node": node, "gpu": 0, "job": "j", "rank": 0} for second in seconds for node in nodes
    ]  # fmt: skip


def with_lags(beat_rows, *batches, detector=None):
    """Findings of batches that end at a second, each with the lags (seconds by node) that were measured by then."""
    detector = detector or ClockSkew()
    table, state, found, since = rows(Heartbeat, *beat_rows), pl.DataFrame(schema=detector.keeps), [], T0
    for ends, lags in batches:
        tables = {schema: empty(TABLE_BY_SCHEMA[schema]) for schema in detector.reads}
        tables[Heartbeat] = table.filter((pl.col("time") >= since) & (pl.col("time") < at(ends)))
        context = Context(
            now=at(ends), began=T0, topology=cluster(),
            lags={node: timedelta(seconds=seconds) for node, seconds in lags.items()},
        )  # fmt: skip
        detection = detector.detect(tables, state, context)
        found.append(detection.findings)
        state, since = detection.state, at(ends)
    return pl.concat(found), state


def test_a_clock_that_is_slow_for_ten_seconds_is_skew_until_it_has_been_right_for_a_minute():
    found, state = with_lags(beats(*range(300)), (100, {"n1": 30}), (300, {}))
    assert said(found, "cause", "entity", "code", "severity", "active", "score") == [
        (10.0, "clock_skew", "heartbeat:n1", "slow", "ticket", True, 30.0),
        (160.0, "clock_skew", "heartbeat:n1", "slow", "ticket", False, 0.0),
    ]
    assert state.is_empty()


def test_a_clock_that_runs_ahead_is_fast():
    found, _ = with_lags(beats(*range(60)), (60, {"n1": -4.0}))
    assert said(found, "code", "active", "score") == [(10.0, "fast", True, 4.0)]
    assert with_lags(beats(*range(60)), (60, {"n1": -4.0}), detector=ClockSkew(skew_seconds=5.0))[0].is_empty()


def test_a_way_that_is_clogged_for_a_moment_is_no_clock():
    assert with_lags(beats(*range(60)), (9, {"n1": 30}), (60, {}))[0].is_empty()


def test_a_clock_that_is_right_for_less_than_a_minute_is_the_same_skew():
    found, _ = with_lags(beats(*range(300)), (100, {"n1": 30}), (150, {}), (300, {"n1": 30}))
    assert said(found, "active") == [(10.0, True)]


def test_four_hosts_behind_one_slow_collector_are_no_clocks_and_a_fifth_that_is_off_otherwise_is():
    nodes = ("n1", "n2", "n3", "n4", "n5")
    behind = {"n1": 20.0, "n2": 20.3, "n3": 19.8, "n4": 20.1, "n5": 45.0}
    found, _ = with_lags(beats(*range(60), nodes=nodes), (60, behind))
    assert said(found, "entity") == [(10.0, "heartbeat:n5")]
    assert with_lags(beats(*range(60), nodes=nodes), (60, behind), detector=ClockSkew(alike_hosts=5))[0].height == 5


@pytest.mark.parametrize("behind", [(20.0, 20.3, 19.8), (20.0, 21.5, 23.0, 24.5)])
def test_three_hosts_that_are_off_alike_are_clocks_and_so_are_four_that_are_not(behind):
    lags = {f"n{number}": lag for number, lag in enumerate(behind)}
    assert with_lags(beats(*range(60), nodes=tuple(lags)), (60, lags))[0].height == len(behind)


def test_a_host_that_sends_nothing_has_no_clock_to_speak_of():
    assert with_lags(beats(*range(60), nodes=("n2",)), (60, {"n1": 30}))[0].is_empty()


@settings(deadline=None, max_examples=15)
@given(cuts=cutting(60), lag=st.sampled_from([-30, 3, 30]))
def test_cuts_change_nothing_about_clocks_that_are_off(cuts, lag):
    lags = {"n1": lag, "n2": 2 * lag}
    heard = beats(*range(60), nodes=("n1", "n2", "n3"))
    whole, state = with_lags(heard, (60, lags))
    pieces, state_of_pieces = with_lags(heard, *((cut, lags) for cut in sorted(cuts)), (60, lags))
    assert_frame_equal(pieces, whole, check_exact=True)
    assert_frame_equal(state_of_pieces, state, check_exact=True)
