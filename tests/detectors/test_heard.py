from datetime import UTC, datetime, timedelta
from itertools import pairwise

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.contract import Context
from detectors.heard import BY_GPU, BY_NODE, heard, in_order, rows_of, standing_of
from schemas.columns import UTC_MICROSECONDS
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, topology_from_frames

T0 = datetime(2026, 3, 2, tzinfo=UTC)
NOBODY = topology_from_frames("empty", pl.DataFrame(schema=NODE_COLUMNS), pl.DataFrame(schema=LINK_COLUMNS))
some = settings(max_examples=60, deadline=None, database=None, derandomize=True)
# Names of which one begins another, and slots of two digits: "a-b/3" < "a/10" < "a/2", in text.
spoken = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["a", "a-b", "a0", "b"]), st.sampled_from([0, 2, 9, 10])), max_size=30
)


def context():
    return Context(now=T0, began=T0, topology=NOBODY)


def rows(said):
    told = sorted(said, key=lambda row: row[0])
    schema = {"time": UTC_MICROSECONDS, "node": pl.String(), "gpu": pl.Int64()}
    return pl.DataFrame([(T0 + timedelta(seconds=at), *who) for at, *who in told], schema=schema, orient="row")


def told_of(said, name):
    """id -> numbers and seconds of its rows, in order of time."""
    found = {}
    for number, row in enumerate(sorted(said, key=lambda row: row[0])):
        found.setdefault(name(row), []).append((number, row[0]))
    return found


@some
@given(said=spoken, by=st.sampled_from([BY_NODE, BY_GPU]))
def test_each_entity_is_heard_from_its_first_row_to_its_last_with_its_longest_pause(said, by):
    told = told_of(said, lambda row: row[1] if by == BY_NODE else f"{row[1]}/{row[2]}")
    wanted = [
        (
            name, T0 + timedelta(seconds=own[0][1]), T0 + timedelta(seconds=own[-1][1]),
            timedelta(seconds=max((b[1] - a[1] for a, b in pairwise(own)), default=0)),
            own[0][0], own[-1][0],
        )
        for name, own in sorted(told.items())
    ]  # fmt: skip
    assert heard(context(), rows(said), by).rows() == wanted


@some
@given(said=spoken)
def test_rows_are_put_in_order_one_entity_behind_the_other(said):
    order = in_order(context(), rows(said), BY_GPU)
    wanted = told_of(said, lambda row: row[1:])
    stretches = []
    for row, begins in order.rows():
        if begins:
            stretches.append([])
        stretches[-1].append(row)
    assert sorted(stretches) == sorted([number for number, _ in own] for own in wanted.values())


@some
@given(said=spoken, asked=st.sets(st.sampled_from(["a/0", "a/2", "a-b/10", "b/9", "c/0"])))
def test_rows_of_a_few_are_theirs_and_all_of_theirs(said, asked):
    found = rows_of(rows(said), BY_GPU, pl.Series(sorted(asked), dtype=pl.String()))
    assert found["id"].to_list() == [
        f"{node}/{gpu}" for _, node, gpu in sorted(said, key=lambda row: row[0]) if f"{node}/{gpu}" in asked
    ]


def test_a_node_stands_since_its_first_beat_and_is_a_host_once_it_has_sent_more():
    before = pl.DataFrame({"id": ["a", "b"], "first": [T0, T0], "host": [True, False]}).cast(
        {"first": UTC_MICROSECONDS}
    )
    beats, gpus = rows([(5, "b", 0), (6, "c", 0)]), rows([(7, "b", 0), (7, "c", 0), (7, "d", 0)])
    after = pl.DataFrame({"id": ["a", "b", "c", "e"]})
    assert standing_of(before, after, beats, gpus, by="id", context=context()).select("id", "first", "host").rows() == [
        ("a", T0, True), ("b", T0, True), ("c", T0 + timedelta(seconds=6), True), ("e", None, False),
    ]  # fmt: skip
