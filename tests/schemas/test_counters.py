from itertools import pairwise

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from schemas.counters import counter_state, deltas

WIDTHS = {"downed": 8, "errors": 16, "waits": 32, "energy": None}
KEY = ("device", "port")


def rows_of(values: list[int | None], column: str = "errors", **more: list) -> pl.DataFrame:
    frame = pl.DataFrame({"device": ["leaf-001"] * len(values), "port": [33] * len(values), column: values, **more})
    return frame.with_columns(pl.col(pl.Null).cast(pl.Int64))


def walked(frame: pl.DataFrame, column: str = "errors", **more) -> pl.DataFrame:
    columns = (column, *([more["restarts_with"]] if "restarts_with" in more else []))
    return deltas(frame, counter_state(frame, KEY, columns), KEY, {column: WIDTHS[column]}, **more)[0]


def delta(values: list[int | None], column: str = "errors", **more) -> list[int | None]:
    return walked(rows_of(values, column), column, **more)[f"{column}_delta"].to_list()


def test_the_first_value_says_nothing_and_the_first_step_from_zero_counts() -> None:
    assert delta([7, 7, 9]) == [None, 0, 2]
    assert delta([0, 1]) == [None, 1]


def test_a_fall_is_a_reset_and_counts_from_zero() -> None:
    assert delta([100, 3, 5]) == [None, 3, 2]


def test_a_counter_at_the_top_of_its_width_is_stuck_and_not_healthy() -> None:
    for column, top in (("downed", 255), ("errors", 65535), ("waits", 4294967295)):
        frame = walked(rows_of([top - 1, top, top, 2], column), column)
        assert frame[f"{column}_delta"].to_list() == [None, None, None, 2]
        assert frame[f"{column}_stuck"].to_list() == [False, True, True, False]


def test_the_top_of_a_narrow_counter_is_a_plain_count_of_a_wide_one() -> None:
    frame = rows_of([65534, 65535, 65536], wide=[False, True, True])
    assert walked(frame, narrow=~pl.col("wide"))["errors_delta"].to_list() == [None, 1, 1]


def test_a_null_leaves_what_is_known_as_it_is() -> None:
    assert delta([5, None, 8]) == [None, None, 3]


def test_after_a_driver_reload_a_counter_that_has_passed_its_old_value_counts_from_zero() -> None:
    frame = rows_of([5, 7, 8], energy=[900, 20, 30])
    assert walked(frame, restarts_with="energy")["errors_delta"].to_list() == [None, 7, 1]


def test_a_reload_is_remembered_for_a_counter_that_was_silent_then() -> None:
    frame = rows_of([5, None, 7], energy=[900, 20, 30])
    assert walked(frame, restarts_with="energy")["errors_delta"].to_list() == [None, None, 7]


def test_two_ports_do_not_see_each_other() -> None:
    frame = pl.DataFrame({"device": ["a", "a", "a", "a"], "port": [1, 2, 1, 2], "errors": [1, 10, 4, 11]})
    assert walked(frame)["errors_delta"].to_list() == [None, None, 3, 1]


STEPS = st.lists(st.integers(0, 50), min_size=2, max_size=30)
VALUES = st.lists(
    st.tuples(st.integers(0, 2), st.none() | st.integers(0, 70) | st.just(65535), st.none() | st.integers(0, 9)),
    max_size=25,
)


@given(st.integers(0, 1000), STEPS)
def test_without_resets_the_deltas_sum_to_last_minus_first(start: int, steps: list[int]) -> None:
    values = [start]
    for step in steps:
        values.append(values[-1] + step)
    assert sum(delta(values)[1:]) == values[-1] - values[0]


@given(st.lists(st.integers(0, 65534), min_size=2, max_size=30))
def test_a_delta_is_never_negative_and_never_more_than_the_value(values: list[int]) -> None:
    for (before, now), found in zip(pairwise(values), delta(values)[1:], strict=True):
        assert found == (now if now < before else now - before)


@settings(deadline=None)
@given(VALUES, st.lists(st.integers(0, 25), max_size=3))
def test_any_cut_gives_the_same_deltas_and_the_same_state(values: list, cuts: list[int]) -> None:
    frame = pl.DataFrame(
        {"device": ["leaf-001"] * len(values), "port": [v[0] for v in values], "errors": [v[1] for v in values],
         "energy": [v[2] for v in values]},
        schema={"device": pl.String, "port": pl.Int64, "errors": pl.Int64, "energy": pl.Int64},
    )  # fmt: skip
    empty = counter_state(frame, KEY, ("errors", "energy"))
    whole, whole_state = deltas(frame, empty, KEY, {"errors": 16}, restarts_with="energy")
    state, parts = empty, []
    bounds = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    for begin, end in pairwise(bounds):
        part, state = deltas(frame[begin:end], state, KEY, {"errors": 16}, restarts_with="energy")
        parts.append(part)
    assert_frame_equal(pl.concat(parts), whole)
    assert_frame_equal(state, whole_state)
