"""The checkpoint registry: for every shard its newest completed checkpoint, as the ranks themselves last said."""

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from pipelines.capacity import CapacitySettings, Regime, daly_seconds, waste, young_seconds
from pipelines.telemetry_store import TelemetryStore

COSTS_SECONDS = (10.0, 30.0, 60.0, 120.0)  # of a checkpoint, for the table of sensitivity


@dataclass(frozen=True, kw_only=True)
class JobCheckpoints:
    """step: the newest that every shard has; None when a shard has none. age_seconds: of the oldest shard, at `now`,
    the job's newest beat. behind: shards (node/gpu) that lack the newest step any shard has, the oldest first.
    """

    job: str
    shards: int
    step: int | None
    newest_step: int | None
    now: datetime
    age_seconds: float | None
    behind: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What the interval costs. sensitivity: (cost of a checkpoint, best interval, its waste, waste of today's)."""

    interval_seconds: float | None
    between_failures_seconds: float
    young_seconds: float
    daly_seconds: float
    waste_now: float | None
    waste_best: float
    sensitivity: tuple[tuple[float, float, float, float | None], ...]


def registry(telemetry: TelemetryStore) -> tuple[JobCheckpoints, ...]:
    """Every job that has beaten in its cluster's last hour, by name. Raises StoreUnavailable, StoreBusy."""
    newest = telemetry.query(
        "with last as (select max(time) as at from heartbeat) "
        "select job, node || '/' || gpu as shard, max(time) as time, "
        "arg_max(shard_checkpoint_step, time) filter (where shard_checkpoint_step is not null) as step, "
        "arg_max(shard_checkpoint_time, time) filter (where shard_checkpoint_time is not null) as completed "
        "from heartbeat, last where time > last.at - interval 1 hour group by job, node, gpu order by job, node, gpu",
        [],
    )
    return tuple(_job(str(name), rows) for (name,), rows in newest.group_by("job", maintain_order=True))


def _job(name: str, rows: pl.DataFrame) -> JobCheckpoints:
    now, steps = rows["time"].max(), rows["step"]
    assert isinstance(now, datetime)
    newest, oldest = steps.max(), rows["completed"].min()
    late = rows.filter(pl.col("step").is_null() | (pl.col("step") < pl.lit(newest))).sort("step", nulls_last=False)
    complete = steps.null_count() == 0
    known = complete and isinstance(oldest, datetime) and rows["completed"].null_count() == 0
    return JobCheckpoints(
        job=name, shards=rows.height, step=_whole(steps.min()) if complete else None, newest_step=_whole(newest),
        now=now,
        age_seconds=(now - oldest).total_seconds() if known and isinstance(oldest, datetime) else None,
        behind=tuple(late["shard"]),
    )  # fmt: skip


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def advice(interval_seconds: float | None, between_failures_seconds: float, settings: CapacitySettings) -> Advice:
    regime = Regime(between_failures_seconds, settings.checkpoint_stall_seconds, settings.restart_seconds)
    best = daly_seconds(regime.cost_seconds, between_failures_seconds)
    rows = []
    for cost in COSTS_SECONDS:
        other = Regime(between_failures_seconds, cost, settings.restart_seconds)
        interval = daly_seconds(cost, between_failures_seconds)
        today = None if interval_seconds is None else waste(interval_seconds, other)
        rows.append((cost, interval, waste(interval, other), today))
    return Advice(
        interval_seconds=interval_seconds, between_failures_seconds=between_failures_seconds,
        young_seconds=young_seconds(regime.cost_seconds, between_failures_seconds), daly_seconds=best,
        waste_now=None if interval_seconds is None else waste(interval_seconds, regime), waste_best=waste(best, regime),
        sensitivity=tuple(rows),
    )  # fmt: skip
