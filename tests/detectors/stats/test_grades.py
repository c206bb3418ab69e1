from datetime import UTC, datetime, timedelta

import polars as pl

from detectors.stats.grades import GRADE_COLUMNS, fold, graded_levels

BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
NOTHING = pl.DataFrame(schema=GRADE_COLUMNS)


def samples(*grades, entity="x"):
    times = [BEGAN + timedelta(seconds=second) for second in range(len(grades))]
    frame = pl.DataFrame({"entity": [entity] * len(grades), "time": times, "grade": grades})
    return frame.cast({"time": pl.Datetime("us", "UTC"), "grade": pl.Int64})


def told(changes):
    seconds = ((time - BEGAN).total_seconds() for time in changes["time"])
    return list(zip(seconds, changes["active"], changes["severity"], strict=True))


def test_worse_and_better_are_stated_and_good_is_the_end():
    changes, _ = graded_levels(samples(0, 1, 2, 1, 0), NOTHING)
    assert told(changes) == [(1, True, "ticket"), (2, True, "page"), (3, True, "ticket"), (4, False, "ticket")]


def test_straight_to_the_page_and_straight_back_are_two_statements():
    changes, _ = graded_levels(samples(0, 2, 2, 0), NOTHING)
    assert told(changes) == [(1, True, "page"), (3, False, "page")]


def test_the_onset_of_a_page_is_that_of_the_ticket_it_grew_from():
    first, state = graded_levels(samples(0, 1), NOTHING)
    later = samples(0, 0, 2).tail(1)
    changes, _ = graded_levels(later, state)
    assert changes["first_bad_at"].to_list() == first["first_bad_at"].to_list() == [BEGAN + timedelta(seconds=1)]


def test_null_says_nothing():
    changes, _ = graded_levels(samples(1, None, None, 1), NOTHING)
    assert told(changes) == [(0, True, "ticket")]


def test_who_was_never_bad_leaves_no_state():
    assert graded_levels(samples(0, 0, 0), NOTHING)[1].is_empty()


def parts(*named):
    frame = pl.concat([samples(*grades, entity=name) for name, grades in named])
    changes, _ = graded_levels(frame, NOTHING)
    return changes.with_columns(whole=pl.lit("link"))


def test_a_whole_begins_with_its_first_part_and_ends_with_its_last():
    whole = fold(parts(("a", (0, 1, 1, 0, 0)), ("b", (0, 0, 1, 1, 0))), NOTHING.with_columns(whole=pl.lit("link")))
    assert told(whole) == [(1, True, "ticket"), (4, False, "ticket")]
    assert whole["part"].to_list() == ["a", "b"]


def test_a_whole_is_as_bad_as_its_worst_part():
    whole = fold(parts(("a", (0, 1, 1, 1, 0)), ("b", (0, 0, 2, 0, 0))), NOTHING.with_columns(whole=pl.lit("link")))
    assert told(whole) == [(1, True, "ticket"), (2, True, "page"), (3, True, "ticket"), (4, False, "ticket")]
