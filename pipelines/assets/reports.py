"""What a day was like: one report a day, as a page in the UI and as a file."""

from typing import Any

import dagster as dg

from pipelines.assets.incident_tables import table
from pipelines.reliability import CAUSE_COLUMNS, as_markdown, reliability
from pipelines.resources import POOL
from pipelines.workplace import REFUSALS, Workplace

# The running day can be made by hand as well: end_offset.
DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-01", end_offset=1)


@dg.asset(
    deps=["incidents", "actions", "gpu"],
    group_name="reports",
    kinds={"markdown"},
    partitions_def=DAYS,
    pool=POOL,
    description="A UTC day: GPU-hours lost, availability, incidents by cause, time to detection, what was done.",
)
def reliability_report(
    context: dg.AssetExecutionContext, workplace: dg.ResourceParam[Workplace]
) -> dg.MaterializeResult[Any]:
    window = context.partition_time_window
    try:
        with workplace.operations() as operations:
            report = reliability(workplace.telemetry, operations, window.start, window.end, workplace.settings.capacity)
    except REFUSALS as refusal:
        raise dg.Failure(description=str(refusal), allow_retries=False) from None
    page = as_markdown(report)
    path = workplace.settings.store.telemetry.parent / "reports" / f"reliability-{window.start:%Y-%m-%d}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, "utf-8")
    numbers = {
        "availability": report.availability, "hours_between_incidents": report.hours_between_incidents,
        "gpu_hours_lost": report.gpu_hours_lost, "dollars_lost": report.dollars_lost,
        "gpu_hours_watched": report.watched_gpu_hours,
        "gpus": report.gpus, "incidents": report.incidents,
        **{f"actions_{outcome}": count for outcome, count in report.actions.items()},
    }  # fmt: skip
    return dg.MaterializeResult(
        metadata={
            **{name: value for name, value in numbers.items() if value is not None},
            "report": dg.MetadataValue.md(page), "file": dg.MetadataValue.path(str(path.absolute())),
            **table("causes", tuple(CAUSE_COLUMNS), report.causes.fill_null(-1.0).to_dicts()),
        }
    )  # fmt: skip
