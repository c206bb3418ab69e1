"""One day's reliability, from both stores: what it cost in GPU-hours, how fast it was seen, what was done about it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import polars as pl

from pipelines.capacity import CapacitySettings
from pipelines.checkpoints import JobCheckpoints, advice, registry
from pipelines.operations_jobs import Jobs
from pipelines.operations_store import OperationsStore
from pipelines.recovery.ledger import Ledger
from pipelines.telemetry_store import TelemetryStore
from schemas.action import ActionRecord
from schemas.incident import Incident

CAUSE_COLUMNS = pl.Schema(
    {
        "cause": pl.String, "incidents": pl.Int64, "gpus": pl.Int64, "gpu_hours_lost": pl.Float64,
        "dollars": pl.Float64, "detected_median_seconds": pl.Float64, "detected_worst_seconds": pl.Float64,
        "lasted_median_seconds": pl.Float64,
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReliabilityReport:
    """starts_at <= time < ends_at. gpus, watched_gpu_hours: seen in table gpu. causes: CAUSE_COLUMNS, costliest first.
    actions: outcome -> how many. A GPU that several incidents held at once is lost only once. spares: state -> nodes,
    as they stand now. checkpoints: each job's registry with (interval, waste now, best interval, its waste), as of now.
    """

    starts_at: datetime
    ends_at: datetime
    gpus: int
    watched_gpu_hours: float
    gpu_hours_lost: float
    incidents: int
    causes: pl.DataFrame
    actions: dict[str, int]
    dollars_per_gpu_hour: float = CapacitySettings().dollars_per_gpu_hour
    spares: dict[str, int] = field(default_factory=dict)
    checkpoints: tuple[tuple[JobCheckpoints, float | None, float | None, float, float], ...] = ()

    @property
    def dollars_lost(self) -> float:
        """Price of the GPU-hours lost."""
        return self.gpu_hours_lost * self.dollars_per_gpu_hour

    @property
    def availability(self) -> float | None:
        """Share of watched GPU time that no incident held; None when nothing was watched."""
        return None if not self.watched_gpu_hours else max(0.0, 1 - self.gpu_hours_lost / self.watched_gpu_hours)

    @property
    def hours_between_incidents(self) -> float | None:
        """Watched hours of the cluster over incidents that cost GPUs or paged."""
        hours = self.watched_gpu_hours / self.gpus if self.gpus else 0.0
        return hours / self.incidents if self.incidents and hours else None


def reliability(
    telemetry: TelemetryStore,
    operations: OperationsStore,
    starts_at: datetime,
    ends_at: datetime,
    costs: CapacitySettings | None = None,
) -> ReliabilityReport:
    """The report of starts_at <= time < ends_at: incidents that touched it, and what was asked for in it."""
    chosen = CapacitySettings() if costs is None else costs
    gpus, hours = _watched(telemetry, starts_at, ends_at)
    incidents = tuple(
        incident
        for incident in operations.incidents(limit=None)
        if incident.state != "suspect" and incident.starts_at < ends_at and (incident.ends_at or ends_at) >= starts_at
    )
    actions = [record for record in Ledger(operations).actions(limit=None) if starts_at <= record.at < ends_at]
    return ReliabilityReport(
        starts_at=starts_at, ends_at=ends_at, gpus=gpus, watched_gpu_hours=hours,
        gpu_hours_lost=lost_hours(incidents, starts_at, ends_at), incidents=len(incidents),
        causes=_by_cause(incidents, starts_at, ends_at, chosen.dollars_per_gpu_hour), actions=_by_outcome(actions),
        dollars_per_gpu_hour=chosen.dollars_per_gpu_hour,
        spares=dict(sorted(Counter(spare.state for spare in operations.spares()).items())),
        checkpoints=_checkpoints(telemetry, operations, gpus, chosen),
    )  # fmt: skip


def _checkpoints(
    telemetry: TelemetryStore, operations: OperationsStore, gpus: int, costs: CapacitySettings
) -> tuple[tuple[JobCheckpoints, float | None, float | None, float, float], ...]:
    planned = {name: roster.checkpoint_interval_seconds for name, roster in Jobs(operations).running().items()}
    between_seconds = 86400 / (max(1, gpus) * costs.failures_per_gpu_day)
    told = ((one, advice(planned.get(one.job), between_seconds, costs)) for one in registry(telemetry))
    return tuple((one, said.interval_seconds, said.waste_now, said.daly_seconds, said.waste_best) for one, said in told)


def lost_hours(incidents: Iterable[Incident], starts_at: datetime, ends_at: datetime) -> float:
    """GPU-hours in which at least one incident held the GPU, within starts_at..ends_at."""
    held: dict[str, list[tuple[datetime, datetime]]] = {}
    for incident in incidents:
        begin, end = max(incident.starts_at, starts_at), min(incident.ends_at or ends_at, ends_at)
        if begin < end:
            for gpu in incident.members:
                held.setdefault(gpu, []).append((begin, end))
    return sum((_covered(spans) for spans in held.values()), timedelta()).total_seconds() / 3600


def _covered(spans: Sequence[tuple[datetime, datetime]]) -> timedelta:
    """Length of the union of spans."""
    total, reached = timedelta(), None
    for begin, end in sorted(spans):
        fresh = begin if reached is None else max(begin, reached)
        total += max(end - fresh, timedelta())
        reached = end if reached is None else max(reached, end)
    return total


def _watched(telemetry: TelemetryStore, starts_at: datetime, ends_at: datetime) -> tuple[int, float]:
    """GPUs seen, and GPU-hours: for every GPU the minutes in which it was heard."""
    found = telemetry.query(
        "select count(distinct (node, gpu)) as gpus, "
        "count(distinct (node, gpu, date_trunc('minute', time))) / 60.0 as hours "
        "from gpu where time >= ? and time < ?",
        [starts_at, ends_at],
    )
    return int(found["gpus"][0]), float(found["hours"][0])


def _by_cause(
    incidents: Sequence[Incident], starts_at: datetime, ends_at: datetime, dollars_per_gpu_hour: float
) -> pl.DataFrame:
    rows = []
    for cause in sorted({incident.cause for incident in incidents}):
        these = [incident for incident in incidents if incident.cause == cause]
        after = pl.Series([(one.detected_at - one.starts_at).total_seconds() for one in these])
        lasted = pl.Series(
            [(one.ends_at - one.starts_at).total_seconds() for one in these if one.ends_at], dtype=pl.Float64
        )
        lost = lost_hours(these, starts_at, ends_at)
        rows.append(
            (
                cause, len(these), len({gpu for one in these for gpu in one.members}),
                lost, lost * dollars_per_gpu_hour, after.median(), after.max(), lasted.median(),
            )
        )  # fmt: skip
    return pl.DataFrame(rows, schema=CAUSE_COLUMNS, orient="row").sort(
        "gpu_hours_lost", "cause", descending=[True, False]
    )


def _by_outcome(actions: Iterable[ActionRecord]) -> dict[str, int]:
    return dict(sorted(Counter(record.outcome for record in actions).items()))


def as_markdown(report: ReliabilityReport) -> str:
    """The report for people."""
    availability = report.availability
    lines = [
        f"# Reliability, {report.starts_at:%Y-%m-%d}",
        "",
        f"- {report.gpus:,} GPUs watched for {report.watched_gpu_hours:,.1f} GPU-hours",
        f"- {report.gpu_hours_lost:,.2f} GPU-hours lost (${report.dollars_lost:,.2f})"
        + ("" if availability is None else f"; availability {100 * availability:.3f} %"),
        f"- {report.incidents} incidents",
        "- spares: " + (", ".join(f"{count} {state}" for state, count in report.spares.items()) or "none"),
        *(_checkpoint_line(*told) for told in report.checkpoints),
        "- actions: " + (", ".join(f"{count} {outcome}" for outcome, count in report.actions.items()) or "none"),
        "",
    ]
    if report.causes.height:
        lines += [
            "| cause | incidents | GPUs | GPU-hours lost | $ | detected after, median s | worst s | lasted, median s |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        lines += [
            f"| {cause} | {count} | {gpus} | {hours:.2f} | {dollars:.2f} "
            f"| {_number(median)} | {_number(worst)} | {_number(lasted)} |"
            for cause, count, gpus, hours, dollars, median, worst, lasted in report.causes.iter_rows()
        ]
    return "\n".join(lines) + "\n"


def _checkpoint_line(one: JobCheckpoints, interval: float | None, now: float | None, best: float, least: float) -> str:
    age = "a shard has none" if one.age_seconds is None else f"oldest shard {one.age_seconds:.0f} s old"
    today = "" if interval is None or now is None else f"; every {interval:.0f} s wastes {now:.1%}"
    return f"- checkpoints of {one.job}: {age}{today}; best every {best:.0f} s, {least:.1%}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
