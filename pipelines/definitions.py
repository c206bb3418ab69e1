"""The one Dagster code location: what there is, read top to bottom."""

from datetime import timedelta

import dagster as dg

from pipelines import checks, schedules
from pipelines.assets import ingest, models, replays, reports, segments
from pipelines.resources import workplace

FRESHNESS = {
    "hourly_segments": dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=3), warn_window=timedelta(hours=2)),
    "learned_models": dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=50), warn_window=timedelta(hours=26)),
    "reliability_report": dg.FreshnessPolicy.time_window(
        fail_window=timedelta(hours=50), warn_window=timedelta(hours=26)
    ),
    "nightly_backtest": dg.FreshnessPolicy.time_window(
        fail_window=timedelta(hours=50), warn_window=timedelta(hours=26)
    ),
}
ON_DEMAND = ("incident_replay", "settings_backtest")  # made when somebody asks
EVERY_MINUTE = dg.FreshnessPolicy.time_window(fail_window=timedelta(minutes=15), warn_window=timedelta(minutes=5))


def _kept_fresh(spec: dg.AssetSpec) -> dg.AssetSpec:
    """Everything an ingest makes is due every minute; the rest has a pace of its own, or none."""
    if spec.key.to_user_string() in ON_DEMAND:
        return spec
    return spec.replace_attributes(freshness_policy=FRESHNESS.get(spec.key.to_user_string(), EVERY_MINUTE))


defs = dg.Definitions(
    assets=dg.map_asset_specs(
        _kept_fresh,
        [
            ingest.ingest,
            segments.hourly_segments,
            reports.reliability_report,
            models.learned_models,
            replays.incident_replay,
            replays.settings_backtest,
            replays.nightly_backtest,
        ],
    ),
    asset_checks=[checks.telemetry_checks],
    jobs=[
        schedules.ingest_job,
        schedules.segments_job,
        schedules.report_job,
        schedules.models_job,
        schedules.replay_job,
        schedules.backtest_job,
        schedules.nightly_backtest_job,
    ],
    schedules=[
        schedules.ingest_every_minute,
        schedules.segments_every_hour,
        schedules.report_every_day,
        schedules.models_every_night,
        schedules.backtest_every_night,
    ],
    sensors=[
        schedules.kafka_lag_sensor,
        schedules.drop_folder_sensor,
        schedules.old_runs_sensor,
        schedules.new_incidents_sensor,
    ],
    resources={"workplace": workplace},
    # The steps of a run follow one another anyway, and a process for each would cost more than its work.
    executor=dg.in_process_executor,
)
