"""When things run: the clock, unread Kafka messages, and what is put into the drop folder."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import dagster as dg
import msgspec

from pipelines import operations_database
from pipelines.assets.ingest import IngestConfig, ingest
from pipelines.assets.models import learned_models
from pipelines.assets.replays import INCIDENTS, INCIDENTS_NAME, incident_replay, nightly_backtest, settings_backtest
from pipelines.assets.reports import reliability_report
from pipelines.assets.segments import hourly_segments
from pipelines.counterfactual import fired
from pipelines.drop_folder import entries
from pipelines.operations_store import OperationsStore
from pipelines.sources.choose import topic_formats
from pipelines.sources.contract import SourceError
from pipelines.sources.kafka_lag import kafka_lag
from pipelines.telemetry_store import StoreUnavailable
from pipelines.workplace import SCHEDULED, Workplace

PENDING = [
    dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]  # fmt: skip
FORGOTTEN_AT_ONCE = 200
INCIDENTS_OFFERED = 1000  # the newest; the UI lists them one below the other
# Everything a run says is in the UI; the terminal of `make ui` stays quiet.
QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}

ingest_job = dg.define_asset_job(
    "ingest_job", selection=dg.AssetSelection.assets(ingest),
    description="One pass over a source (run configuration), then the checks of every telemetry table.",
)  # fmt: skip
segments_job = dg.define_asset_job(
    "segments_job", selection=dg.AssetSelection.assets(hourly_segments), config={"loggers": QUIET},
    description="Seals closed hours; drops the oldest.",
)  # fmt: skip
report_job = dg.define_asset_job(
    "report_job", selection=dg.AssetSelection.assets(reliability_report), config={"loggers": QUIET},
    description="The reliability report of a day.",
)  # fmt: skip

models_job = dg.define_asset_job(
    "models_job", selection=dg.AssetSelection.assets(learned_models), config={"loggers": QUIET},
    description="What is normal, learned from the last day.",
)  # fmt: skip
replay_job = dg.define_asset_job(
    "replay_job", selection=dg.AssetSelection.assets(incident_replay), config={"loggers": QUIET},
    description="An incident (the partition) judged again under chosen settings (run configuration).",
)  # fmt: skip
backtest_job = dg.define_asset_job(
    "backtest_job", selection=dg.AssetSelection.assets(settings_backtest), config={"loggers": QUIET},
    description="Chosen settings (run configuration) against the current ones, up to an incident (the partition).",
)  # fmt: skip
nightly_backtest_job = dg.define_asset_job(
    "nightly_backtest_job", selection=dg.AssetSelection.assets(nightly_backtest), config={"loggers": QUIET},
    description="A day under the current settings, against what was decided at the time.",
)  # fmt: skip


def taking(source: str) -> dg.RunConfig:
    """Run configuration of ingest_job for a source."""
    return dg.RunConfig(ops={"ingest": IngestConfig(source=source)}, loggers=QUIET)


@dg.schedule(
    job=ingest_job, cron_schedule="* * * * *", default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Every minute: takes what is new from the scheduled source, unless an ingest is still under way.",
)  # fmt: skip
def ingest_every_minute(
    context: dg.ScheduleEvaluationContext, workplace: dg.ResourceParam[Workplace]
) -> dg.RunRequest | dg.SkipReason:
    pending = context.instance.get_run_records(dg.RunsFilter(job_name=ingest_job.name, statuses=PENDING), limit=1)
    if pending:
        return dg.SkipReason(f"run {pending[0].dagster_run.run_id[:8]} still ingests")
    if holder := workplace.ingested_by():
        return dg.SkipReason(f"{holder} ingests; a run would only be refused")
    return dg.RunRequest(run_config=taking(SCHEDULED))


segments_every_hour = dg.ScheduleDefinition(
    name="segments_every_hour", job=segments_job, cron_schedule="7 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING, description="Seven minutes past every hour.",
)  # fmt: skip

models_every_night = dg.ScheduleDefinition(
    name="models_every_night", job=models_job, cron_schedule="40 0 * * *", execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING, description="Twenty to one UTC: from the last 24 hours.",
)  # fmt: skip


def _yesterday(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """Not Dagster's latest partition: with the running day among them, that one would be today."""
    day = context.scheduled_execution_time - timedelta(days=1)
    return dg.RunRequest(partition_key=f"{day:%Y-%m-%d}")


report_every_day = dg.ScheduleDefinition(
    name="report_every_day", job=report_job, cron_schedule="15 0 * * *", execution_timezone="UTC",
    execution_fn=_yesterday, default_status=dg.DefaultScheduleStatus.RUNNING,
    description="A quarter past midnight UTC: yesterday's report.",
)  # fmt: skip

backtest_every_night = dg.ScheduleDefinition(
    name="backtest_every_night", job=nightly_backtest_job, cron_schedule="50 0 * * *", execution_timezone="UTC",
    execution_fn=_yesterday, default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Ten to one UTC: yesterday, judged again.",
)  # fmt: skip


@dg.sensor(
    name="new_incidents", minimum_interval_seconds=60, default_status=dg.DefaultSensorStatus.RUNNING,
    description="Each of the newest incidents is a partition of replay_job and backtest_job.",
)  # fmt: skip
def new_incidents_sensor(
    context: dg.SensorEvaluationContext, workplace: dg.ResourceParam[Workplace]
) -> dg.SensorResult | dg.SkipReason:
    try:
        store = OperationsStore.open(workplace.settings.store.operations, create=False, busy_seconds=1.0)
    except operations_database.StoreUnavailable as away:
        return dg.SkipReason(str(away))
    try:
        newest = fired(store.incidents(limit=INCIDENTS_OFFERED))
    except operations_database.StoreUnavailable as away:
        return dg.SkipReason(str(away))
    finally:
        store.close()
    known = set(context.instance.get_dynamic_partitions(INCIDENTS_NAME))
    wanted = {incident.id for incident in newest}
    new, old = [one.id for one in newest if one.id not in known], sorted(known - wanted)
    return dg.SensorResult(
        dynamic_partitions_requests=[
            *([INCIDENTS.build_add_request(new)] if new else []),
            *([INCIDENTS.build_delete_request(old)] if old else []),
        ],
        skip_reason=f"{len(new)} incidents are new, {len(old)} are no longer offered",
    )


@dg.sensor(
    name="kafka_lag", job=ingest_job, minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts an ingest from Kafka as soon as many messages wait. Asks for seconds at most, reads none.",
)  # fmt: skip
def kafka_lag_sensor(
    context: dg.SensorEvaluationContext, workplace: dg.ResourceParam[Workplace]
) -> dg.RunRequest | dg.SkipReason:
    settings = workplace.settings
    if holder := workplace.ingested_by():
        return dg.SkipReason(f"{holder} ingests; a run would only be refused")
    store = replace(workplace.telemetry, busy_seconds=1.0)
    try:
        stored = store.offsets("kafka") if store.path.exists() else {}
        lag = kafka_lag(settings.kafka, topic_formats(settings), stored)
    except (SourceError, StoreUnavailable) as away:
        return dg.SkipReason(str(away))
    waiting = sum(lag.values())
    if waiting < settings.dagster.lag_messages_minimum:
        return dg.SkipReason(
            f"{waiting} messages wait in {len(lag)} topics; {settings.dagster.lag_messages_minimum} start a run"
        )
    if context.instance.get_run_records(dg.RunsFilter(job_name=ingest_job.name, statuses=PENDING), limit=1):
        return dg.SkipReason(f"{waiting} messages wait, and an ingest is under way")
    return dg.RunRequest(run_config=taking("kafka"), tags={"kafka_lag_messages": str(waiting)})


@dg.sensor(
    name="drop_folder", job=ingest_job, minimum_interval_seconds=15, default_status=dg.DefaultSensorStatus.RUNNING,
    description="Ingests each recording folder, and each file in a known format, once it has stopped changing.",
)  # fmt: skip
def drop_folder_sensor(
    context: dg.SensorEvaluationContext, workplace: dg.ResourceParam[Workplace]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    folder = workplace.settings.dagster.drop_folder
    before: dict[str, str] = msgspec.json.decode(context.cursor, type=dict[str, str]) if context.cursor else {}
    found = entries(folder)
    settled = [path for path, mark in found.items() if before.get(path) == mark]
    context.update_cursor(msgspec.json.encode(found).decode())
    if not found:
        yield dg.SkipReason(f"nothing in {folder}: put a recording folder or a file in a known format there")
    elif not settled:
        yield dg.SkipReason(f"{len(found)} entries of {folder} may still be changing")
    # The same key never starts a second run, however often the sensor looks.
    for path in settled:
        yield dg.RunRequest(run_key=f"{path}#{found[path]}", run_config=taking(path))


@dg.sensor(
    name="old_runs", minimum_interval_seconds=600, default_status=dg.DefaultSensorStatus.RUNNING,
    description="Forgets finished ingest runs older than dagster.keep_runs_days: 1,440 a day would fill the disk.",
)  # fmt: skip
def old_runs_sensor(context: dg.SensorEvaluationContext, workplace: dg.ResourceParam[Workplace]) -> dg.SkipReason:
    before = workplace.clock() - timedelta(days=workplace.settings.dagster.keep_runs_days)
    finished = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    old = dg.RunsFilter(job_name=ingest_job.name, statuses=finished, created_before=before)
    records = context.instance.get_run_records(old, limit=FORGOTTEN_AT_ONCE, ascending=True)
    for record in records:
        context.instance.delete_run(record.dagster_run.run_id)
    return dg.SkipReason(f"forgot {len(records)} runs from before {before:%Y-%m-%d %H:%M} UTC")
