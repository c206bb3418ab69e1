"""When a job last moved from one step to the next, and how long it usually stands still in between."""

import polars as pl

from detectors.contract import Context
from detectors.heard import BY_GPU, heard, in_order
from detectors.stats.sorted_state import beside
from schemas.columns import UTC_MICROSECONDS

PROGRESS_COLUMNS = pl.Schema(
    {
        "job": pl.String(), "time": UTC_MICROSECONDS, "changes": pl.Int64(), "step_seconds": pl.Float64(),
        "longest_seconds": pl.Float64(), "saved": pl.Boolean(), "proven": pl.Boolean(),
    }
)  # fmt: skip
MOVED = ["node", "gpu", "job", "step", "time", "step_seconds", "compute_seconds"]


def moved(beats: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
    """MOVED of the beats at which a rank names another step or job than in its beat before, in their order.

    beats: rows of the step that name a step (`stepping`). before: entity, job, step of each rank's last beat before
    them, in order of entity.
    """
    if beats.is_empty():
        return beats[MOVED]
    seen = heard(context, beats, BY_GPU)
    firsts = beats["job", "step"][seen["first_row"]]
    earlier = beside(seen.select(entity="id"), before["entity", "job", "step"])
    same = (firsts["job"] == earlier["job"]) & (firsts["step"] == earlier["step"])
    between = context.once(_changes, beats, in_order(context, beats, BY_GPU))["row"]
    return beats[MOVED][pl.concat([seen["first_row"].filter(~same.fill_null(value=False)), between]).sort()]


def stepping(beats: pl.DataFrame) -> pl.DataFrame:
    """For `Context.once`: the beats that name a step, mostly all."""
    return beats.filter(pl.col("step").is_not_null()) if beats["step"].null_count() else beats


def _changes(beats: pl.DataFrame, order: pl.DataFrame) -> pl.DataFrame:
    """For `Context.once`: numbers of the rows at which a rank's step or job differs from that of its row before."""
    sorted_beats = beats["job", "step"][order["row"]]
    same = (pl.col("step") == pl.col("step").shift(1)) & (pl.col("job") == pl.col("job").shift(1))
    return order.filter(~order["begins"] & ~sorted_beats.select(same.fill_null(value=False)).to_series())


def progress(moved_beats: pl.DataFrame, events: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Instants at which a job's step changed, or at which it started, stopped or restarted, behind the last ones known.

    moved_beats: at which a rank moved to another step. events: job events.
    before: PROGRESS_COLUMNS and whatever else is to be carried, one row per job, in order of job.
    Returns PROGRESS_COLUMNS, what was carried, `next` (the instant after, null for the last) and `stopped`.
    changes: steps since the start. longest_seconds: longest pause between two of them. saved: a checkpoint was
    completed since the start; proven: and the job went on after it.
    """
    if moved_beats.is_empty() and events.is_empty():
        return before.with_columns(next=pl.lit(None, UTC_MICROSECONDS), stopped=pl.lit(value=False))
    steps = moved_beats.group_by("job", "time").agg(pl.col("step_seconds").max(), what=pl.lit("step"))
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
