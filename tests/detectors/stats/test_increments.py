from datetime import timedelta

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from detectors.stats.increments import RECENT_COLUMNS, crowded, increments
from schemas.columns import UTC_MICROSECONDS
from schemas.counters import deltas
from tests.detectors.timelines import at

BEFORE = pl.DataFrame(schema={"name": pl.String, "errors": pl.Int64})


def counted(*values, before=BEFORE):
    schema = {"name": pl.String, "time": UTC_MICROSECONDS, "errors": pl.Int64}
    frame = pl.DataFrame([("a", at(n), value) for n, value in enumerate(values)], schema=schema, orient="row")
    rose, after = increments(frame, before, by=["name"], counters={"errors": None})
    return rose["errors"].to_list(), after["errors"].to_list()


def test_the_first_value_is_no_increment():
    assert counted(150, 150) == ([], [150])


def test_from_zero_to_one_counts():
    assert counted(0, 1, 1, 4) == ([1, 3], [4])


def test_a_fall_is_a_reset_and_it_counts_from_zero():
    assert counted(7, 9, 2, 3) == ([2, 2, 1], [3])


def test_a_fall_to_zero_is_no_increment():
    assert counted(7, 0, 0) == ([], [0])


def test_a_fall_across_two_batches_counts_from_zero():
    assert counted(2, before=pl.DataFrame({"name": ["a"], "errors": [5]})) == ([2], [2])


def test_a_fall_and_a_rise_to_the_same_value_counts():
    assert counted(7, 2, 7) == ([2, 5], [7])


VALUES = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 9)), max_size=25)


@settings(max_examples=60, deadline=None)
@given(values=VALUES, cut=st.integers(0, 25))
def test_what_rose_is_what_the_one_place_for_counters_says_of_every_row(values, cut):
    schema = {"name": pl.String, "time": UTC_MICROSECONDS, "errors": pl.Int64}
    frame = pl.DataFrame([(name, at(n), value) for n, (name, value) in enumerate(values)], schema=schema, orient="row")
    wanted, last = deltas(frame, BEFORE, ("name",), {"errors": None})
    first, between = increments(frame[:cut], BEFORE, by=["name"], counters={"errors": None})
    second, after = increments(frame[cut:], between, by=["name"], counters={"errors": None})
    rose = wanted.filter(pl.col("errors_delta") > 0).select("name", "time", errors="errors_delta")
    assert_frame_equal(pl.concat([first, second]), rose)
    assert_frame_equal(after, last)


def test_nulls_are_bridged():
    assert counted(7, None, 9, None) == ([2], [9])


def test_the_value_of_an_earlier_batch_is_where_it_starts():
    before = pl.DataFrame({"name": ["a", "b"], "errors": [5, 6]})
    assert counted(8, before=before) == ([3], [8, 6])


def told(*rises, now=1000, window=60, begins_at=3, ends_below=1):
    schema = {"entity": pl.String, "time": UTC_MICROSECONDS, "amount": pl.Int64}
    frame = pl.DataFrame([("a", at(time), amount) for time, amount in rises], schema=schema, orient="row")
    said, after = crowded(
        frame, pl.DataFrame(schema=RECENT_COLUMNS), now=at(now), window=timedelta(seconds=window),
        begins_at=begins_at, ends_below=ends_below,
    )  # fmt: skip
    return [((time - at(0)).total_seconds(), active) for time, active in said.select("time", "active").rows()], after


def test_a_level_begins_when_enough_lie_in_the_window_and_ends_when_it_is_clean():
    assert told((10, 1), (20, 2), (30, 1))[0] == [(20.0, True), (90.0, False)]


def test_old_increments_do_not_add_up():
    assert told((10, 2), (70, 2), (130, 2))[0] == []


def test_an_end_at_now_waits():
    assert told((10, 3), now=70)[0] == [(10.0, True)]


def test_nothing_is_kept_of_what_is_old():
    assert told((10, 3), now=71)[1].is_empty()


@settings(max_examples=60, deadline=None)
@given(
    times=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 4)), max_size=20, unique_by=lambda rise: rise[0]),
    ends_below=st.integers(1, 3),
)
def test_it_is_what_counting_second_by_second_gives(times, ends_below):
    wanted, active = [], False
    for second in range(301):
        count = sum(amount for time, amount in times if second - 60 < time <= second)
        now_active = count >= 3 or (active and count >= ends_below)
        if now_active != active:
            wanted.append((float(second), now_active))
        active = now_active
    assert told(*sorted(times), ends_below=ends_below)[0] == wanted
