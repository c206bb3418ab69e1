from detectors.fabric.contaminated_connector import ContaminatedConnector
from tests.detectors.fabric.fabric_timelines import A, B, judge, lane, statements

STEP = [-3.0] * 10 + [-6.0] * 5
STEADY = [-3.0] * 15


def series(end, receive, transmit=None, number=0, every=60):
    transmit = transmit or [1.0] * len(receive)
    return [
        lane(every * count, end, light, sent, number=number)
        for count, (light, sent) in enumerate(zip(receive, transmit, strict=True))
    ]


def test_light_steps_down_at_one_end_and_its_sender_shines_as_before():
    findings = judge(ContaminatedConnector(), series(A, STEADY) + series(B, STEP))
    # The step is at minute 10; a second sample has to agree.
    assert statements(findings) == [(660, "c1", True)]
    assert findings.select("code", "severity", "action").row(0) == ("step", "ticket", "clean_connector")


def test_light_that_falls_with_its_sender_is_the_laser():
    dim = [1.0] * 10 + [-2.0] * 5
    assert judge(ContaminatedConnector(), series(A, STEADY, dim) + series(B, STEP)).is_empty()


def test_light_that_falls_both_ways_is_a_bend():
    assert judge(ContaminatedConnector(), series(A, STEP) + series(B, STEP)).is_empty()


def test_a_silent_far_end_contradicts_nothing():
    findings = judge(ContaminatedConnector(), series(B, STEP))
    assert statements(findings) == [(660, "c1", True)]
    assert findings["code"].to_list() == ["step_far_end_unknown"]


def test_a_lane_that_goes_dark_is_not_dirty():
    assert judge(ContaminatedConnector(), series(A, STEADY) + series(B, [-3.0] * 10 + [None] * 5)).is_empty()


def test_one_low_reading_is_not_dirt():
    assert judge(ContaminatedConnector(), series(B, [-3.0] * 10 + [-6.0] + [-3.0] * 10)).is_empty()


def test_a_fade_is_not_a_step():
    fade = [-3.0] * 10 + [-3.0 - 0.2 * minute for minute in range(30)]
    assert judge(ContaminatedConnector(), series(B, fade)).is_empty()


def test_a_mated_pairs_worth_of_light_is_within_limits():
    # TIA-568 allows 0.75 dB for a mated pair.
    assert judge(ContaminatedConnector(), series(B, [-3.0] * 10 + [-3.75] * 10)).is_empty()


def test_the_normal_is_kept_for_as_long_as_it_lasts_and_cleaning_ends_it():
    findings = judge(ContaminatedConnector(), series(B, [-3.0] * 10 + [-6.0] * 200 + [-3.0] * 5))
    assert statements(findings) == [(660, "c1", True), (12660, "c1", False)]


def test_two_dirty_lanes_are_one_finding():
    rows = series(B, STEP, number=0) + series(B, STEP, number=1) + series(B, STEADY, number=2)
    assert statements(judge(ContaminatedConnector(), rows)) == [(660, "c1", True)]


def test_it_ends_after_a_minute_of_light():
    findings = judge(ContaminatedConnector(), series(B, [-3.0] * 10 + [-6.0] * 5 + [-3.0] * 6, every=20))
    assert statements(findings) == [(220, "c1", True), (360, "c1", False)]


def test_light_that_was_not_steady_has_not_stepped():
    # 0.6 dB more than ever for a sample, then 0.6 dB less: 1.2 dB, but not from the normal.
    assert judge(ContaminatedConnector(), series(B, [-3.0] * 10 + [-2.4] + [-3.6] * 5)).is_empty()
    assert judge(ContaminatedConnector(), series(B, [-3.0] * 10 + [-2.8] + [-4.2] * 5)).height == 1


def test_a_sender_half_a_decibel_dimmer_is_the_laser_and_a_third_is_not():
    def judged(sent, received):
        rows = series(A, STEADY, [1.0] * 10 + [sent] * 5) + series(B, [-3.0] * 10 + [received] * 5)
        return judge(ContaminatedConnector(), rows)["code"].to_list()

    assert judged(0.0, -4.2) == []
    assert judged(0.7, -4.2) == ["step"]


def test_after_two_samples_nothing_is_normal_yet():
    assert judge(ContaminatedConnector(), series(B, [-3.0] * 2 + [-6.0] * 5)).is_empty()
    assert judge(ContaminatedConnector(), series(B, [-3.0] * 4 + [-6.0] * 5)).height == 1


def test_a_step_is_told_from_a_normal_that_follows_and_not_out_of_a_fade():
    # A mean of twenty samples lies 0.2 dB behind light that loses 0.01 dB a sample, and 0.6 behind one that loses 0.03.
    def stepping(loss_db, samples):
        fade = [-3.0 - loss_db * number for number in range(samples)]
        return judge(ContaminatedConnector(), series(B, fade + [fade[-1] - 1.5] * 5)).height

    assert stepping(0.01, 120) == 1
    assert stepping(0.03, 90) == 0
