"""Timelines at 1 Hz of one loop: 80 % level, 150 kPa before the pumps, 300 kPa after them."""

import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from detectors.contract import Context
from detectors.coolant.leak import CoolantLeak
from schemas.coolant import CoolantLoop
from schemas.job import Maintenance
from schemas.tables import TABLE_BY_NAME
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, topology_from_frames
from tests.detectors.timelines import rows, run

BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
TOPOLOGY = topology_from_frames("none", pl.DataFrame(schema=NODE_COLUMNS), pl.DataFrame(schema=LINK_COLUMNS))
HEALTHY = {
    "level_percent": 80.0, "supply_celsius": 35.0, "return_celsius": 45.0, "return_pressure_kpa": 150.0,
    "supply_pressure_kpa": 300.0, "flow_liters_per_minute": 100.0, "leak_state": "ok",
}  # fmt: skip


def judge(*samples, plan=None, every=1.0):
    rows = [
        {"time": BEGAN + timedelta(seconds=number * every), "cdu": "cdu-00", **HEALTHY, **each}
        for number, each in enumerate(samples)
    ]
    loop = pl.DataFrame(rows, schema_overrides=TABLE_BY_NAME["coolant_loop"].columns, infer_schema_length=None)
    missing = {
        name: pl.lit(None, dtype)
        for name, dtype in TABLE_BY_NAME["coolant_loop"].columns.items()
        if name not in loop.columns
    }
    context = Context(now=BEGAN + timedelta(seconds=len(samples) * every), began=BEGAN, topology=TOPOLOGY)
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


def test_maintenance_told_in_an_earlier_batch_is_remembered():
    given_rows = [{"time": t, "cdu": "cdu-00", **HEALTHY, **(DRAINED[0] if t >= 120 else {})} for t in range(240)]
    loop = rows(CoolantLoop, *given_rows)
    plan = rows(Maintenance, {"starts_at": 100, "ends_at": 600, "kind": "cdu", "id": "cdu-00"})
    assert not run(CoolantLeak(), {CoolantLoop: loop}, 240, (110,))[0].is_empty()
    assert run(CoolantLeak(), {CoolantLoop: loop, Maintenance: plan}, 240, (110,))[0].is_empty()


def test_a_rope_that_gets_wet_in_maintenance_is_told():
    wet = [{"leak_state": "critical"}] * 10
    assert said(judge(*[{}] * 60, *wet, plan={"starts_at": 30, "ends_at": 240})) == [("rope", "ticket", True)]


def test_wet_for_half_a_second_is_not_enough_at_any_rate():
    assert judge(*[{}] * 10, *[{"leak_state": "warning"}] * 2, *[{}] * 10, every=0.5).is_empty()


def test_a_kelvin_does_not_explain_a_level_that_falls_six_times_as_far():
    # 1 K of 500 L of PG25 is 0.2 L (4e-4 per K), 0.4 % of a 50 L reservoir.
    fallen = {"level_percent": 77.5, "supply_celsius": 34.0, "return_celsius": 44.0, "return_pressure_kpa": None}
    assert said(judge(*[{}] * 120, *[fallen] * 30)) == [("level", "ticket", True)]


def test_the_ripple_of_pumps_is_not_a_leak():
    assert judge(*[{}] * 120, *[{"return_pressure_kpa": 144.0, "supply_pressure_kpa": 288.0}] * 60).is_empty()


def test_pressure_lost_at_both_ends_is_a_leak_while_the_flow_stays_within_a_twentieth():
    lost = {"return_pressure_kpa": 132.0, "supply_pressure_kpa": 264.0}
    assert said(judge(*[{}] * 120, *[{**lost, "flow_liters_per_minute": 97.0}] * 60)) == [("pressure", "ticket", True)]
    # A tenth less flow is a fifth less head (affinity laws): the loop was slowed.
    assert judge(*[{}] * 120, *[{**lost, "flow_liters_per_minute": 90.0}] * 60).is_empty()


def test_a_level_that_sloshes_for_three_seconds_is_not_a_leak():
    # Three samples move a mean over ten seconds by a quarter: 1 of the 4 points.
    assert judge(*[{}] * 60, *[{"level_percent": 76.0}] * 3, *[{}] * 60).is_empty()


def test_a_slow_leak_is_seen_above_three_percent_an_hour():
    def leaking(percent_an_hour):
        falling = [{"level_percent": 80.0 - percent_an_hour * minute / 60} for minute in range(120)]
        return said(judge(*[{}] * 60, *falling, every=60.0))

    # A mean over half an hour lies half an hour behind.
    assert leaking(2.0) == []
    assert leaking(4.0) == [("level", "ticket", True)]


def test_a_page_tells_how_fast_the_level_falls_and_how_long_ago_the_first_sign_was():
    # 3 % a minute, from 100 s on; the rope has been wet since 90 s, and both are told a second late.
    samples = [
        {"level_percent": 80.0 - max(0, second - 100) * 0.05, "leak_state": "warning" if second >= 90 else "ok"}
        for second in range(200)
    ]
    ticket, page = judge(*samples).select("time", "severity", "first_bad_at", "evidence").rows(named=True)
    assert (ticket["severity"], page["severity"]) == ("ticket", "page")
    assert ticket["first_bad_at"] == page["first_bad_at"] == BEGAN + timedelta(seconds=90)
    said = [json.loads(one["evidence"]) for one in (ticket, page)]
    assert [one["seconds_since_first_sign"] for one in said] == [
        1.0,
        (page["time"] - page["first_bad_at"]).total_seconds(),
    ]
    assert said[0]["level_lost_percent_per_minute"] == 0
    assert said[1]["level_lost_percent_per_minute"] == pytest.approx(3.0, rel=0.05)


def test_a_loop_without_a_level_gauge_tells_no_pace():
    wet = {"leak_state": "warning", "level_percent": None, "return_pressure_kpa": 120.0, "supply_pressure_kpa": 265.0}
    page = judge(*[{"level_percent": None}] * 120, *[wet] * 60).filter(severity="page")
    assert json.loads(page["evidence"][0])["level_lost_percent_per_minute"] is None
