"""From a verdict per sample to statements per change: the one place where hysteresis in time is computed.

A level begins when the verdict has been bad for `for_seconds` without a good sample between, and ends when it has
been good for `clear_seconds`. Both run lengths are carried per entity in the state, so a cut changes nothing.
"""

from datetime import timedelta

import numpy as np
import polars as pl

from detectors.stats.adjacent import Flags, before, differs, newest
from detectors.stats.sorted_state import in_order, with_rows
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
    told = samples.filter(samples["bad"].is_not_null())
    if told.is_empty():
        return told.with_columns(active=pl.lit(False), first_bad_at=pl.lit(None, UTC_MICROSECONDS)), state
    known = state.filter(pl.col("entity").is_in(told["entity"].unique().implode())).with_columns(carried=True)
    rows = pl.concat([known, told.with_columns(carried=False)], how="diagonal_relaxed").sort(
        "entity", "carried", "time", descending=[False, True, False], maintain_order=True
    )
    carried, bad, begins = rows["carried"].to_numpy(), _is_true(rows["bad"]), differs(rows["entity"])
    times, first = rows["time"].to_numpy(), newest(begins)
    run = newest(carried | begins | (bad != before(bad)))
    run_began = np.where(carried, rows["run_began"].to_numpy(), times)[run]
    holds = bad & (times - run_began >= timedelta(seconds=for_seconds))
    over = ~bad & (times - run_began >= timedelta(seconds=clear_seconds))
    verdict = newest(carried | holds | over)
    active = (verdict >= first) & np.where(carried, _is_true(rows["active"]), holds)[verdict]
    was = ~begins & before(active)
    first_bad_at = np.where(carried, rows["first_bad_at"].to_numpy(), run_began)
    since = newest(np.where(carried, ~np.isnat(first_bad_at), active & ~was))
    first_bad_at = np.where(since >= first, first_bad_at[since], np.datetime64("NaT", "us"))
    rows = rows.with_columns(
        pl.Series("run_began", run_began).cast(UTC_MICROSECONDS), pl.Series("active", active),
        pl.Series("first_bad_at", first_bad_at).cast(UTC_MICROSECONDS),
    )  # fmt: skip
    changes = rows[np.flatnonzero((active != was) & ~carried)].sort("time", "entity")
    after = rows[np.flatnonzero(np.append(begins[1:], True))]
    return changes.drop("carried", "run_began"), with_rows(in_order(state), after)


def _is_true(values: pl.Series) -> Flags:
    return values.eq_missing(other=True).to_numpy()
