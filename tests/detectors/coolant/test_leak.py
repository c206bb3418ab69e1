"""Timelines at 1 Hz of one loop: 80 % level, 150 kPa before the pumps, 300 kPa after them."""

from datetime import UTC, datetime, timedelta

import polars as pl

from detectors.contract import Context
from detectors.coolant.leak import CoolantLeak
from schemas.coolant import CoolantLoop
from schemas.job import Maintenance
from schemas.tables import TABLE_BY_NAME
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, topology_from_frames

BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
TOPOLOGY = topology_from_frames("none", pl.DataFrame(schema=NODE_COLUMNS), pl.DataFrame(schema=LINK_COLUMNS))
HEALTHY = {
    "level_percent": 80.0, "supply_celsius": 35.0, "return_celsius": 45.0, "return_pressure_kpa": 150.0,
    "supply_pressure_kpa": 300.0, "flow_liters_per_minute": 100.0, "leak_state": "ok",
}  # fmt: skip


def judge(*samples, plan=None):
    rows = [
        {"time": BEGAN + timedelta(seconds=second), "cdu": "cdu-00", **HEALTHY, **each}
        for second, each in enumerate(samples)
    ]
    loop = pl.DataFrame(rows, schema_overrides=TABLE_BY_NAME["coolant_loop"].columns, infer_schema_length=None)
    missing = {
        name: pl.lit(None, dtype)
        for name, dtype in TABLE_BY_NAME["coolant_loop"].columns.items()
        if name not in loop.columns
    }
    context = Context(now=BEGAN + timedelta(seconds=len(samples)), began=BEGAN, topology=TOPOLOGY)
    state = pl.DataFrame(schema=CoolantLeak.keeps)
    plans = pl.DataFrame(
        [{"kind": "cdu", "id": "cdu-00", **{name: BEGAN + timedelta(seconds=at) for name, at in (plan or {}).items()}}]
        if plan else [],
        schema=TABLE_BY_NAME["maintenance"].columns,
    )  # fmt: skip
    tables = {CoolantLoop: loop.with_columns(**missing), Maintenance: plans}
    return CoolantLeak().detect(tables, state, context).findings


def said(findings):
    return findings.select("code", "severity", "active").rows()


def test_a_wet_rope_alone_is_a_ticket():
    assert said(judge(*[{}] * 60, *[{"leak_state": "critical"}] * 10)) == [("rope", "ticket", True)]


def test_a_broken_leak_sensor_is_no_leak():
    assert judge(*[{}] * 60, *[{"leak_state": "fault"}] * 60).is_empty()


def test_one_wet_sample_is_not_enough():
    assert judge(*[{}] * 60, {"leak_state": "warning"}, *[{}] * 60).is_empty()


def test_a_level_that_falls_at_constant_temperature_is_a_ticket():
    # 0.05 % a second; the reservoir stands over the pumps, and the pressures are not reported.
    falling = [{"level_percent": 80.0 - 0.05 * second, "return_pressure_kpa": None} for second in range(120)]
    assert said(judge(*[{}] * 120, *falling)) == [("level", "ticket", True)]


def test_a_level_that_falls_as_the_coolant_cools_is_not_a_leak():
    # 20 K colder in ten minutes: PG25 shrinks by 4e-4 per K, 0.8 % of 500 L = 4 L, 8 % of a 50 L reservoir.
    cooling = [
        {"level_percent": 80.0 - 8.0 * share, "supply_celsius": 35.0 - 20 * share, "return_celsius": 45.0 - 20 * share}
        for share in (second / 600 for second in range(600))
    ]
    assert judge(*[{}] * 120, *cooling).is_empty()


def test_a_wet_rope_and_a_falling_pressure_are_a_page_and_ask_for_a_staged_shutdown():
    leaking = {"leak_state": "warning", "return_pressure_kpa": 120.0, "supply_pressure_kpa": 265.0}
    findings = judge(*[{}] * 120, *[leaking] * 60)
    assert said(findings) == [("rope", "ticket", True), ("rope+pressure", "page", True)]
    assert findings["action"].to_list() == ["open_ticket", "staged_shutdown"]


def test_pressure_that_falls_because_a_pump_slows_is_not_a_leak():
    slow = {"supply_pressure_kpa": 200.0, "flow_liters_per_minute": 81.0}
    assert judge(*[{}] * 120, *[slow] * 120).is_empty()


def test_dries_up_after_a_minute_without_any_signal():
    findings = judge(*[{}] * 60, *[{"leak_state": "warning"}] * 5, *[{}] * 70)
    assert [(time - BEGAN).total_seconds() for time in findings["time"]] == [61.0, 125.0]
    assert findings["active"].to_list() == [True, False]


DRAINED = [{"level_percent": 60.0, "return_pressure_kpa": 40.0, "supply_pressure_kpa": 190.0}] * 120


def test_a_loop_drained_in_its_maintenance_does_not_leak_and_neither_does_one_filled_to_another_level():
    refilled = [{"level_percent": 76.0}] * 120
    assert judge(*[{}] * 120, *DRAINED, *refilled, plan={"starts_at": 120, "ends_at": 240}).is_empty()


def test_a_loop_drained_after_its_maintenance_leaks():
    found = judge(*[{}] * 300, *DRAINED, plan={"starts_at": 60, "ends_at": 120})
    assert said(found)[-1] == ("level+pressure", "page", True)


def test_a_rope_that_gets_wet_in_maintenance_is_told():
    wet = [{"leak_state": "critical"}] * 10
    assert said(judge(*[{}] * 60, *wet, plan={"starts_at": 30, "ends_at": 240})) == [("rope", "ticket", True)]
