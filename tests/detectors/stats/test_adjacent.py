from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.contract import Once
from detectors.stats.adjacent import before, begins, differs, ends, newest, together, within

some = settings(max_examples=60, deadline=None, database=None, derandomize=True)
said = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 5)), max_size=20)
FRAME = pl.Schema({"entity": pl.String(), "value": pl.Int64()})


def by_entity(rows):
    found = {}
    for entity, value in rows:
        found.setdefault(entity, []).append(value)
    return found


def filled(values):
    held, found = None, []
    for value in values:
        held = held if value is None else value
        found.append(held)
    return found


@some
@given(rows=said)
def test_rows_of_an_entity_come_behind_each_other_in_their_order(rows):
    brought = together(pl.DataFrame(rows, schema=FRAME, orient="row")).rows()
    assert by_entity(brought) == by_entity(rows)
    turns = [entity for number, (entity, _) in enumerate(brought) if not number or brought[number - 1][0] != entity]
    assert len(turns) == len(set(turns))


@some
@given(rows=said)
def test_an_entity_begins_and_ends_once_and_lends_no_value_to_the_next(rows):
    brought = together(pl.DataFrame(rows, schema=FRAME, orient="row"))
    told = brought.select("entity", begins=begins(), ends=ends(), held=within(pl.col("value")))
    assert by_entity(told.select("entity", "held").iter_rows()) == {
        entity: filled(values) for entity, values in by_entity(brought.rows()).items()
    }
    assert told.filter("begins").height == told.filter("ends").height == len(by_entity(rows))


def test_what_two_make_of_the_same_rows_is_made_once_and_of_other_rows_anew():
    made, once = [], Once()

    def doubled(rows):
        made.append(rows.height)
        return pl.concat([rows, rows])

    one, other = (pl.DataFrame({"time": [datetime(2026, 3, 2, tzinfo=UTC) + timedelta(days=day)]}) for day in (0, 1))
    assert once(doubled, one) is once(doubled, one)
    assert once(doubled, other)["time"].to_list() == 2 * other["time"].to_list()
    assert made == [1, 1]


@some
@given(names=st.lists(st.sampled_from("abc"), max_size=10))
def test_arrays_tell_what_differs_and_what_came_last(names):
    turned = [not number or names[number - 1] != name for number, name in enumerate(names)]
    assert differs(pl.Series(names, dtype=pl.String())).tolist() == turned
    is_a = [name == "a" for name in names]
    last = [max((at for at in range(number + 1) if is_a[at]), default=-1) for number in range(len(names))]
    assert newest(np.array(is_a, dtype=np.bool_)).tolist() == last
    assert before(np.array(is_a, dtype=np.bool_)).tolist() == [False, *is_a][: len(names)]
