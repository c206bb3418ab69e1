import json

import pytest

from detectors.fabric.optic_power import ReceivePowerTrend
from tests.detectors.fabric.fabric_timelines import A, B, judge, lane, statements

NOISE = (0.03, -0.02, 0.0, 0.02, -0.03)


def fading(slope_db_per_hour, minutes, *, start=-3.0, end=B, noise=1.0, **more):
    """A sample a minute with a little noise, light falling from `start`."""
    return [
        lane(60 * minute, end, start + slope_db_per_hour * minute / 60 + noise * NOISE[minute % 5], **more)
        for minute in range(minutes)
    ]


def test_light_on_its_way_to_the_alarm_within_a_day_is_a_ticket():
    # -0.5 dB/h from -3 dBm reaches -8.9 dBm after 11.8 h.
    findings = judge(ReceivePowerTrend(), fading(-0.5, 120))
    assert [(entity, active) for _, entity, active in statements(findings)] == [("c1", True)]
    assert findings["severity"].to_list() == ["ticket"]
    seen = json.loads(findings["evidence"][0])
    assert seen["slope_db_per_hour"] == pytest.approx(-0.5, abs=0.05)
    assert seen["hours_left"] == pytest.approx((seen["receive_power_dbm"] + 8.9) / 0.5, abs=1.0)


def test_steady_light_is_not_fading():
    assert judge(ReceivePowerTrend(), fading(0.0, 240)).is_empty()


def test_a_fade_in_noise_is_told_when_its_slope_is_five_times_its_error():
    # Ten times the noise, 0.34 dB by its second differences: the error of a slope over n minutes is about
    # 0.34 * sqrt(12 / n) / (n / 60) dB/h, which is 0.43 at 30 and 0.15 at 60, a fifth of 2.1 and of 0.8.
    assert judge(ReceivePowerTrend(), fading(-2.0, 30, noise=10.0)).is_empty()
    assert judge(ReceivePowerTrend(), fading(-2.0, 61, noise=10.0))["code"].to_list() == ["fading"]


def test_noise_of_a_third_of_a_decibel_does_not_begin_the_fit_anew():
    assert judge(ReceivePowerTrend(), fading(-2.0, 60, noise=6.0))["code"].to_list() == ["fading"]


def test_a_fade_of_less_than_half_a_decibel_is_the_temperature_of_the_day():
    assert judge(ReceivePowerTrend(), fading(-0.3, 60)).is_empty()


def test_six_samples_are_no_trend_and_twelve_are():
    assert judge(ReceivePowerTrend(), fading(-18.0, 6)).is_empty()
    assert judge(ReceivePowerTrend(), fading(-18.0, 12))["code"].to_list() == ["fading"]


def test_a_step_of_two_decibels_is_no_fade_below_the_alarm():
    rows = [lane(60 * minute, B, -8.0 + NOISE[minute % 5] - (2.0 if minute >= 60 else 0.0)) for minute in range(120)]
    assert judge(ReceivePowerTrend(), rows).is_empty()


def test_what_was_before_is_forgotten_in_two_hours():
    # Steady for six hours, then -1 dB/h. Least squares with weights 1 / (1 + t / 2 h) a sample have 0.5 dB of fall in
    # them 83 minutes after the beginning; without forgetting it would take two hours, with half an hour half of that.
    rows = fading(0.0, 360) + [
        lane(60 * minute, B, -3.0 + NOISE[minute % 5] - (minute - 360) / 60) for minute in range(360, 480)
    ]
    ((second, _, active),) = statements(judge(ReceivePowerTrend(), rows))
    assert active
    assert second / 60 - 360 == pytest.approx(84, abs=10)


def test_light_that_would_take_days_is_left_alone():
    # -0.1 dB/h: 59 h to the alarm.
    assert judge(ReceivePowerTrend(), fading(-0.1, 600)).is_empty()


def test_the_modules_own_alarm_comes_first():
    assert judge(ReceivePowerTrend(), fading(-0.1, 600, receive_power_alarm_low_dbm=-5.0)).height == 1


def test_below_its_alarm_is_a_page():
    findings = judge(ReceivePowerTrend(), fading(0.0, 5, start=-9.5))
    assert findings.select("severity", "code").rows() == [("page", "below_alarm")]


def test_a_fade_through_the_alarm_turns_the_ticket_into_a_page():
    findings = judge(ReceivePowerTrend(), fading(-6.0, 70))
    assert findings["severity"].to_list() == ["ticket", "page"]


def test_a_step_is_not_a_fade_not_even_below_the_alarm():
    rows = [lane(60 * minute, B, -3.0 + NOISE[minute % 5] - (7.0 if minute >= 60 else 0.0)) for minute in range(240)]
    assert judge(ReceivePowerTrend(), rows).is_empty()


def test_a_dark_lane_says_nothing():
    rows = fading(0.0, 30) + [lane(60 * minute, B, None) for minute in range(30, 60)]
    assert judge(ReceivePowerTrend(), rows).is_empty()


def test_a_single_dropout_is_not_a_fade():
    rows = fading(0.0, 120)
    rows[60]["receive_power_dbm"] = -12.0
    assert judge(ReceivePowerTrend(), rows).is_empty()


def test_lanes_of_one_link_are_one_finding():
    rows = [row for number in range(4) for row in fading(-0.5, 150, number=number)]
    assert [(entity, active) for _, entity, active in statements(judge(ReceivePowerTrend(), rows))] == [("c1", True)]


def test_evidence_names_the_far_lasers_bias_and_the_peers():
    sent = [lane(60 * minute, A, -3.0, bias_milliamps=80.0 + 4.0 * minute / 60) for minute in range(150)]
    rows = sent + fading(-0.5, 150, number=0) + fading(0.0, 150, number=1, start=-2.5)
    seen = json.loads(judge(ReceivePowerTrend(), rows)["evidence"][0])
    assert seen["part"] == "spine-000:2/0"
    assert seen["far_bias_milliamps_per_hour"] == pytest.approx(4.0, rel=0.02)
    assert seen["peers_receive_power_dbm"] == pytest.approx(-2.5, abs=0.05)


def test_a_fast_fade_that_follows_its_laser_is_not_taken_for_a_step():
    # 1 dB a sample, seen in Tx at the far end and in Rx here.
    fall = [0.0] * 20 + [-1.0, -2.0, -3.0, -4.0]
    rows = [lane(60 * minute, A, -3.0, transmit=1.0 + db) for minute, db in enumerate(fall)]
    rows += [lane(60 * minute, B, -3.0 + db) for minute, db in enumerate(fall)]
    assert [entity for _, entity, _ in statements(judge(ReceivePowerTrend(), rows))] == ["c1"]


def test_it_ends_after_three_minutes_without_a_trend():
    # 1.5 dB more at 300 s begins the fit anew; its ninth sample, at 780 s, has the weight of eight.
    rows = [lane(60 * minute, B, -9.5 if minute < 5 else -8.0) for minute in range(30)]
    assert statements(judge(ReceivePowerTrend(), rows)) == [(60, "c1", True), (960, "c1", False)]
