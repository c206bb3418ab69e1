"""Judged again in the UI: an incident under chosen settings, chosen settings against the current ones, and every night
what the current settings make of yesterday.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import dagster as dg
from pydantic import Field

from pipelines.assets.incident_tables import table
from pipelines.assets.ingest import TELEMETRY
from pipelines.assets.reports import DAYS
from pipelines.backtest import Backtest, backtest, proposed
from pipelines.backtest_pass import tenths
from pipelines.backtest_report import (
    FALSE_HEADS,
    FATE_HEADS,
    counts,
    false_rows,
    fate_rows,
    lost_rows,
    markdown,
    savings_of,
    verdict_line,
)
from pipelines.operations_records import NotFound
from pipelines.stored_rows import NothingStored
from pipelines.workplace import REFUSALS, Workplace

# A long read of the store opens the file for a moment at a time, and must not keep an ingest from its turn.
POOL = "backtest"
INCIDENTS_NAME = "incident"
INCIDENTS = dg.DynamicPartitionsDefinition(name=INCIDENTS_NAME)
MISSED, FALSE_PAGES = "nothing_newly_missed", "no_new_false_pages"
SHOWN = 20
LOST_COLUMNS = ("cause", "root", "lost_gpu_seconds", "by_detection", "with_automation", "automation")
SETTINGS = (
    "Settings to judge with: the path of a settings file, or TOML that changes some of the current ones, such as "
    '[detectors."gpu.thermal_throttle"] sustained_seconds = 5 (each on its line). Empty: the current ones.'
)


class ReplayConfig(dg.Config):
    settings: str = Field(default="", description=SETTINGS)
    hours: float = Field(default=6.0, gt=0, le=720, description="At most so much from the incident's onset on.")


class BacktestConfig(dg.Config):
    settings: str = Field(default="", description=SETTINGS)
    days: float = Field(default=1.0, gt=0, le=366, description="So much up to the incident's end, and it.")


def _checks(asset: str) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(MISSED, asset=asset, description="Whatever was caught before is caught still."),
        dg.AssetCheckSpec(FALSE_PAGES, asset=asset, description="No page that nothing explains and that was not said."),
    ]


@dg.asset(
    deps=["incidents", "findings", *TELEMETRY], group_name="replay", kinds={"markdown"}, partitions_def=INCIDENTS,
    pool=POOL, check_specs=_checks("incident_replay"),
    description="The time of an incident judged again under chosen settings, against what was decided at the time.",
)  # fmt: skip
def incident_replay(
    context: dg.AssetExecutionContext, config: ReplayConfig, workplace: dg.ResourceParam[Workplace]
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks Dagster knows no other
    try:
        chosen = proposed(config.settings, workplace.settings)
        with workplace.operations() as operations:
            incident = operations.incident(context.partition_key)
            ends = min(incident.ends_at or workplace.clock(), incident.starts_at + timedelta(hours=config.hours))
            since = min(incident.starts_at, incident.detected_at)
            until = max(ends, incident.detected_at) + timedelta(seconds=chosen.bundles.after_seconds)
            result = backtest(
                workplace.telemetry, operations, chosen, None, since=since, until=until,
                progress=tenths(context.log.info),
            )  # fmt: skip
    except (*REFUSALS, NotFound) as refusal:
        raise dg.Failure(description=str(refusal), allow_retries=False) from None
    mine = next((fate for fate in result.verdict.fates if fate.truth.id == incident.id), None)
    own: dict[str, Any] = {} if mine is None else {"result": mine.caught, "because_of": mine.finding or "no difference"}
    if mine is not None and mine.earlier_seconds is not None:
        own["seconds_earlier"] = mine.earlier_seconds
    return _reported(result, "incident_replay", own)


@dg.asset(
    deps=["incidents", "findings", *TELEMETRY], group_name="replay", kinds={"markdown"}, partitions_def=INCIDENTS,
    pool=POOL, check_specs=_checks("settings_backtest"),
    description="Chosen settings against the current ones: an incident, and all that happened in the days before it.",
)  # fmt: skip
def settings_backtest(
    context: dg.AssetExecutionContext, config: BacktestConfig, workplace: dg.ResourceParam[Workplace]
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks Dagster knows no other
    try:
        given = proposed(config.settings, workplace.settings)
        with workplace.operations() as operations:
            incident = operations.incident(context.partition_key)
            ends = min(incident.ends_at or workplace.clock(), incident.detected_at + timedelta(hours=1))
            until = max(ends, incident.detected_at) + timedelta(seconds=given.bundles.after_seconds)
            result = backtest(
                workplace.telemetry, operations, workplace.settings, given, since=until - timedelta(days=config.days),
                until=until, progress=tenths(context.log.info),
            )  # fmt: skip
    except (*REFUSALS, NotFound) as refusal:
        raise dg.Failure(description=str(refusal), allow_retries=False) from None
    return _reported(result, "settings_backtest", {})


@dg.asset(
    deps=["incidents", "findings", *TELEMETRY], group_name="replay", kinds={"markdown"}, partitions_def=DAYS,
    pool=POOL, check_specs=_checks("nightly_backtest"),
    description="A UTC day under the current settings and this version, against what was decided at the time.",
)  # fmt: skip
def nightly_backtest(context: dg.AssetExecutionContext, workplace: dg.ResourceParam[Workplace]) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks Dagster knows no other
    window = context.partition_time_window
    try:
        with workplace.operations() as operations:
            result = backtest(
                workplace.telemetry, operations, workplace.settings, None, since=window.start, until=window.end,
                progress=tenths(context.log.info),
            )  # fmt: skip
    except NothingStored as nothing:
        return dg.MaterializeResult(
            metadata={"watched_hours": 0.0, "verdict": str(nothing)},
            check_results=[
                dg.AssetCheckResult(check_name=name, passed=True, description="nothing is stored of this day")
                for name in (MISSED, FALSE_PAGES)
            ],
        )
    except REFUSALS as refusal:
        raise dg.Failure(description=str(refusal), allow_retries=False) from None
    page = _page(workplace, f"backtest-{window.start:%Y-%m-%d}.md", result)
    return _reported(result, "nightly_backtest", {"file": dg.MetadataValue.path(page)})


def _page(workplace: Workplace, name: str, result: Backtest) -> str:
    path = workplace.settings.store.telemetry.parent / "reports" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(markdown(result), "utf-8")
    return str(path.absolute())


def _reported(result: Backtest, asset: str, more: Mapping[str, Any]) -> dg.MaterializeResult[Any]:
    """Numbers that plot, the page, and the two checks."""
    found = result.verdict
    fates = [dict(zip(FATE_HEADS, row, strict=True)) for row in fate_rows(result)[:SHOWN]]
    false = [dict(zip(FALSE_HEADS, row, strict=True)) for row in false_rows(found.new_false)[:SHOWN]]
    lost = [dict(zip(LOST_COLUMNS, row, strict=True)) for row in lost_rows(result)[:SHOWN]]
    return dg.MaterializeResult(
        metadata={
            "watched_hours": round(result.span.watched_seconds / 3600, 3), **counts(result), **savings_of(result),
            "verdict": verdict_line(result), "report": dg.MetadataValue.md(markdown(result)), **more,
            **table("not_as_it_was", FATE_HEADS, fates), **table("new_false_alarms", FALSE_HEADS, false),
            **table("what_automation_would_have_saved", LOST_COLUMNS, lost),
        },
        check_results=[_missed(result, asset), _false_pages(result, asset)],
    )  # fmt: skip


def _missed(result: Backtest, asset: str) -> dg.AssetCheckResult:
    missed = result.verdict.of("newly missed")
    names = "; ".join(f"{one.truth.cause} of {', '.join(one.truth.roots[:3])}" for one in missed[:SHOWN])
    return dg.AssetCheckResult(
        asset_key=asset, check_name=MISSED, passed=not missed, metadata={"newly_missed": len(missed)},
        description=f"newly missed: {names}" if missed else "nothing that was caught is missed",
    )  # fmt: skip


def _false_pages(result: Backtest, asset: str) -> dg.AssetCheckResult:
    pages = [one.incident for one in result.verdict.new_false if one.incident.severity == "page"]
    names = "; ".join(f"{one.cause} of {', '.join(one.roots[:3])}" for one in pages[:SHOWN])
    return dg.AssetCheckResult(
        asset_key=asset, check_name=FALSE_PAGES, passed=not pages, severity=dg.AssetCheckSeverity.WARN,
        metadata={"new_false_pages": len(pages)},
        description=f"new pages that nothing explains: {names}" if pages else "no new page without a reason",
    )  # fmt: skip
