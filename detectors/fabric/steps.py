"""Steps of a job as its ranks tell them: how long the collectives took, beside everybody's computing."""

import polars as pl

from schemas.columns import UTC_MICROSECONDS

OPEN = pl.Schema(
    {
        "job": pl.String(), "step": pl.Int64(), "time": UTC_MICROSECONDS, "step_seconds": pl.Float64(),
        "compute_seconds": pl.Float64(),
    }
)  # fmt: skip


def finished_steps(beats: pl.DataFrame, before: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Steps that are over, one row each, and those under way (OPEN), one a job.

    beats: heartbeat rows. A report is over when the first rank of the job tells of a later step; what comes after that
    is not counted. time: that instant. communication_seconds: the step without its slowest rank's computing. A job that
    goes back to an older step is heard again once it has passed the newest it had told.
    """
    told = beats.filter(pl.all_horizontal(pl.col("step", "step_seconds", "compute_seconds").is_not_null()))
    rows = pl.concat([before, told.select(OPEN.names())])
    first = rows.group_by("job", "step").agg(first=pl.col("time").min()).sort("job", "step")
    first = first.with_columns(later=pl.col("first").shift(-1).over("job"))
    first = first.with_columns(over=pl.col("later").cum_min(reverse=True).over("job"))
    steps = (
        rows.join(first, on=["job", "step"])
        .filter(pl.col("over").is_null() | (pl.col("time") < pl.col("over")))
        .group_by("job", "step")
        .agg(pl.col("time", "over").min(), pl.col("step_seconds", "compute_seconds").max())
        .sort("job", "step")
    )
    done = steps.filter(pl.col("over").is_not_null()).with_columns(
        time="over", communication_seconds=pl.col("step_seconds") - pl.col("compute_seconds")
    )
    return done, steps.filter(pl.col("over").is_null()).select(OPEN.names())
