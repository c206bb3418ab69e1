"""When runs are asked for. Everything in process: ticks are evaluated by hand."""

from dataclasses import replace
from datetime import UTC, datetime

import dagster as dg
import pytest

from pipelines.definitions import defs
from pipelines.lease import ingesting
from pipelines.schedules import (
    backtest_every_night,
    drop_folder_sensor,
    ingest_every_minute,
    ingest_job,
    kafka_lag_sensor,
    old_runs_sensor,
    report_every_day,
)
from pipelines.settings import settings_from
from pipelines.workplace import Workplace


@pytest.fixture
def place(tmp_path):
    values = {
        "store": {"telemetry": str(tmp_path / "t.duckdb"), "operations": str(tmp_path / "o.sqlite")},
        "dagster": {"drop_folder": str(tmp_path / "drop")},
    }
    return Workplace(settings=settings_from(values, "test"))


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as found:
        yield found


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """An instance on disk: the context of a schedule takes no other."""
    with dg.instance_for_test(temp_dir=str(tmp_path_factory.mktemp("dagster"))) as found:
        yield found


def ticked(schedule, instance, at, place=None):
    repository = defs.get_repository_def()
    context = dg.build_schedule_context(
        instance=instance, repository_def=repository, scheduled_execution_time=at, resources={"workplace": place}
    )
    return schedule.evaluate_tick(context)


def tick(sensor, place, instance, cursor=None):
    """(requests, skip message, cursor) of one evaluation."""
    context = dg.build_sensor_context(instance=instance, cursor=cursor, resources={"workplace": place})
    data = sensor.evaluate_tick(context)
    return data.run_requests or [], data.skip_message, data.cursor


def test_the_schedule_steps_aside_while_serve_ingests(kept, place):
    with place.operations() as operations, ingesting(operations, "serve"):
        data = ticked(ingest_every_minute, kept, datetime(2026, 3, 2, 9, tzinfo=UTC), place)
    assert not data.run_requests
    assert data.skip_message.startswith("serve@")


def source_of(request):
    return request.run_config["ops"]["ingest"]["config"]["source"]


def test_the_ingest_schedule_asks_for_the_scheduled_source(kept, place):
    at = datetime(2026, 3, 2, 8, 1, tzinfo=UTC)
    data = ticked(ingest_every_minute, kept, at, place)
    assert [source_of(request) for request in data.run_requests] == ["scheduled"]


def test_the_ingest_schedule_waits_for_an_ingest_that_is_under_way(kept, place):
    job = defs.resolve_job_def(ingest_job.name)
    run = kept.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    at = datetime(2026, 3, 2, 8, 1, tzinfo=UTC)
    data = ticked(ingest_every_minute, kept, at, place)
    kept.delete_run(run.run_id)
    assert not data.run_requests
    assert "still ingests" in data.skip_message


@pytest.mark.parametrize("schedule", [report_every_day, backtest_every_night])
def test_the_daily_report_and_the_nightly_backtest_are_about_yesterday(kept, schedule):
    at = datetime(2026, 3, 3, 0, 50, tzinfo=UTC)
    data = ticked(schedule, kept, at)
    assert [request.partition_key for request in data.run_requests] == ["2026-03-02"]


def test_without_a_broker_the_kafka_sensor_skips_and_says_why(place, instance):
    nowhere = place.settings.kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    away = replace(place, settings=place.settings.model_copy(update={"kafka": nowhere}))
    requests, skipped, _ = tick(kafka_lag_sensor, away, instance)
    assert requests == []
    assert "127.0.0.1:1" in skipped


def test_an_empty_drop_folder_asks_for_nothing(place, instance):
    requests, skipped, _ = tick(drop_folder_sensor, place, instance)
    assert requests == []
    assert "nothing in" in skipped


def test_what_is_put_into_the_drop_folder_is_taken_once_it_has_stopped_changing(place, instance):
    folder = place.settings.dagster.drop_folder / "monday"
    folder.mkdir(parents=True)
    (folder / "recording.toml").write_text("name = 'monday'")
    requests, skipped, cursor = tick(drop_folder_sensor, place, instance)
    assert requests == []
    assert "may still be changing" in skipped
    (folder / "gpu.parquet").write_bytes(b"the first half")
    requests, _, cursor = tick(drop_folder_sensor, place, instance, cursor)
    assert requests == []
    requests, _, cursor = tick(drop_folder_sensor, place, instance, cursor)
    assert [source_of(request) for request in requests] == [str(folder)]


def test_the_drop_folder_asks_with_one_key_for_one_state_of_an_entry(place, instance):
    place.settings.dagster.drop_folder.mkdir(parents=True)
    capture = place.settings.dagster.drop_folder / "n00012.csv"
    capture.write_text("timestamp, index\n")
    _, _, cursor = tick(drop_folder_sensor, place, instance)
    keys = set()
    for _ in range(3):
        requests, _, cursor = tick(drop_folder_sensor, place, instance, cursor)
        keys |= {request.run_key for request in requests}
    assert len(keys) == 1
    capture.write_text("timestamp, index\n2026/03/02 08:00:00.000, 0\n")
    for _ in range(2):
        requests, _, cursor = tick(drop_folder_sensor, place, instance, cursor)
        keys |= {request.run_key for request in requests}
    assert len(keys) == 2


def test_hidden_files_and_folders_that_are_no_recordings_are_left_alone(place, instance):
    folder = place.settings.dagster.drop_folder
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "todo.txt").write_text("call the vendor")
    (folder / ".upload.part").write_text("half")
    _, skipped, _ = tick(drop_folder_sensor, place, instance)
    assert "nothing in" in skipped


def test_finished_runs_are_forgotten_after_the_days_of_the_setting_and_no_earlier(place, instance):
    job = defs.resolve_job_def(ingest_job.name)
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.SUCCESS)
    tick(old_runs_sensor, place, instance)
    assert instance.get_run_by_id(run.run_id) is not None
    later = replace(place, clock=lambda: datetime(2100, 1, 1, tzinfo=UTC))
    tick(old_runs_sensor, later, instance)
    assert instance.get_run_by_id(run.run_id) is None
