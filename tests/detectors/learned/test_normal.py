"""The limits against the statistics they are made from, and what training refuses."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.learned.change_point import stretches
from detectors.learned.normal import Learning, fit, thawed
from detectors.learned.training import Unfit
from detectors.learned.windows import Columns, wandering

NAMES = ("flow", "pressure", "vibration")


def noise(rows: int, seed: int = 1, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(100.0, 5.0, (rows, columns))


def test_a_random_walk_wanders_and_noise_does_not() -> None:
    still = noise(1000)
    walk = np.cumsum(noise(1000, seed=2) - 100, axis=0)
    assert list(wandering(np.hstack([still, walk]))) == [False] * 3 + [True] * 3


def test_a_window_is_the_mean_of_its_last_rows() -> None:
    rows = np.arange(10.0)[:, None]
    level = Columns(np.array([False]), 4).features(rows)[:, 0]
    change = Columns(np.array([True]), 4).features(rows)[:, 0]
    assert level[9] == pytest.approx((6 + 7 + 8 + 9) / 4)
    assert change[9] == pytest.approx((6 + 7 + 8 + 9) / 4 - (2 + 3 + 4 + 5) / 4)


def test_healthy_rows_alarm_about_as_often_as_was_asked_for() -> None:
    shares = []
    for seed in range(20):
        rows = noise(3000, seed)
        model = fit([rows[:1000]], NAMES, Learning(false_alarm_share=0.01))
        shares.append((model.scores(rows[1000:]) >= 1).mean())
    assert 0.002 < np.mean(shares) < 0.02


@pytest.mark.parametrize("column", range(3))
def test_a_step_of_two_deviations_alarms_within_two_windows(column: int) -> None:
    rows = noise(800)
    rows[600:, column] += 10.0
    scores = fit([rows[:500]], NAMES, Learning()).scores(rows)
    assert scores[500:600].max() < 1 <= scores[600:630].max()
    assert (scores[630:] >= 1).mean() > 0.9


def test_a_broken_correlation_alarms_though_each_column_is_usual() -> None:
    rng = np.random.default_rng(3)
    drive = rng.normal(0, 1, 900)
    rows = np.column_stack([drive, drive + rng.normal(0, 0.05, 900), -drive + rng.normal(0, 0.05, 900)])
    rows[600:, 1] = -drive[600:]
    model = fit([rows[:500]], NAMES, Learning(window_rows=5))
    assert np.abs(rows[600:, 1]).max() < np.abs(rows[:500, 1]).max() * 1.3
    assert (model.scores(rows)[610:] >= 1).mean() > 0.5


@pytest.mark.parametrize(("begin", "end"), [(350, 500), (150, 260), (0, 100)])
def test_history_with_a_long_fault_in_it_is_refused_with_the_column(begin: int, end: int) -> None:
    rows = noise(500)
    rows[begin:end, 1] += 25.0
    with pytest.raises(Unfit, match=r"pressure .*history"):
        fit([rows], NAMES, Learning())


def test_a_short_fault_in_the_history_is_left_out_and_still_alarms_later() -> None:
    rows = noise(1000)
    rows[200:230, 0] -= 25.0
    rows[800:830, 0] -= 25.0
    scores = fit([rows[:600]], NAMES, Learning()).scores(rows)
    assert scores[815:830].min() > 1
    assert (scores[600:800] >= 1).mean() < 0.05


def test_what_recurs_in_the_history_is_a_habit_and_does_not_alarm():
    rows = noise(1200)
    for begin in range(100, 1200, 150):
        rows[begin : begin + 6, 1] -= 60.0
    scores = fit([rows[:700]], NAMES, Learning()).scores(rows)
    assert (scores[700:] >= 1).mean() < 0.02


def test_too_little_history_is_refused_with_what_is_needed() -> None:
    with pytest.raises(Unfit, match="100 rows of history are too few: 180 are needed"):
        fit([noise(100)], NAMES, Learning())


def test_a_model_is_plain_data_and_scores_the_same_after_json() -> None:
    rows = noise(600)
    model = fit([rows[:400]], NAMES, Learning())
    again = thawed(json.loads(json.dumps(model.document())))
    np.testing.assert_array_equal(again.scores(rows), model.scores(rows))


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(-1e6, 1e6))
def test_units_do_not_matter(factor: float, offset: float) -> None:
    rows = noise(400)
    moved = rows * factor + offset * factor
    one, two = (fit([each[:300]], NAMES, Learning()).scores(each) for each in (rows, moved))
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


def test_the_onset_of_an_alarm_is_where_its_score_began_to_rise() -> None:
    scores = np.concatenate([np.full(50, 0.2), [0.6, 0.7, 0.8, 0.9], np.full(20, 3.0), np.full(40, 0.1)])
    (stretch,) = stretches(scores, 1.0)
    assert (stretch.onset, stretch.first, stretch.last) == (50, 54, 73)
