import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.stats.sorted_state import beside, interleaved, part, places, put, rows_of, stretches, with_new, with_rows

names = st.lists(st.sampled_from([f"leaf-{n}:{m}" for n in range(4) for m in range(4)]), unique=True, max_size=12)
some = settings(max_examples=60, deadline=None, database=None, derandomize=True)


def state_of(entities, value):
    columns = {"entity": sorted(entities), "value": [f"{value} {entity}" for entity in sorted(entities)]}
    return pl.DataFrame(columns, schema={"entity": pl.String, "value": pl.String})


def as_dict(frame):
    return dict(frame.iter_rows())


@some
@given(before=names, now=names)
def test_rows_replace_what_was_there_and_new_ones_come_in_order(before, now):
    after = with_rows(state_of(before, "old"), state_of(now, "new"))
    assert after["entity"].to_list() == sorted({*before, *now})
    assert as_dict(after) == {**as_dict(state_of(before, "old")), **as_dict(state_of(now, "new"))}


@some
@given(before=names, asked=st.lists(st.sampled_from([f"leaf-{n}:{m}" for n in range(4) for m in range(4)])))
def test_the_rows_of_entities_come_once_and_in_order_however_often_they_are_asked_for(before, asked):
    found = rows_of(state_of(before, "old"), pl.Series(sorted(asked), dtype=pl.String))
    assert found.rows() == [row for row in state_of(before, "old").rows() if row[0] in asked]


@some
@given(data=st.data(), height=st.integers(1, 8))
def test_values_put_into_a_state_leave_the_state_before_it_as_it_was(data, height):
    column = st.lists(st.one_of(st.none(), st.floats(allow_nan=False)), min_size=height, max_size=height)
    state = pl.DataFrame(
        {"entity": [f"leaf-{n}" for n in range(height)], "a": data.draw(column), "b": data.draw(column)},
        schema={"entity": pl.String, "a": pl.Float64, "b": pl.Float64},
    )
    at = np.array(sorted(data.draw(st.sets(st.integers(0, height - 1)))), dtype=np.int64)
    values = pl.Series("a", data.draw(column)[: len(at)], pl.Float64)
    rows_before = state.rows()
    after = put(state, at, pl.DataFrame([values]))
    assert state.rows() == rows_before
    wanted = dict(zip(at.tolist(), values, strict=True))
    assert after["a"].to_list() == [wanted.get(place, row[1]) for place, row in enumerate(rows_before)]
    assert after.drop("a").rows() == state.drop("a").rows()


@some
@given(before=names, now=names)
def test_only_what_lacks_is_added(before, now):
    after = with_new(state_of(before, "old"), state_of(now, "new"))
    assert after["entity"].to_list() == sorted({*before, *now})
    assert as_dict(after) == {**as_dict(state_of(now, "new")), **as_dict(state_of(before, "old"))}


@some
@given(before=names, asked=names)
def test_places_are_where_the_entities_are(before, asked):
    state = state_of(before, "old")
    at, there = places(state, pl.Series(asked, dtype=pl.String))
    assert there.tolist() == [entity in before for entity in asked]
    assert [state["entity"][int(place)] for place, found in zip(at, there, strict=True) if found] == [
        entity for entity in asked if entity in before
    ]


@some
@given(before=names, more=names)
def test_columns_beside_are_null_where_there_are_none(before, more):
    other = state_of(more, "more").rename({"value": "other"})
    found = dict(zip(sorted(before), beside(state_of(before, "old"), other)["other"], strict=True))
    assert found == {entity: as_dict(other).get(entity) for entity in before}


@some
@given(kinds=st.lists(st.sampled_from("abc"), max_size=9), asked=st.sampled_from("abcd"))
def test_a_part_is_what_a_filter_would_find(kinds, asked):
    state = pl.concat(
        [pl.DataFrame({"row": [kind]}) for kind in sorted(kinds)] or [pl.DataFrame(schema={"row": pl.String})]
    )
    assert part(state, "row", asked).equals(state.filter(row=asked))


@some
@given(many=names, few=names)
def test_a_few_samples_come_in_their_places_among_the_others(many, few):
    both = interleaved(*(state_of(each, "x").with_columns(time=pl.lit(0)) for each in (many, few)))
    assert both["entity"].to_list() == sorted([*many, *few])


def test_stretches_are_the_rows_of_each_value_in_whatever_order_the_values_stand():
    state = pl.DataFrame({"table": ["gpu", "gpu", "fabric_port"], "unit": [1, 2, 7]})
    found = stretches(state, "table")
    assert {name: rows["unit"].to_list() for name, rows in found.items()} == {"gpu": [1, 2], "fabric_port": [7]}
    assert stretches(state.clear(), "table") == {}
