from datetime import timedelta
from functools import cache

import polars as pl
import pytest

from replay.scenario import load_scenario
from replay.simulate import labels, simulate, topology_of
from schemas.admission import admit
from schemas.tables import TABLE_BY_NAME


@cache
def told():
    scenario = load_scenario("odd_but_healthy")
    windows = list(simulate(scenario, topology_of(scenario)))
    return {table: pl.concat([window.tables[table] for window in windows]) for table in TABLE_BY_NAME}


def between(table, first, last):
    begin = load_scenario("odd_but_healthy").starts_at
    inside = pl.col("time").is_between(begin + timedelta(seconds=first), begin + timedelta(seconds=last), closed="left")
    return told()[table].filter(inside)


def test_what_is_odd_has_no_label():
    scenario = load_scenario("odd_but_healthy")
    assert labels(scenario, topology_of(scenario)).is_empty()


@pytest.mark.parametrize("name", TABLE_BY_NAME)
def test_every_row_is_admitted(name):
    assert admit(TABLE_BY_NAME[name], told()[name]).quarantined.is_empty()


def test_a_drain_is_announced_and_the_job_restarts_without_the_host():
    (planned,) = told()["maintenance"].iter_rows(named=True)
    gone = between("heartbeat", 605, 1200).filter(node="n00010")
    (restart,) = told()["job_event"].filter(kind="restart").iter_rows(named=True)
    assert planned["announced_at"] < planned["starts_at"] < restart["time"]
    assert (planned["kind"], planned["id"]) == ("node", "n00010")
    assert gone.is_empty()
    assert restart["ranks"] == len(restart["members"]) == (31 - 1) * 8
    assert not any(member.startswith("n00010/") for member in restart["members"])


def test_a_spare_idles_and_does_not_beat():
    assert told()["heartbeat"].filter(node="n00031").is_empty()
    spare = told()["gpu"].filter(node="n00031")
    assert spare["power_watts"].max() < 120
    assert set(spare["clocks_event_reasons"]) == {1}


def test_warmer_water_warms_supply_and_gpus_alike():
    before, later = between("coolant_loop", 250, 300).mean(), between("coolant_loop", 550, 600).mean()
    assert later["supply_celsius"][0] - before["supply_celsius"][0] == pytest.approx(3.0, abs=0.3)
    cool, warm = between("gpu", 250, 300).mean(), between("gpu", 550, 600).mean()
    assert warm["temperature_celsius"][0] - cool["temperature_celsius"][0] == pytest.approx(3.0, abs=0.5)


def test_a_power_cap_lowers_power_and_clock_and_stretches_the_step():
    capped, usual = between("gpu", 900, 1050).filter(pl.col("node") < "n00010"), between("gpu", 700, 790)
    assert capped["power_watts"].max() < 610  # its gauge is noisy
    assert capped["sm_clock_megahertz"].median() < usual["sm_clock_megahertz"].median()
    steps = between("heartbeat", 900, 1050)["step_seconds"], between("heartbeat", 700, 790)["step_seconds"]
    assert steps[0].mean() > 1.05 * steps[1].mean()


def test_few_samples_are_lost():
    beats = told()["heartbeat"].filter(node="n00000", gpu=0).height
    assert 1190 <= beats <= 1200
    assert told()["heartbeat"].height < 1200 * 31 * 8
