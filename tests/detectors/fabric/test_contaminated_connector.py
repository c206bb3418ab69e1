from detectors.fabric.contaminated_connector import ContaminatedConnector
from tests.detectors.fabric.fabric_timelines import A, B, judge, lane, statements

STEP = [-3.0] * 10 + [-6.0] * 5
STEADY = [-3.0] * 15


def series(end, receive, transmit=None, number=0):
    transmit = transmit or [1.0] * len(receive)
    return [
        lane(60 * minute, end, light, sent, number=number)
        for minute, (light, sent) in enumerate(zip(receive, transmit, strict=True))
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
