"""Timelines at 1 Hz, two pumps: speeds and flow as shares of 2,850 rpm and 100 L/min."""

import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from detectors.contract import Context
from detectors.coolant.pump_failure import PumpFailure
from schemas.coolant import CoolantLoop, CoolantPump
from schemas.tables import TABLE_BY_NAME
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, topology_from_frames

BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
TOPOLOGY = topology_from_frames("none", pl.DataFrame(schema=NODE_COLUMNS), pl.DataFrame(schema=LINK_COLUMNS))


def judge(flow, first, second, *, rise=None, pumps=True, interval=1.0):
    """Findings on shares of flow and speeds, one value a sample; a null sample is None."""
    times = [BEGAN + timedelta(seconds=number * interval) for number in range(len(flow))]
    rise = rise or [10.0] * len(flow)
    loop = {
        "time": times,
        "cdu": "cdu-00",
        "flow_liters_per_minute": [None if share is None else 100.0 * share for share in flow],
        "supply_celsius": [35.0] * len(flow),
        "return_celsius": [35.0 + kelvin for kelvin in rise],
    }
    speeds = [
        {"time": time, "cdu": "cdu-00", "pump": pump, "speed_rpm": None if share is None else 2850.0 * share}
        for time, *shares in zip(times, first, second, strict=True)
        for pump, share in zip(("pump-1", "pump-2"), shares, strict=True)
    ]
    nothing = pl.DataFrame(schema={"time": pl.Datetime("us", "UTC")})
    tables = {
        CoolantLoop: filled("coolant_loop", pl.DataFrame(loop)),
        CoolantPump: filled("coolant_pump", pl.DataFrame(speeds) if pumps else nothing),
    }
    context = Context(now=times[-1] + timedelta(seconds=1), began=BEGAN, topology=TOPOLOGY)
    return PumpFailure().detect(tables, pl.DataFrame(schema=PumpFailure.keeps), context).findings


def filled(name, frame):
    return frame.select(
        pl.col(column).cast(dtype) if column in frame.columns else pl.lit(None, dtype).alias(column)
        for column, dtype in TABLE_BY_NAME[name].columns.items()
    )


def seconds_of(findings):
    return [((time - BEGAN).total_seconds(), active) for time, active in findings.select("time", "active").rows()]


def test_one_of_two_pumps_stops_and_40_percent_of_the_flow_is_gone():
    flow = [1.0] * 60 + [0.8, 0.65, 0.6, 0.6, 0.6]
    findings = judge(flow, [1.0] * 60 + [0.51, 0.26, 0.13, 0.0, 0.0], [1.0] * 65)
    assert seconds_of(findings) == [(61.0, True)]
    told = findings.row(0, named=True)
    assert (told["severity"], told["action"]) == ("page", "switch_pump")
    assert told["first_bad_at"] == BEGAN + timedelta(seconds=60)


def test_fires_within_three_seconds_when_all_pumps_stop_between_two_samples():
    flow = [1.0] * 60 + [0.3, 0.1, 0.05]
    findings = judge(flow, [1.0] * 60 + [0.3, 0.1, 0.0], [1.0] * 60 + [0.3, 0.1, 0.0])
    assert seconds_of(findings) == [(61.0, True)]


def test_seconds_to_throttle_follow_from_the_plates_heat_capacity():
    # No flow at all: 510 J/K * (87 - 65) K / 700 W = 16.03 s (domain.md 4.6: 16 s from 65 to 87 C).
    findings = judge([1.0] * 60 + [0.0] * 3, [1.0] * 60 + [0.0] * 3, [1.0] * 60 + [0.0] * 3)
    seen = json.loads(findings["evidence"][0])
    assert seen["seconds_to_throttle"] == pytest.approx(16.03, abs=0.01)
    assert seen["pump_speeds_rpm"] == [0.0, 0.0]


@pytest.mark.parametrize("odd", [None, 0.0], ids=["null", "dropout"])
def test_one_odd_sample_of_everything_is_not_a_failure(odd):
    flow = [1.0] * 60 + [odd] + [1.0] * 10
    assert judge(flow, flow, flow).is_empty()


def test_both_pumps_driven_down_slowly_are_not_a_failure():
    # To half speed over five minutes, then held: flow goes with speed.
    slow = [1.0] * 120 + [1.0 - 0.5 * second / 300 for second in range(300)] + [0.5] * 120
    assert judge(slow, slow, slow).is_empty()


def test_flow_that_falls_at_steady_pumps_is_a_restriction_and_not_this():
    assert judge([1.0] * 60 + [0.5] * 30, [1.0] * 90, [1.0] * 90, rise=[10.0] * 60 + [20.0] * 30).is_empty()


def test_a_pump_handed_over_to_its_peer_without_loss_of_flow_is_not_a_failure():
    first, second = [1.0] * 60 + [0.5] + [0.0] * 60, [0.0] * 60 + [0.5] + [1.0] * 60
    assert judge([1.0] * 60 + [0.9] + [1.0] * 60, first, second).is_empty()


def test_a_pump_parked_long_before_is_not_blamed_for_a_restriction():
    first, second = [1.0] * 60 + [0.0] * 240, [0.0] * 60 + [1.0] * 240
    assert judge([1.0] * 200 + [0.5] * 100, first, second).is_empty()


def test_silent_pumps_are_stood_in_for_by_the_rise_of_temperature():
    flow, rise = [1.0] * 60 + [0.5] * 5, [10.0] * 60 + [14.0, 18.0, 20.0, 20.0, 20.0]
    findings = judge(flow, flow, flow, rise=rise, pumps=False)
    assert seconds_of(findings) == [(61.0, True)]
    assert findings["code"].to_list() == ["flow_and_temperature"]


def test_silent_pumps_and_a_steady_temperature_say_nothing():
    flow = [1.0] * 60 + [0.5] * 5
    assert judge(flow, flow, flow, pumps=False).is_empty()


def test_ends_when_the_flow_is_back_for_five_seconds():
    stopped = [1.0] * 60 + [0.0] * 10 + [1.0] * 20
    assert seconds_of(judge(stopped, stopped, stopped)) == [(61.0, True), (75.0, False)]


def test_the_normal_is_not_unlearned_while_the_pump_stands():
    stopped = [1.0] * 60 + [0.3] * 1800
    assert seconds_of(judge(stopped, stopped, stopped)) == [(61.0, True)]
