import json

import pytest

from detectors.fabric.laser_aging import LaserAging
from tests.detectors.fabric.fabric_timelines import A, judge, lane, statements


def laser(currents, *, sent=None, celsius=None, number=0, every=3600, **more):
    sent, celsius = sent or [1.0] * len(currents), celsius or [50.0] * len(currents)
    return [
        lane(
            every * hour, A, -2.0, transmit=power, number=number, bias_milliamps=current,
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


def test_a_few_kelvin_do_not_explain_a_quarter_more_current():
    # 30 % more at 3 K more: 27 % are the laser's own.
    currents, warm = (
        [80.0] * 5 + [80.0 + 2 * n for n in range(1, 13)],
        [50.0] * 5 + [50.0 + 0.25 * n for n in range(1, 13)],
    )
    assert judge(LaserAging(), laser(currents, celsius=warm)).height == 1


def test_a_third_of_a_decibel_more_is_no_other_setting():
    currents = [80.0] * 5 + [80.0 + 2 * n for n in range(1, 13)]
    assert judge(LaserAging(), laser(currents, sent=[1.0] * 5 + [1.3] * 12)).height == 1


def test_a_twentieth_more_at_each_sample_is_no_other_module():
    assert judge(LaserAging(), laser(rising(hours=8, per_hour=4.0))).height == 1


def test_without_the_modules_own_alarm_it_is_130_milliamps_and_two_samples_say_so():
    assert statements(judge(LaserAging(), laser([131.0] * 4, every=60))) == [(60, "c1", True)]


def test_it_ends_after_a_minute_below_the_alarm():
    findings = judge(LaserAging(), laser([126.0] * 4 + [124.0] * 6, every=20, bias_alarm_high_milliamps=125.0))
    assert statements(findings) == [(20, "c1", True), (140, "c1", False)]


def test_the_normal_is_that_of_the_first_five_samples():
    # 81.6 mA: 99 mA are a fifth more, of the 84 mA of the first two they would be less.
    currents = [84.0] * 2 + [80.0] * 3 + [84.0, 88.0, 92.0, 96.0, 99.0, 99.0, 99.0]
    assert judge(LaserAging(), laser(currents)).height == 1


def test_another_module_is_known_to_be_well_with_its_fourth_sample():
    assert statements(judge(LaserAging(), laser([131.0] * 4 + [80.0] * 10, every=20))) == [
        (20, "c1", True), (200, "c1", False)
    ]  # fmt: skip
