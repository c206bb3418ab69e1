import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.volume_under_surface import vus_pr

LABELS = np.zeros(2000, dtype=bool)
LABELS[400:450] = LABELS[1200:1300] = True


def test_without_tolerance_it_is_average_precision_with_existence():
    """By hand: 3 points above all, of which 2 are right; then one more right one; one anomaly, found from the first."""
    labels = np.array([0, 0, 1, 1, 1, 0, 0], dtype=bool)
    scores = np.array([0.0, 9.0, 9.0, 9.0, 5.0, 1.0, 0.0])
    expected = (2 / 3) * (2 / 3) + (1 / 3) * (3 / 4)
    assert vus_pr(scores, labels, buffer_points=0) == pytest.approx(expected)


def test_a_perfect_score_is_nearly_one_and_a_reversed_one_nearly_nothing():
    assert vus_pr(LABELS * 1.0, LABELS, buffer_points=0) == pytest.approx(1.0)
    assert vus_pr(LABELS * 1.0, LABELS, buffer_points=20) > 0.85
    assert vus_pr(-1.0 * LABELS, LABELS, buffer_points=20) < 0.15


def test_chance_gets_about_the_share_of_anomalies():
    scores = np.random.default_rng(1).random(2000)
    assert vus_pr(scores, LABELS, buffer_points=0) == pytest.approx(LABELS.mean(), abs=0.03)


def test_an_anomaly_that_is_never_touched_costs_its_share_of_recall():
    one = np.where((np.arange(2000) >= 400) & (np.arange(2000) < 450), 1.0, 0.0)
    assert vus_pr(one, LABELS, buffer_points=0) < 0.5


def test_a_near_miss_is_worth_more_with_tolerance_than_without():
    shifted = np.roll(LABELS, 10) * 1.0
    assert vus_pr(shifted, LABELS, buffer_points=60) > vus_pr(shifted, LABELS, buffer_points=0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 80))
def test_it_is_a_share_and_blind_to_scale(seed, buffer):
    scores = np.random.default_rng(seed).random(500)
    labels = LABELS[300:800]
    value = vus_pr(scores, labels, buffer_points=buffer)
    assert 0 <= value <= 1
    assert vus_pr(scores * 1000 - 5, labels, buffer_points=buffer) == pytest.approx(value)


def test_no_label_is_told():
    with pytest.raises(ValueError, match="no point is labelled"):
        vus_pr(np.zeros(5), np.zeros(5), buffer_points=0)
