"""Sources that restart, that stop counting, and whose clock is off: what they send beside the same without it."""

from datetime import timedelta
from functools import cache
from types import SimpleNamespace

import polars as pl
import pytest

from replay.conditions import Lie
from replay.exporters import Exporters
from replay.recording import meta_of, read_recording, write_recording
from replay.scenario import ScenarioError, parse_scenario
from replay.simulate import labels, simulate, topology_of
from schemas.tables import TABLE_BY_NAME, empty

SCENARIO = """
name = "sources"
seed = 5
starts_at = 2026-03-02T09:00:00Z
duration_seconds = 180
tables = ["gpu", "heartbeat"]
[topology.parameters]
pods = 1
superblocks_per_pod = 1
nodes_per_superblock = 2
nodes_per_leaf = 2
nodes_per_pdu = 2
nodes_per_cdu = 2
"""
RESTARTS = "fault = 'source_restarts'\nat_seconds = 50\nparameters = { every_seconds = 60, gap_seconds = 4 }"
STUCK = "fault = 'counter_stuck'\nat_seconds = 70\nlasts_seconds = 60"
TWICE = f"""
fault = 'source_restarts'
at_seconds = 20
lasts_seconds = 40
parameters = {{ every_seconds = 60, gap_seconds = 4 }}
[[fault]]
entity = 'n00001'
{RESTARTS.replace("50", "120")}"""
CLOCK = "fault = 'clock_off'\nat_seconds = 70\nparameters = { ahead_seconds = 20 }"


def scenario_with(fault):
    return parse_scenario(f"{SCENARIO}[[fault]]\nentity = 'n00001'\n{fault}" if fault else SCENARIO, "test")


@cache
def windows(fault=""):
    scenario = scenario_with(fault)
    return list(simulate(scenario, topology_of(scenario), window_seconds=45))


@cache
def energy(fault=""):
    """Seconds and joules of one GPU of the source."""
    rows = pl.concat([window.tables["gpu"] for window in windows(fault)]).filter(node="n00001", gpu=3)
    began = scenario_with(fault).starts_at
    seconds = (rows["time"] - began).dt.total_microseconds() // 1_000_000
    return dict(zip(seconds, rows["energy_joules_total"], strict=True))


def test_a_source_that_restarts_is_silent_for_the_gap_and_counts_from_zero_each_time():
    true, told = energy(), energy(RESTARTS)
    assert set(true) - set(told) == {*range(50, 54), *range(110, 114), *range(170, 174)}
    assert told[49] == true[49]
    assert told[54] == pytest.approx(true[54] - true[50])
    assert told[109] == pytest.approx(true[109] - true[50])
    assert told[179] == pytest.approx(true[179] - true[170])


def test_a_source_that_restarts_again_later_counts_from_then():
    true, told = energy(), energy(TWICE)
    assert told[59] == pytest.approx(true[59] - true[20])
    assert told[60] == true[60]
    assert told[124] == pytest.approx(true[124] - true[120])


def test_the_time_since_the_counters_were_cleared_begins_with_them():
    began = scenario_with("").starts_at
    rows = pl.DataFrame({
        "time": [began + timedelta(seconds=second) for second in (0, 30, 60, 90)], "device": "leaf-000", "port": 1,
        "transmit_bytes_total": [5000, 8000, 11_000, 14_000], "seconds_since_clear": [900.0, 930.0, 960.0, 990.0],
    })  # fmt: skip
    whole = empty(TABLE_BY_NAME["fabric_port"])
    rows = pl.concat([whole, rows], how="diagonal_relaxed").select(whole.columns)
    lie = Lie(table="fabric_port", source="leaf-000", begins=30, ends=None, readings={}, restarts_seconds=600)
    told = Exporters(began).sent("fabric_port", rows, SimpleNamespace(lies=[lie]))
    assert told["seconds_since_clear"].to_list() == [900.0, 0.0, 30.0, 60.0]
    assert told["transmit_bytes_total"].to_list() == [5000, 0, 3000, 6000]


def test_a_stuck_counter_stands_alone_and_goes_on_where_it_would_be():
    true, told = energy(), energy(STUCK)
    assert {told[second] for second in range(70, 130)} == {true[69]}
    assert (told[69], told[130]) == (true[69], true[130])
    one, other = (pl.concat([window.tables["gpu"] for window in windows(fault)]) for fault in ("", STUCK))
    assert one.drop("energy_joules_total").equals(other.drop("energy_joules_total"))


def test_all_that_a_host_sends_has_the_time_of_its_clock_and_comes_when_it_comes():
    true, told = windows(), windows(CLOCK)
    for table in ("gpu", "heartbeat"):
        off = told[2].tables[table].with_columns(arrived=told[2].arrived[table])
        assert off["arrived"].equals(true[2].tables[table]["time"].alias("arrived"))
        ahead = (off["time"] - off["arrived"]).dt.total_seconds()
        assert set(zip(off["node"], ahead, strict=True)) == {("n00000", 0), ("n00001", 20)}
    assert true[2].arrived == {}


def test_a_recording_keeps_when_rows_of_a_wrong_clock_came(tmp_path):
    scenario = scenario_with(CLOCK)
    topology = topology_of(scenario)
    write_recording(tmp_path / "r", windows(CLOCK), topology, meta_of(scenario, topology))
    read = pl.concat([window.tables["gpu"] for window in read_recording(tmp_path / "r").windows])
    assert read["time"].to_list() == pl.concat([window.tables["gpu"] for window in windows(CLOCK)])["time"].to_list()


@pytest.mark.parametrize(
    ("fault", "cause", "roots"),
    [
        (RESTARTS, "source_restarted", ["gpu:n00001"]),
        (STUCK, "counter_stuck", ["gpu:n00001"]),
        (CLOCK, "clock_skew", ["gpu:n00001", "heartbeat:n00001"]),
    ],
)
def test_the_label_names_the_source(fault, cause, roots):
    scenario = scenario_with(fault)
    label = labels(scenario, topology_of(scenario)).row(0, named=True)
    assert (label["cause"], label["root_kind"], label["roots"], label["members"]) == (cause, "source", roots, [])


@pytest.mark.parametrize(
    "fault",
    [
        "fault = 'source_restarts'\nat_seconds = 1\nparameters = { table = 'power' }",
        "fault = 'source_restarts'\nat_seconds = 1\nparameters = { every_seconds = 4, gap_seconds = 4 }",
        "fault = 'counter_stuck'\nat_seconds = 1\nparameters = { counter = 'power_watts' }",
    ],
)
def test_what_cannot_be_is_refused(fault):
    scenario = scenario_with(fault)
    with pytest.raises(ScenarioError):
        simulate(scenario, topology_of(scenario))
