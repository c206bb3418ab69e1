"""Counters as what they have counted: increments, and how many of them lie within a sliding window.

Counters of healthy hardware hardly move, so everything here is sparse: state holds the last value of each counter and
the few increments of the window.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import polars as pl

from schemas.columns import UTC_MICROSECONDS

RECENT_COLUMNS = pl.Schema(
    {
        "entity": pl.String(), "time": UTC_MICROSECONDS, "amount": pl.Int64(), "active": pl.Boolean(),
        "first_bad_at": UTC_MICROSECONDS,
    }
)  # fmt: skip


def increments(
    rows: pl.DataFrame, before: pl.DataFrame, *, by: Sequence[str], counters: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows at which a counter rose, with how much each one rose; and the last value of every counter.

    rows: by, time and the counters, in order of time. before: by and the counters. A counter counts up from anywhere:
    its first value is no increment, and a fall is a reset (driver load, reboot), from which it counts anew. The first
    value after a reset is no increment either: nobody knows how much of it is old. Nulls say nothing.
    """
    last = rows.group_by(by).agg(pl.col(name).drop_nulls().last() for name in counters)
    after = last.join(before, on=by, how="full", coalesce=True, suffix="_before").select(
        *by, *(pl.coalesce(name, f"{name}_before") for name in counters)
    )
    # Counters that end where they began have moved only if they fell in between: the two extremes tell.
    spread = (
        rows.group_by(by)
        .agg(
            *(pl.col(name).min().alias(f"{name}_low") for name in counters), *(pl.col(name).max() for name in counters)
        )
        .join(before, on=by, how="left", suffix="_before")
    )
    moved = [
        (pl.col(name) > pl.min_horizontal(f"{name}_low", f"{name}_before")).fill_null(value=False) for name in counters
    ]
    moving = spread.filter(pl.any_horizontal(moved)).select(by)
    if moving.is_empty():
        return rows.clear(), after.sort(by)
    timeline = pl.concat(
        [before.with_columns(carried=pl.lit(True)), rows.with_columns(carried=pl.lit(False))], how="diagonal"
    ).join(moving, on=by, how="semi", maintain_order="left")
    previous = [pl.col(name).forward_fill().over(by).shift(1).over(by).alias(f"{name}_before") for name in counters]
    timeline = timeline.with_columns(previous).filter(~pl.col("carried"))
    rose = {name: (pl.col(name) - pl.col(f"{name}_before")).clip(lower_bound=0).fill_null(0) for name in counters}
    timeline = timeline.with_columns(**rose).select(rows.columns)
    return timeline.filter(pl.any_horizontal(pl.col(name) > 0 for name in counters)), after.sort(by)


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
