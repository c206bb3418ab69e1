"""Counters as what they have counted: increments, and how many of them lie within a sliding window.

Counters of healthy hardware hardly move, so everything here is sparse: state holds the last value of each counter and
the few increments of the window.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.counters import deltas

RECENT_COLUMNS = pl.Schema(
    {
        "entity": pl.String(), "time": UTC_MICROSECONDS, "amount": pl.Int64(), "active": pl.Boolean(),
        "first_bad_at": UTC_MICROSECONDS,
    }
)  # fmt: skip


def apart(state: pl.DataFrame, total: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of totals of a state, with which it begins, and those of recent increments."""
    begin = bisect_left(state["row"], True, key=lambda row: row != total)
    return state.head(begin), state.tail(state.height - begin)


def increments(
    rows: pl.DataFrame, before: pl.DataFrame, *, by: Sequence[str], counters: Mapping[str, int | None]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows at which a counter rose, with how much each one rose; and the last value of every counter.

    rows: by, time and the counters, in order of time. before: by and the counters. counters: column -> width in bits,
    as for `schemas.counters.deltas`, which says what a first value, a fall, a null and the top of the width mean. It
    is asked only about counters that have moved: those of healthy hardware stand still. Both states are sorted by `by`.
    """
    names = list(counters)
    if rows.is_empty():
        return rows, before
    # One join tells for all of a cluster's counters that they stand where they stood.
    other = rows.join(before, on=[*by, *names], how="anti", nulls_equal=True).select(by).unique()
    if other.is_empty():
        return rows.clear(), before
    rows, rest = rows.join(other, on=by, how="semi", maintain_order="left"), before.join(other, on=by, how="anti")
    moved, after = deltas(rows, before.join(other, on=by, how="semi"), tuple(by), counters)
    rose = moved.with_columns(pl.col(f"{name}_delta").fill_null(0).alias(name) for name in names).select(rows.columns)
    return rose.filter(pl.any_horizontal(pl.col(name) > 0 for name in names)), pl.concat([rest, after]).sort(by)


def crowded(  # noqa: PLR0913  # what rose, memory, and the rule by keyword
    rises: pl.DataFrame, before: pl.DataFrame, *, now: datetime, window: timedelta, begins_at: int, ends_below: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Statements of the level "at least `begins_at` within the window", which ends with fewer than `ends_below`.

    rises: entity, time, amount (one row per entity and time, amount > 0) in order of time. before: RECENT_COLUMNS.
    An increment counts from its time to `window` later, exclusive; the level ends by itself when increments grow old,
    if that instant is before now. Returns entity, time, active, amount (within the window), first_bad_at (the oldest
    increment in the window at which the level began), and the increments that still count: an older one does not once
    those after it are enough by themselves, so at most `begins_at` of them are kept per entity.
    """
    if rises.is_empty() and before.is_empty():
        nothing = {"entity": pl.String(), "time": UTC_MICROSECONDS, "active": pl.Boolean(), "amount": pl.Int64()}
        return pl.DataFrame(schema={**nothing, "first_bad_at": UTC_MICROSECONDS}), before
    held = before.group_by("entity").agg(held=pl.col("active").any(), since=pl.col("first_bad_at").min())
    known = pl.concat([before.select("entity", "time", "amount", carried=True),
                       rises.select("entity", "time", "amount", carried=False)])  # fmt: skip
    leaves = known.select(
        "entity", pl.col("time") + window, amount=-pl.col("amount"), carried=pl.lit(False)
    ).filter(pl.col("time") < now)  # fmt: skip
    steps = (
        pl.concat([known, leaves])
        .group_by("entity", "time").agg(pl.col("amount").sum(), pl.col("carried").all())
        .sort("entity", "time").join(held, on="entity", how="left", maintain_order="left")
        .with_columns(amount=pl.col("amount").cum_sum().over("entity"))
    )  # fmt: skip
    oldest = steps.select("entity", "amount", "carried", "held", "since", "time", seen_since=pl.col("time") - window)
    oldest = oldest.sort("seen_since").join_asof(
        known.select("entity", first="time").sort("first"), left_on="seen_since", right_on="first", by="entity",
        strategy="forward", allow_exact_matches=False, coalesce=False, check_sortedness=False,
    ).sort("entity", "time")  # fmt: skip
    verdict = (
        pl.when("carried").then("held").when(pl.col("amount") >= begins_at).then(pl.lit(True))
        .when(pl.col("amount") < ends_below).then(pl.lit(False))
    )  # fmt: skip
    told = oldest.with_columns(active=verdict).with_columns(
        pl.col("active").forward_fill().over("entity").fill_null(value=False)
    )
    was = pl.col("active").shift(1).over("entity").fill_null(pl.col("held")).fill_null(value=False)
    told = told.with_columns(was=was, began=pl.when("carried").then("since"))
    told = told.with_columns(
        began=pl.when(pl.col("active") & ~pl.col("was")).then("first").otherwise("began")
    ).with_columns(first_bad_at=pl.col("began").forward_fill().over("entity"))  # fmt: skip
    said = told.filter((pl.col("active") != pl.col("was")) & ~pl.col("carried"))
    latest = told.group_by("entity", maintain_order=True).last().select("entity", "active", "first_bad_at")
    newer = pl.col("amount").cum_sum(reverse=True).over("entity") - pl.col("amount")
    kept = known.sort("entity", "time").filter((pl.col("time") + window >= now) & (newer < begins_at))
    kept = kept.join(latest, on="entity", how="left", maintain_order="left")
    after = kept.with_columns(first_bad_at=pl.when("active").then("first_bad_at"))
    return (
        said.select("entity", "time", "active", "amount", "first_bad_at").sort("time", "entity"),
        after.select(RECENT_COLUMNS.names()).sort("entity", "time"),
    )
