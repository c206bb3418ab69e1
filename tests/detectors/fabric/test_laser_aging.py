import json

import pytest

from detectors.fabric.laser_aging import LaserAging
from tests.detectors.fabric.fabric_timelines import A, judge, lane, statements


def laser(currents, *, sent=None, celsius=None, number=0, **more):
    sent, celsius = sent or [1.0] * len(currents), celsius or [50.0] * len(currents)
    return [
        lane(
            3600 * hour, A, -2.0, transmit=power, number=number, bias_milliamps=current,
            module_temperature_celsius=warm, **more,
        )
        for hour, (current, power, warm) in enumerate(zip(currents, sent, celsius, strict=True))
    ]  # fmt: skip


def rising(hours=40, per_hour=1.0, start=80.0):
    return [start] * 5 + [start + per_hour * hour for hour in range(1, hours)]


def test_current_that_rises_by_a_fifth_for_the_same_light_is_an_ageing_laser():
    findings = judge(LaserAging(), laser(rising()))
    # 97 mA, the first above 80 mA and 20 %, is that of hour 21; a second sample has to agree.
    assert statements(findings) == [(22 * 3600, "c1", True)]
    assert findings.select("cause", "code", "severity").row(0) == ("optic_degrading", "bias_rises", "ticket")


def test_the_evidence_names_the_time_left_to_the_modules_own_alarm():
    seen = json.loads(judge(LaserAging(), laser(rising(), bias_alarm_high_milliamps=125.0))["evidence"][0])
    assert seen["part"] == "leaf-000:1/0"
    assert seen["bias_milliamps"] == 98.0
    # At 1 mA an hour.
    assert seen["hours_left"] == pytest.approx(125.0 - 98.0, rel=0.01)


def test_a_laser_that_can_no_longer_hold_its_light_fails():
    currents = rising()
    sent = [1.0] * 5 + [1.0 - 0.1 * hour for hour in range(1, len(currents) - 4)]
    assert judge(LaserAging(), laser(currents, sent=sent))["code"].to_list() == ["laser_fails"]


def test_more_current_for_more_light_is_a_setting():
    currents = [80.0] * 5 + [80.0 + 2 * hour for hour in range(1, 12)]
    assert judge(LaserAging(), laser(currents, sent=[1.0] * 5 + [1.0 + 0.1 * n for n in range(1, 12)])).is_empty()


def test_a_warmer_module_takes_more_current():
    # 25 % more at 15 K more: 1 % a kelvin is the temperature's share.
    currents = [80.0] * 5 + [80.0 * (1 + 0.01 * n) for n in range(1, 26)]
    warm = [50.0] * 5 + [50.0 + 0.6 * n for n in range(1, 26)]
    assert judge(LaserAging(), laser(currents, celsius=warm)).is_empty()


def test_another_module_has_another_normal():
    assert judge(LaserAging(), laser([80.0] * 10 + [105.0] * 30)).is_empty()


def test_lanes_differ_from_each_other_and_are_not_compared():
    rows = laser([75.0] * 30, number=0) + laser([110.0] * 30, number=1)
    assert judge(LaserAging(), rows).is_empty()


def test_above_the_modules_own_alarm_needs_no_history():
    assert statements(judge(LaserAging(), laser([126.0] * 4, bias_alarm_high_milliamps=125.0))) == [(3600, "c1", True)]
