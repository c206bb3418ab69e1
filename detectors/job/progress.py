"""When a job last moved from one step to the next, and how long it usually stands still in between."""

import polars as pl

from detectors.stats.adjacent import begins, together
from schemas.columns import UTC_MICROSECONDS

PROGRESS_COLUMNS = pl.Schema(
    {
        "job": pl.String(), "time": UTC_MICROSECONDS, "changes": pl.Int64(), "step_seconds": pl.Float64(),
        "longest_seconds": pl.Float64(), "saved": pl.Boolean(), "proven": pl.Boolean(),
    }
)  # fmt: skip


def progress(beats: pl.DataFrame, ranks: pl.DataFrame, events: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Instants at which a job's step changed, or at which it started, stopped or restarted, behind the last ones known.

    beats: entity, job, step, time, step_seconds; ranks: the last beat of each entity before them. events: job events.
    before: PROGRESS_COLUMNS and whatever else is to be carried, one row per job.
    Returns PROGRESS_COLUMNS, what was carried, `next` (the instant after, null for the last) and `stopped`.
    changes: steps since the start. longest_seconds: longest pause between two of them. saved: a checkpoint was
    completed since the start; proven: and the job went on after it.
    """
    told = beats.filter(pl.col("step").is_not_null())
    line = pl.concat(
        [ranks.filter(pl.col("step").is_not_null()).with_columns(carried=pl.lit(True)),
         told.with_columns(carried=pl.lit(False))],
        how="diagonal",
    )  # fmt: skip
    same = (pl.col("step") == pl.col("step").shift(1)) & (pl.col("job") == pl.col("job").shift(1))
    moved = together(line).filter(~pl.col("carried") & (begins() | ~same.fill_null(value=False)))
    steps = moved.group_by("job", "time").agg(pl.col("step_seconds").max(), what=pl.lit("step"))
    turns = events.group_by("job", "time").agg(what=_turn(pl.col("kind")))
    instants = pl.concat([before.with_columns(what=pl.lit("carried")), steps, turns], how="diagonal").sort(
        "job", "time", (pl.col("what") != "carried"), "what"
    )
    turn = pl.col("what").is_in(["start", "stop"])
    instants = instants.with_columns(run=turn.cast(pl.Int64).cum_sum().over("job"))
    run = ["job", "run"]
    stepped = (pl.col("what") == "step").cast(pl.Int64)
    count = pl.when(pl.col("what") == "carried").then("changes").otherwise(stepped)
    running = pl.when(pl.col("what") != "checkpoint").then(pl.col("what") != "stop").forward_fill().over("job")
    known = running.fill_null(value=False)  # a checkpoint before anything else, or after the stop, is nobody's
    saved = pl.when(pl.col("what") == "carried").then("saved").otherwise((pl.col("what") == "checkpoint") & known)
    instants = instants.with_columns(changes=count.cum_sum().over(run), saved=saved.cum_max().over(run))
    # The checkpoint itself does not prove anything; a step after it does. Carried on is that there was one.
    proven = pl.when(pl.col("what") == "carried").then("proven").otherwise((pl.col("what") == "step") & pl.col("saved"))
    instants = instants.with_columns(proven=proven).with_columns(saved=pl.col("saved").max().over(run))
    instants = instants.filter(pl.col("what") != "checkpoint")
    pause = (pl.col("time") - pl.col("time").shift(1).over(run)).dt.total_microseconds() * 1e-6
    between = pl.when((pl.col("what") == "step") & (pl.col("changes") >= 2)).then(pause)
    longest = pl.when(pl.col("what") == "carried").then("longest_seconds").otherwise(between)
    return instants.with_columns(
        longest_seconds=longest.cum_max().forward_fill().over(run),
        step_seconds=pl.col("step_seconds").forward_fill().over(run),
        next=pl.col("time").shift(-1).over("job"),
        stopped=pl.col("what") == "stop",
    ).drop("what", "run")


def _turn(kinds: pl.Expr) -> pl.Expr:
    """The word for what happened at one instant: an end outweighs a start, and either a checkpoint."""
    return (
        pl.when((kinds == "stop").any()).then(pl.lit("stop"))
        .when(kinds.is_in(["start", "restart"]).any()).then(pl.lit("start"))
        .otherwise(pl.lit("checkpoint"))
    )  # fmt: skip
