"""Replay and backtest as assets: what was decided then against what is decided now, in process."""

import dagster as dg
import pytest

from pipelines.assets.ingest import IngestConfig, ingest
from pipelines.assets.replays import (
    INCIDENTS,
    BacktestConfig,
    ReplayConfig,
    incident_replay,
    nightly_backtest,
    settings_backtest,
)
from pipelines.schedules import new_incidents_sensor
from pipelines.settings import settings_from
from pipelines.workplace import Workplace
from tests.pipelines.small_scenario import BLIND, SCENARIO, SOON

KEPT, QUIET = "nothing_newly_missed", "no_new_false_pages"


def place_in(folder, **detectors):
    values = {
        "store": {
            "telemetry": str(folder / "t.duckdb"), "operations": str(folder / "o.sqlite"),
            "actions": str(folder / "a.jsonl"),
        },
        "detectors": detectors,
    }  # fmt: skip
    return Workplace(settings=settings_from(values, "test"), clock=lambda: SOON)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The stores of one stopped pump."""
    made = tmp_path_factory.mktemp("stores")
    (made / "small.toml").write_text(SCENARIO)
    with dg.DagsterInstance.ephemeral() as instance:
        config = dg.RunConfig(ops={"ingest": IngestConfig(source=str(made / "small.toml"))})
        dg.materialize([ingest], resources={"workplace": place_in(made)}, instance=instance, run_config=config)
    return made


@pytest.fixture(scope="module")
def place(folder):
    return place_in(folder)


@pytest.fixture(scope="module")
def incident(place):
    with place.operations() as operations:
        (found,) = operations.incidents()
    return found


def made(asset, place, key, config=None, *, raise_on_error=True):
    ops = {} if config is None else {asset.op.name: config}
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(INCIDENTS.name, [key])
        return dg.materialize(
            [asset], resources={"workplace": place}, instance=instance, partition_key=key,
            run_config=dg.RunConfig(ops=ops), raise_on_error=raise_on_error,
        )  # fmt: skip


def told(run):
    (event,) = run.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def passed(run):
    return {one.check_name: one.passed for one in run.get_asset_check_evaluations()}


def test_a_night_under_the_settings_of_the_time_misses_nothing(place):
    run = made(nightly_backtest, place, "2026-03-02")
    assert passed(run) == {KEPT: True, QUIET: True}
    assert {name: told(run)[name] for name in ("true_incidents", "caught", "newly_missed", "minutes_earlier")} == {
        "true_incidents": 1, "caught": 1, "newly_missed": 0, "minutes_earlier": 0.0,
    }  # fmt: skip
    assert told(run)["watched_hours"] == pytest.approx(120 / 3600, abs=0.001)


def test_a_threshold_that_makes_an_incident_vanish_fails_the_check_of_the_night(folder):
    blind = {"coolant.pump_failure": {"flow_drop": 0.99, "pump_drop": 0.99, "power_drop": 0.99}}
    run = made(nightly_backtest, place_in(folder, **blind), "2026-03-02")
    assert not passed(run)[KEPT]
    assert told(run)["newly_missed"] == 1
    (check,) = [one for one in run.get_asset_check_evaluations() if one.check_name == KEPT]
    assert "coolant_pump_failure of cdu-00" in check.description


def test_a_night_of_which_nothing_is_stored_is_no_failure(place):
    run = made(nightly_backtest, place, "2026-02-01")
    assert passed(run) == {KEPT: True, QUIET: True}
    assert told(run)["watched_hours"] == 0.0


def test_an_incident_is_replayed_under_settings_written_into_the_run_configuration(place, incident):
    run = made(incident_replay, place, incident.id, ReplayConfig(settings=BLIND))
    assert told(run)["result"] == "newly missed"
    assert "coolant.pump_failure" in told(run)["because_of"]


def test_chosen_settings_stand_against_the_current_ones(place, incident, tmp_path):
    path = tmp_path / "other.toml"
    path.write_text(BLIND)
    run = made(settings_backtest, place, incident.id, BacktestConfig(settings=str(path), days=0.5))
    assert told(run)["newly_missed"] == 1
    assert "detectors.coolant.pump_failure.flow_drop: 0.3 -> 0.99" in told(run)["report"]


def test_a_typo_in_the_settings_of_a_run_is_its_one_line(place, incident):
    typo = ReplayConfig(settings='[detectors."coolant.pump_failure"]\nflow_drp = 0.5')
    run = made(incident_replay, place, incident.id, typo, raise_on_error=False)
    (failure,) = run.filter_events(lambda event: event.is_step_failure)
    said = failure.step_failure_data.user_failure_data.description
    assert "did you mean 'flow_drop'" in said
    assert "\n" not in said


def test_each_incident_becomes_a_partition_once_and_goes_with_its_store(place, incident, tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(INCIDENTS.name, ["inc-of-another-store"])
        context = dg.build_sensor_context(instance=instance, resources={"workplace": place})
        added, removed = new_incidents_sensor.evaluate_tick(context).dynamic_partitions_requests
        assert list(added.partition_keys) == [incident.id]
        assert list(removed.partition_keys) == ["inc-of-another-store"]
        instance.add_dynamic_partitions(INCIDENTS.name, [incident.id])
        instance.delete_dynamic_partition(INCIDENTS.name, "inc-of-another-store")
        assert not new_incidents_sensor.evaluate_tick(context).dynamic_partitions_requests
        away = dg.build_sensor_context(instance=instance, resources={"workplace": place_in(tmp_path)})
        assert "no such file" in new_incidents_sensor.evaluate_tick(away).skip_message
