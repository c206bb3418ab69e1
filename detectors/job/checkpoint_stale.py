"""Jobs whose newest checkpoint is much older than it should be."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.silence import seconds
from schemas.columns import UTC_MICROSECONDS
from schemas.job import JobEvent

JOB_COLUMNS = pl.Schema(
    {
        "job": pl.String(), "time": UTC_MICROSECONDS, "checkpoint_interval_seconds": pl.Float64(),
        "told": pl.Boolean(),
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CheckpointStale:
    """Checkpoints are begun and not completed: the store is full, slow or refuses a shard.

    What it looks like: the job trains on and nobody notices, until it is lost back to the last checkpoint. At an
    interval of 300 s each missed one adds 300 s of work of the whole job to what a failure costs.
    Formula: no checkpoint completed for `intervals` of the job's own interval, counted from its last checkpoint, start
    or restart; ends with the next one, or when the job stops or restarts.
    Defaults: 2.5 intervals: one may be late or be given up by intent, two in a row are not.
    Cannot see: jobs that do not say their interval; checkpoints that are complete and unreadable.
    """

    intervals: float = 2.5

    @property
    def name(self) -> str:
        return "job.checkpoint_stale"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (JobEvent,)

    @property
    def keeps(self) -> pl.Schema:
        """Per running job its last start, restart or checkpoint, and whether it was told stale."""
        return JOB_COLUMNS

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        own = pl.col("checkpoint_interval_seconds")
        if tables[JobEvent].is_empty() and not self._is_due(state, context):
            return Detection(NO_FINDINGS, state)
        events = tables[JobEvent].group_by("job", "time").agg(own.max(), stopped=(pl.col("kind") == "stop").any())
        timeline = pl.concat([state, events], how="diagonal").sort("job", "time", maintain_order=True)
        # What a job said of its interval is forgotten when it stops.
        stops = pl.col("stopped").fill_null(value=False).cast(pl.Int64)
        timeline = timeline.with_columns(
            next=pl.col("time").shift(-1).over("job"), lives=stops.cum_sum().over("job") - stops
        ).with_columns(own.forward_fill().over("job", "lives"))
        limit = self._limit()
        runs = ~pl.col("stopped").fill_null(value=False) & (own > 0)
        due = runs & (pl.col("time") + limit < pl.coalesce("next", pl.lit(context.now)))
        stale = timeline.filter(due.fill_null(value=False)).with_columns(at=pl.col("time") + limit)
        begins = stale.filter(pl.col("told").is_null()).select("job", *self._seen(), time="at", active=pl.lit(True))
        ends = stale.filter(pl.col("next").is_not_null()).select(
            "job", *self._seen(), time="next", active=pl.lit(False)
        )
        said = pl.concat([begins, ends]).with_columns(
            evidence("job", "last_checkpoint_or_start_at", "checkpoint_interval_seconds"),
            entity="job", code=pl.lit("checkpoint_overdue"), severity=pl.lit("ticket"),
            score=seconds(pl.col("time") - pl.col("last_checkpoint_or_start_at")),
            threshold=own * self.intervals, action=pl.when("active").then(pl.lit("global_checkpoint")),
        )  # fmt: skip
        last = timeline.filter(pl.col("next").is_null() & ~pl.col("stopped").fill_null(value=False))
        told = pl.when(last.select(due.fill_null(value=False)).to_series()).then(pl.lit(True))
        after = last.with_columns(told=told).select(JOB_COLUMNS.names())
        return Detection(ordered(findings_frame(said, self.name, "checkpoint_stale", "job")), after.sort("job"))

    def _is_due(self, state: pl.DataFrame, context: Context) -> bool:
        """Whether a job's checkpoint is overdue that was not told so."""
        untold = state.filter(pl.col("told").is_null() & (pl.col("checkpoint_interval_seconds") > 0))
        return bool(untold.select((pl.col("time") + self._limit() < context.now).any()).item())

    def _limit(self) -> pl.Expr:
        own = pl.col("checkpoint_interval_seconds")
        return pl.duration(microseconds=(own * self.intervals * 1e6).round().cast(pl.Int64))

    def _seen(self) -> list[pl.Expr]:
        overdue = pl.col("checkpoint_interval_seconds")
        first_missed = pl.col("time") + pl.duration(microseconds=(overdue * 1e6).round().cast(pl.Int64))
        return [
            overdue, pl.col("time").alias("last_checkpoint_or_start_at"), first_missed.alias("first_bad_at"),
        ]  # fmt: skip
