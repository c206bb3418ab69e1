"""The assets materialised in process: what they store, that twice is once, and that checks fail when they should."""

from dataclasses import replace
from datetime import timedelta

import dagster as dg
import pytest

from pipelines.assets.ingest import IngestConfig, ingest
from pipelines.assets.reports import reliability_report
from pipelines.assets.segments import hourly_segments
from pipelines.checks import telemetry_checks
from pipelines.settings import settings_from
from pipelines.telemetry_schema import STORED
from pipelines.workplace import Workplace
from schemas.tables import TABLE_BY_NAME
from tests.pipelines.small_scenario import SCENARIO, SOON


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "small.toml"
    path.write_text(SCENARIO)
    return str(path)


def workplace(folder):
    values = {
        "store": {
            "telemetry": str(folder / "t.duckdb"), "operations": str(folder / "o.sqlite"),
            "actions": str(folder / "a.jsonl"),
        }
    }  # fmt: skip
    return Workplace(settings=settings_from(values, "test"), clock=lambda: SOON)


def materialised(assets, place, *, source=None, partition_key=None, raise_on_error=True):
    config = dg.RunConfig(ops={} if source is None else {"ingest": IngestConfig(source=source)})
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize(
            assets, resources={"workplace": place}, instance=instance, run_config=config, partition_key=partition_key,
            raise_on_error=raise_on_error,
        )  # fmt: skip


def metadata(run, asset):
    [event] = [one for one in run.get_asset_materialization_events() if one.asset_key == dg.AssetKey([asset])]
    return {name: value.value for name, value in event.materialization.metadata.items()}


def counts(place):
    return {name: place.telemetry.query(f"select count(*) as n from {name}")["n"][0] for name, _ in STORED}


@pytest.fixture(scope="module")
def taken(tmp_path_factory, scenario):
    """A store that took the scenario in once, and that run."""
    place = workplace(tmp_path_factory.mktemp("taken"))
    return place, materialised([ingest], place, source=scenario)


def test_an_ingest_stores_rows_and_says_how_many(taken):
    place, run = taken
    # 4 nodes of 8 GPUs, one row each second for two minutes
    assert metadata(run, "gpu")["rows_taken"] == 4 * 8 * 120
    assert metadata(run, "gpu")["dagster/row_count"] == counts(place)["gpu"] == 4 * 8 * 120


def test_an_ingest_tells_lag_against_the_clock(taken):
    _, run = taken
    # the scenario ends 180 s before the clock; a row is at most half a second after its full second
    assert 180 <= metadata(run, "power")["lag_seconds"] <= 182


def test_an_ingest_opens_the_incident_and_counts_its_cause(taken):
    place, run = taken
    assert metadata(run, "findings")["cause_coolant_pump_failure"] == 1
    assert metadata(run, "incidents")["open"] == 1
    with place.operations() as operations:
        assert [(one.cause, one.roots) for one in operations.incidents()] == [("coolant_pump_failure", ("cdu-00",))]


def test_every_asset_of_an_ingest_is_materialised(taken):
    _, run = taken
    assert {event.asset_key for event in run.get_asset_materialization_events()} == set(ingest.keys)


def test_taking_the_same_source_in_again_changes_nothing(tmp_path, scenario):
    place = workplace(tmp_path)
    materialised([ingest], place, source=scenario)
    before, findings = counts(place), place.telemetry.query("select * from findings order by all")
    again = materialised([ingest], place, source=scenario)
    assert counts(place) == before
    assert place.telemetry.query("select * from findings order by all").equals(findings)
    assert metadata(again, "gpu")["rows_taken"] == 0


def test_a_source_that_does_not_exist_fails_the_run_with_one_line(tmp_path):
    run = materialised([ingest], workplace(tmp_path), source="no_such_thing", raise_on_error=False)
    [failure] = run.filter_events(lambda event: event.is_step_failure)
    said = failure.step_failure_data.user_failure_data.description
    assert "no_such_thing" in said
    assert "\n" not in said


def checked(place):
    """(table, kind) -> evaluation."""
    with dg.DagsterInstance.ephemeral() as instance:
        job = dg.Definitions(
            asset_checks=[telemetry_checks], assets=[ingest], resources={"workplace": place},
            jobs=[dg.define_asset_job("checks", selection=dg.AssetSelection.checks(telemetry_checks))],
        ).resolve_job_def("checks")  # fmt: skip
        result = job.execute_in_process(instance=instance)
    return {(one.asset_key.to_user_string(), one.check_name): one for one in result.get_asset_check_evaluations()}


@pytest.fixture
def filled(tmp_path, scenario):
    place = workplace(tmp_path)
    materialised([ingest], place, source=scenario)
    return place


def failed(place):
    return {key for key, evaluation in checked(place).items() if not evaluation.passed}


def test_all_checks_pass_after_an_ingest(taken):
    place, _ = taken
    evaluations = checked(place)
    assert len(evaluations) == len(TABLE_BY_NAME) * 4
    assert {key for key, one in evaluations.items() if not one.passed} == set()


def test_a_row_that_is_there_twice_fails_its_check(filled):
    with filled.telemetry.connected() as connection:
        connection.execute("insert into live.power select * from live.power order by time desc limit 1")
    assert failed(filled) == {("power", "unique_rows")}


def test_a_row_out_of_range_fails_its_check(filled):
    with filled.telemetry.connected() as connection:
        connection.execute(
            "update live.coolant_loop set supply_celsius = 5000 where time = (select max(time) from live.coolant_loop)"
        )
    assert failed(filled) == {("coolant_loop", "ranges")}


def test_a_column_of_another_type_fails_its_check(filled):
    with filled.telemetry.connected() as connection:
        connection.execute("drop view main.heartbeat")
        connection.execute("create view main.heartbeat as select * replace (step::varchar as step) from live.heartbeat")
    assert ("heartbeat", "schema") in failed(filled)


def test_old_newest_events_warn_for_sampled_tables_and_never_for_events(taken):
    place, _ = taken
    later = replace(place, clock=lambda: SOON + timedelta(hours=1))
    evaluations = checked(later)
    old = {table for (table, kind), one in evaluations.items() if kind == "newest_event" and not one.passed}
    sampled = {name for name, table in TABLE_BY_NAME.items() if table.interval_seconds is not None}
    assert old == sampled
    assert {one.severity for one in evaluations.values() if not one.passed} == {dg.AssetCheckSeverity.WARN}


def test_hourly_segments_seal_closed_hours_and_lose_no_row(filled):
    before = counts(filled)
    later = replace(filled, clock=lambda: SOON + timedelta(hours=1))
    run = materialised([hourly_segments], later)
    assert metadata(run, "hourly_segments")["rows_sealed"] == sum(before.values())
    assert counts(filled) == before
    assert metadata(materialised([hourly_segments], later), "hourly_segments")["segments"] == 0


def test_the_open_hour_stays_live(filled):
    run = materialised([hourly_segments], filled)
    assert metadata(run, "hourly_segments")["segments"] == 0


def test_the_report_of_a_day_counts_its_incidents_and_watched_hours(taken):
    place, _ = taken
    run = materialised([reliability_report], place, partition_key="2026-03-02")
    told = metadata(run, "reliability_report")
    # 32 GPUs heard in each of two minutes
    assert told["gpus"] == 32
    assert told["gpu_hours_watched"] == pytest.approx(32 * 2 / 60)
    assert told["incidents"] == 1
    assert "coolant_pump_failure" in told["report"]


def test_the_report_of_an_empty_day_says_nothing_was_watched(taken):
    place, _ = taken
    told = metadata(materialised([reliability_report], place, partition_key="2026-02-01"), "reliability_report")
    assert told["gpus"] == 0
    assert told["incidents"] == 0
    assert "availability" not in told
