"""What the faults of plates, valves, loops and circuits do to the rows, by physics arithmetic."""

from datetime import timedelta
from functools import cache

import polars as pl
import pytest

from replay.scenario import load_scenario
from replay.simulate import labels, simulate, topology_of


@cache
def told(name):
    scenario = load_scenario(name)
    windows = list(simulate(scenario, topology_of(scenario)))
    tables = ("gpu", "cold_plate", "coolant_loop", "power")
    return {table: pl.concat([window.tables[table] for window in windows]) for table in tables}


def mean(name, table, column, since, until, **entity):
    began = load_scenario(name).starts_at
    rows = told(name)[table].filter(
        pl.col("time").is_between(began + timedelta(seconds=since), began + timedelta(seconds=until)), **entity
    )
    return rows[column].mean()


def truth(name):
    scenario = load_scenario(name)
    return labels(scenario, topology_of(scenario)).row(0, named=True)


def test_a_clogged_plate_makes_its_gpu_warmer_and_throttles_nobody():
    gpu = {"node": "n00003", "gpu": 1}
    before, after = (
        mean("cold_plate_clogged", "gpu", "temperature_celsius", *at, **gpu) for at in ((0, 180), (400, 600))
    )
    assert 3 < after - before < 10
    assert told("cold_plate_clogged")["gpu"].filter(pl.col("clocks_event_reasons") & 0x68 != 0).is_empty()


def test_a_valve_half_closed_halves_the_flow_of_its_branch_and_doubles_its_rise():
    plate = {"node": "n00002", "gpu": 5}
    flows = [mean("valve_stuck", "cold_plate", "flow_liters_per_minute", *at, **plate) for at in ((0, 180), (300, 480))]
    rises = [
        mean("valve_stuck", "cold_plate", "outlet_celsius", *at, **plate)
        - mean("valve_stuck", "cold_plate", "inlet_celsius", *at, **plate)
        for at in ((0, 180), (300, 480))
    ]
    assert flows[1] / flows[0] == pytest.approx(0.5, abs=0.02)
    assert rises[1] / rises[0] == pytest.approx(2.0, abs=0.1)


def test_controlled_valves_follow_the_power_and_the_stuck_one_does_not():
    plates = told("valve_not_following")["cold_plate"].filter(
        pl.col("time") > load_scenario("valve_not_following").starts_at + timedelta(seconds=400)
    )
    stuck = (pl.col("node") == "n00006") & (pl.col("gpu") == 2)
    assert plates.filter(stuck)["valve_percent"].unique().to_list() == [100.0]
    # 400 W of 92 to 682: 0.52 of the way from 30 to 100 %
    assert plates.filter(~stuck)["valve_percent"].median() == pytest.approx(30 + 70 * 0.52, abs=3)
    assert truth("valve_not_following")["cause"] == "valve_stuck"


def test_air_makes_flow_and_pressure_tremble_and_hardly_moves_their_means():
    loops = told("coolant_air")["coolant_loop"].filter(cdu="cdu-00").with_columns(
        head=pl.col("supply_pressure_kpa") - pl.col("return_pressure_kpa")
    )  # fmt: skip
    calm, shaken = loops[10:170], loops[220:400]
    for column in ("flow_liters_per_minute", "head"):
        assert shaken[column].std() > 4 * calm[column].std()
    assert shaken["flow_liters_per_minute"].mean() / calm["flow_liters_per_minute"].mean() == pytest.approx(
        0.95, abs=0.01
    )


def test_a_flow_meter_that_drifts_shows_less_while_nothing_gets_warmer():
    loop = {"cdu": "cdu-01"}
    flows = [
        mean("flow_meter_drift", "coolant_loop", "flow_liters_per_minute", *at, **loop) for at in ((0, 300), (500, 900))
    ]
    rises = [
        mean("flow_meter_drift", "coolant_loop", "return_celsius", *at, **loop)
        - mean("flow_meter_drift", "coolant_loop", "supply_celsius", *at, **loop)
        for at in ((0, 300), (500, 900))
    ]
    assert flows[1] / flows[0] == pytest.approx(0.8, abs=0.01)
    assert rises[1] == pytest.approx(rises[0], abs=0.2)


def test_a_circuit_is_rated_for_its_nodes_at_their_most():
    # 4 nodes of 10.2 kW at 415 V, power factor 0.98: 57.9 A per phase
    assert set(told("breaker_overload")["power"]["rated_amps"]) == {58.0}
    assert mean("breaker_overload", "power", "amps", 0, 170, pdu="pdu-001") < 58.0
    assert mean("breaker_overload", "power", "amps", 200, 400, pdu="pdu-001") > 1.25 * 58.0
