"""The code location: what is in it, how it hangs together, and that everything on it is watched."""

import dagster as dg
import pytest

from pipelines.definitions import ON_DEMAND, defs
from schemas.tables import TABLES

TELEMETRY = {table.name for table in TABLES}


@pytest.fixture(scope="module")
def graph():
    return defs.resolve_asset_graph()


def key(name):
    return dg.AssetKey([name])


def test_the_code_location_loads():
    dg.Definitions.validate_loadable(defs)


def test_assets_are_the_tables_and_what_is_made_of_them(graph):
    made = {
        "quarantine",
        "late",
        "telemetry_health",
        "findings",
        "incidents",
        "actions",
        "hourly_segments",
        "learned_models",
        "reliability_report",
        "incident_replay",
        "settings_backtest",
        "nightly_backtest",
    }
    assert {found.to_user_string() for found in graph.get_all_asset_keys()} == TELEMETRY | made


@pytest.mark.parametrize(
    ("asset", "parents"),
    [
        ("findings", TELEMETRY),
        ("incidents", {"findings"}),
        ("actions", {"incidents"}),
        ("hourly_segments", TELEMETRY | {"quarantine", "late", "telemetry_health", "findings"}),
        ("reliability_report", {"incidents", "actions", "gpu"}),
        ("learned_models", {"coolant_loop", "power"}),
        ("nightly_backtest", TELEMETRY | {"findings", "incidents"}),
    ],
)
def test_lineage_goes_from_tables_over_findings_to_actions(graph, asset, parents):
    assert {parent.to_user_string() for parent in graph.get(key(asset)).parent_keys} == parents


def test_every_asset_has_a_group_a_description_and_unless_it_is_made_on_demand_a_freshness_policy(graph):
    for found in graph.get_all_asset_keys():
        node = graph.get(found)
        assert node.group_name not in (None, "default"), found
        assert node.description, found
        assert (node.freshness_policy is None) == (found.to_user_string() in ON_DEMAND), found


def test_every_telemetry_table_has_four_checks_and_whatever_is_judged_again_two(graph):
    kinds = {"schema", "ranges", "unique_rows", "newest_event"}
    again = {"incident_replay", "settings_backtest", "nightly_backtest"}
    assert {(check.asset_key.to_user_string(), check.name) for check in graph.asset_check_keys} == {
        *((table, kind) for table in TELEMETRY for kind in kinds),
        *((asset, kind) for asset in again for kind in ("nothing_newly_missed", "no_new_false_pages")),
    }


def test_whatever_holds_the_duckdb_file_takes_its_turn_in_one_pool_and_long_reads_do_in_another():
    pools = {
        node.name: getattr(node, "pool", None) for job in defs.resolve_all_job_defs() for node in job.graph.node_defs
    }
    assert pools == dict.fromkeys(
        ["ingest", "telemetry_checks", "hourly_segments", "learned_models", "reliability_report"], "telemetry_store"
    ) | dict.fromkeys(["incident_replay", "settings_backtest", "nightly_backtest"], "backtest")


def test_schedules_and_sensors_are_on_by_themselves():
    repository = defs.get_repository_def()
    assert {one.name: one.default_status for one in repository.schedule_defs} == dict.fromkeys(
        [
            "ingest_every_minute",
            "segments_every_hour",
            "report_every_day",
            "models_every_night",
            "backtest_every_night",
        ],
        dg.DefaultScheduleStatus.RUNNING,
    )
    assert {one.name: one.default_status for one in repository.sensor_defs} == dict.fromkeys(
        ["kafka_lag", "drop_folder", "old_runs", "new_incidents"], dg.DefaultSensorStatus.RUNNING
    )
