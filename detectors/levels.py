"""From a verdict per sample to statements per change: the one place where hysteresis in time is computed.

A level begins when the verdict has been bad for `for_seconds` without a good sample between, and ends when it has
been good for `clear_seconds`. Both run lengths are carried per entity in the state, so a cut changes nothing.
"""

from datetime import timedelta

import polars as pl

from detectors.stats.adjacent import begins, ends, within
from schemas.columns import UTC_MICROSECONDS

LEVEL_COLUMNS = pl.Schema(
    {
        "entity": pl.String(), "time": UTC_MICROSECONDS, "bad": pl.Boolean(), "run_began": UTC_MICROSECONDS,
        "active": pl.Boolean(), "first_bad_at": UTC_MICROSECONDS,
    }
)  # fmt: skip


def levels(
    samples: pl.DataFrame, state: pl.DataFrame, *, for_seconds: float = 0.0, clear_seconds: float = 0.0
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Statements of change, and the state after the batch.

    samples: entity, time, bad (null: the sample says nothing), and whatever evidence the caller wants kept; in order
    of time within each entity. state: LEVEL_COLUMNS, one row per entity.
    Returns the rows of samples at which a level began or ended, with active and first_bad_at; and the new state.
    """
    told = samples.filter(pl.col("bad").is_not_null())
    if told.is_empty():
        return told.with_columns(active=pl.lit(False), first_bad_at=pl.lit(None, UTC_MICROSECONDS)), state
    before = state.filter(pl.col("entity").is_in(told["entity"].unique().implode())).with_columns(carried=True)
    rows = pl.concat([before, told.with_columns(carried=False)], how="diagonal_relaxed").sort(
        "entity", "carried", "time", descending=[False, True, False], maintain_order=True
    )
    turned = begins() | (pl.col("bad") != pl.col("bad").shift(1))
    rows = rows.with_columns(run_began=within(pl.when(pl.col("carried")).then("run_began").when(turned).then("time")))
    lasted = pl.col("time") - pl.col("run_began")
    verdict = (
        pl.when(pl.col("carried")).then("active")
        .when(pl.col("bad") & (lasted >= timedelta(seconds=for_seconds))).then(pl.lit(True))
        .when(~pl.col("bad") & (lasted >= timedelta(seconds=clear_seconds))).then(pl.lit(False))
    )  # fmt: skip
    rows = rows.with_columns(active=within(verdict).fill_null(value=False))
    was = ~begins() & pl.col("active").shift(1, fill_value=False)
    since = pl.when(pl.col("carried")).then("first_bad_at").when(pl.col("active") & ~was).then("run_began")
    rows = rows.with_columns(first_bad_at=within(since), changed=(pl.col("active") != was) & ~pl.col("carried"))
    changes = rows.filter("changed").sort("time", "entity").drop("carried", "run_began", "changed")
    after = rows.filter(ends()).select(LEVEL_COLUMNS.names())
    untouched = state.join(after, on="entity", how="anti")
    return changes, pl.concat([untouched, after]).sort("entity")
