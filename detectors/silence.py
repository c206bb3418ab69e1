"""Silence, computed once: which entities stopped sending rows, from when to when, and whether their group went on.

A silence is judged at its deadline, the last row's time plus the limit. The deadline is met when it lies strictly
before `now`: every row at the very instant of the deadline has then been given, and such a row still counts. So the
statements of a batch lie in [previous now, now), and no cut can turn one around.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import polars as pl

from detectors.stats.sorted_state import located, merged

JITTER_INTERVALS = 0.25
"""A row counts as missed a quarter of an interval after it was due: the sender's timer wanders by milliseconds."""


def intervals(count: float, interval_seconds: float) -> timedelta:
    """The time after which `count` rows in a row are surely missed."""
    return timedelta(seconds=(count + JITTER_INTERVALS) * interval_seconds)


def seconds(duration: pl.Expr) -> pl.Expr:
    """A duration as seconds, to the millisecond. Multiplied, not divided: Polars divides a column by a scalar with
    another rounding when the column has one row, and a finding must not depend on how many rows came with it.
    """
    return (duration.dt.total_microseconds() * 1e-6).round(3)


def silences(  # noqa: PLR0913  # who was heard, who is known, and the rule by keyword
    seen: pl.DataFrame, state: pl.DataFrame, *, by: str, now: datetime, limit: timedelta,
    rows_of: Callable[[pl.Series], pl.DataFrame],
) -> tuple[pl.DataFrame, pl.DataFrame]:  # fmt: skip
    """Silences longer than the limit whose deadline is met, and the last row of every entity, in order of `by`.

    seen: of the entities with rows in this batch their last row (`by`, time and what is to be carried), and the first
    and longest of detectors.heard, in order of `by`. state: the same columns as the last rows, one per entity, and
    what was told of a silence, which is not carried here. rows_of: all rows in order of time of the entities asked
    for, which are few, with the columns of the state.
    Returns the rows that a silence followed, with `until`, the time of the next row (null while it lasts); and the
    new state. A silence that an earlier batch has met comes again until it ends: what was told is the caller's flag.
    """
    columns = state.columns
    state = state if state[by].is_sorted() else state.sort(by)
    at, there = located(state[by], seen[by])
    after = merged(state[[name for name in columns if name in seen.columns]], seen, at, there, by=by)
    concerned = [after[by].filter(after["time"] < now - limit)]
    if not seen.is_empty():
        known = seen if there.all() else seen.filter(pl.Series(there, dtype=pl.Boolean))
        back = known["first"] - state["time"][at if there.all() else at[there]] > limit
        concerned += [known[by].filter(back), seen[by].filter(seen["longest"] > limit)]
    if all(names.is_empty() for names in concerned):
        return state.clear().hstack([state["time"].clear().alias("until")]), after
    names = pl.concat(concerned).unique().sort()
    timeline = _found(state, names, by=by)
    spoke = _found(seen, names, by=by)[by]
    if spoke.is_empty():  # all of them have been silent for a while
        timeline = timeline.with_columns(until=pl.lit(None, timeline.schema["time"]))
    else:
        timeline = pl.concat([timeline, rows_of(spoke).select(columns)])
        timeline = timeline.with_columns(until=pl.col("time").shift(-1).over(by)).sort(by, "time")
    lasted = pl.coalesce("until", pl.lit(now)) - pl.col("time") > limit
    return timeline.filter(lasted), after


def _found(rows: pl.DataFrame, names: pl.Series, *, by: str) -> pl.DataFrame:
    """The rows of those that are there, both in order of `by`."""
    at, there = located(rows[by], names)
    return rows[at[there]]


def returned(before: pl.DataFrame, gaps: pl.DataFrame, *, by: str) -> pl.DataFrame:
    """When each entity came back from its silences: `by`, time. before: the state, with `since`, its last return."""
    known = before.filter(pl.col("since").is_not_null()).select(by, time="since")
    return pl.concat([known, gaps.filter(pl.col("until").is_not_null()).select(by, time="until")])


def heard_alone(
    silent: pl.DataFrame, beats: pl.DataFrame, returns: pl.DataFrame, *, group: str, grace: timedelta
) -> pl.DataFrame:
    """For silences of members, the row by which their group proves that it goes on without them.

    A group that dies falls silent member by member, within one interval; so a member is alone only when the group is
    heard `grace` after the member's last row. After a silence of the whole group the members get that grace again,
    counted from the group's return.
    silent: group, time, until, ... beats: group, time (every row of the group). returns: group, time (the group's
    first row after a silence of its own).
    Returns the silences that are alone, with `base` (since when the member is waited for) and `heard`.
    """
    own = silent.with_columns(base=pl.col("time"))
    later = silent.join(returns.select(group, base="time"), on=group).filter(
        (pl.col("base") > pl.col("time")) & (pl.col("until").is_null() | (pl.col("base") < pl.col("until")))
    )
    waited = pl.concat([own, later]).with_columns(proven=pl.col("base") + grace)
    heard = waited.sort("proven").join_asof(
        beats.select(group, heard="time").sort("heard"), left_on="proven", right_on="heard", by=group,
        strategy="forward", coalesce=False, check_sortedness=False,
    )  # fmt: skip
    bounded = heard.sort("base").join_asof(
        returns.select(group, next_return="time").sort("next_return"), left_on="base", right_on="next_return",
        by=group, strategy="forward", coalesce=False, allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    alone = pl.col("heard").is_not_null() & (
        pl.col("next_return").is_null() | (pl.col("heard") < pl.col("next_return"))
    )
    return bounded.filter(alone).drop("proven", "next_return")


def proven(gaps: pl.DataFrame, gpus: pl.DataFrame, missed: timedelta) -> pl.DataFrame:
    """Gaps with `proof`: the first row of the host that shows that it outlived a missed beat.

    gaps: id, time, until, proof (as far as known), ... gpus: rows of the gpu table, which hosts send beside heartbeats.
    """
    if gaps.is_empty():
        return gaps
    if not gpus.is_empty():
        hosts = gpus.filter(pl.col("node").is_in(gaps["id"].unique().implode())).select("time", id="node").unique()
        found = gaps.with_columns(waited=pl.col("time") + missed).sort("waited").join_asof(
            hosts.select("id", shown="time").sort("shown"), left_on="waited", right_on="shown", by="id",
            strategy="forward", coalesce=False, allow_exact_matches=False, check_sortedness=False,
        )  # fmt: skip
        gaps = found.with_columns(proof=pl.coalesce("proof", "shown")).drop("waited", "shown").sort("id", "time")
    before_return = pl.col("until").is_null() | (pl.col("proof") < pl.col("until"))
    return gaps.with_columns(proof=pl.when(before_return).then("proof"))
