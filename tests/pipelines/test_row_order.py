"""The quick answers never say yes wrongly: compared with what plain Python says of the same rows."""

from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pipelines.row_order import FEW, is_after, is_increasing, is_near_newest, is_nobody_behind, is_unique, without
from schemas.columns import UTC_MICROSECONDS

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SCHEMA = pl.Schema({"time": UTC_MICROSECONDS, "node": pl.String(), "gpu": pl.Int64()})
COLUMNS = SCHEMA.names()
ROWS = st.lists(
    st.tuples(
        st.integers(0, 3).map(lambda second: NOON + timedelta(seconds=second)),
        st.sampled_from(["n0", "n1"]),
        st.sampled_from([None, 0, 1]),
    ),
    max_size=6,
)


def frame(rows: list[tuple[object, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@given(ROWS)
def test_increasing_is_what_sorting_would_leave_alone(rows: list[tuple[datetime, str, int | None]]) -> None:
    told = [tuple(row) for row in rows if row[2] is not None]
    assert is_increasing(frame(told), COLUMNS) == (sorted(set(told)) == told)
    if is_increasing(frame(rows), COLUMNS):
        assert frame(rows).equals(frame(rows).sort(COLUMNS, nulls_last=True, maintain_order=True))


@given(ROWS)
def test_unique_is_without_repeats(rows: list[tuple[datetime, str, int | None]]) -> None:
    assert is_unique(frame(rows), COLUMNS) == (len(set(rows)) == len(rows))


@given(ROWS, ROWS)
def test_without_leaves_the_others_in_their_order(
    rows: list[tuple[datetime, str, int | None]], known: list[tuple[datetime, str, int | None]]
) -> None:
    expected = [row for row in rows if row not in known]
    assert without(frame(rows), frame(known), COLUMNS, "time").rows() == expected


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.lists(st.integers(0, 5), max_size=2))
def test_nobody_is_behind_when_no_row_is_older_than_any_before_it(seconds: list[int], newest: list[int]) -> None:
    def moments(values: list[int]) -> pl.Series:
        return pl.Series([NOON + timedelta(seconds=value) for value in values], dtype=UTC_MICROSECONDS)

    before = [max([*newest, *seconds[:place]], default=second) for place, second in enumerate(seconds)]
    expected = all(latest - second <= 1 for latest, second in zip(before, seconds, strict=True))
    assert is_nobody_behind(moments(seconds), moments(newest), timedelta(seconds=1)) == expected


@given(ROWS, ROWS)
def test_a_row_is_near_the_newest_of_its_own_sender(
    rows: list[tuple[datetime, str, int | None]], later: list[tuple[datetime, str, int | None]]
) -> None:
    told, more = ([(time, node, gpu or 0) for time, node, gpu in some] for some in (rows, later))
    newest: dict[tuple[str, int], datetime] = {}
    for time, *sender in (*told, *more):
        newest[*sender] = max(newest.get((*sender,), time), time)
    expected = [newest[*sender] - time <= timedelta(seconds=1) for time, *sender in told]
    kept = frame([*told])
    found = is_near_newest(kept, frame([*more]), ("node", "gpu"), "time", timedelta(seconds=1), kept["node"])
    assert found.tolist() == expected


@given(ROWS, ROWS)
def test_when_few_have_spoken_since_nobody_else_need_be_looked_at(
    rows: list[tuple[datetime, str, int | None]], later: list[tuple[datetime, str, int | None]]
) -> None:
    told, more = (frame([(time, node, gpu or 0) for time, node, gpu in some]) for some in (rows, later))
    rule = ("node", "gpu"), "time", timedelta(seconds=1)
    near = told.filter(is_near_newest(told, more.clear(), *rule, told["node"]))
    every = pl.concat([near] * (FEW * 3))  # so that those who spoke are few beside them
    spoke = more["node"].unique()
    everybody = pl.concat([every["node"], spoke])
    assert is_near_newest(every, more, *rule, spoke).tolist() == is_near_newest(every, more, *rule, everybody).tolist()


@given(ROWS, ROWS)
def test_after_is_later_than_all(
    rows: list[tuple[datetime, str, int | None]], others: list[tuple[datetime, str, int | None]]
) -> None:
    expected = all(row[0] > other[0] for row in rows for other in others)
    assert is_after(frame([*rows])["time"], frame([*others])["time"]) == expected
