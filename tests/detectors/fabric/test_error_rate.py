from math import exp, log

import numpy as np
import pytest

from detectors.fabric.error_rate import RateTest, onset

NDR_BITS_IN_30_SECONDS = 400e9 * 30
SYMBOLS = RateTest(healthy=1e-15, faulty=1e-14)


def samples_until_bound(test, errors_per_sample, exposure, most=10_000):
    score = np.zeros(1)
    for number in range(1, most):
        score = test.after(score, np.array([errors_per_sample]), np.array([exposure]))
        if score[0] >= test.bound:
            return number
    return None


def test_a_rate_of_1e_12_is_found_in_the_first_thirty_seconds():
    # 400 Gb/s x 30 s x 1e-12 = 12 errors; a rule of three in twelve minutes has to wait for its window.
    assert samples_until_bound(SYMBOLS, 12.0, NDR_BITS_IN_30_SECONDS) == 1


def test_two_errors_in_half_a_minute_are_not_enough():
    assert samples_until_bound(SYMBOLS, 2.0, NDR_BITS_IN_30_SECONDS, most=2) is None


def test_a_link_at_the_healthy_limit_drifts_away_from_the_bound():
    assert samples_until_bound(SYMBOLS, 1e-15 * NDR_BITS_IN_30_SECONDS, NDR_BITS_IN_30_SECONDS) is None


def test_half_the_errors_in_half_the_time_weigh_the_same():
    whole = SYMBOLS.after(np.zeros(1), np.array([4.0]), np.array([2e12]))
    half = SYMBOLS.after(np.zeros(1), np.array([2.0]), np.array([1e12]))
    assert SYMBOLS.after(half, np.array([2.0]), np.array([1e12])) == pytest.approx(whole)


def test_unknown_errors_change_nothing():
    assert SYMBOLS.after(np.array([3.0]), np.array([np.nan]), np.array([1e12]))[0] == 3.0


def mean_samples_to_false_alarm(mean_errors, ratio, bound, cells=400):
    """Exact up to the grid, by the Markov chain of the score under the healthy Poisson rate (Brook and Evans 1972)."""
    step, drift = bound / cells, mean_errors * (ratio - 1)
    chance, moves = np.zeros((cells, cells)), []
    probability = exp(-mean_errors)
    for errors in range(200):
        moves.append((errors * log(ratio) - drift, probability))
        probability *= mean_errors / (errors + 1)
    for cell in range(cells):
        for move, weight in moves:
            to = max(0.0, (cell + 0.5) * step + move if cell else move)
            if to < bound:
                chance[cell, int(to / step)] += weight
    return float(np.linalg.solve(np.eye(cells) - chance, np.ones(cells))[0])


@pytest.mark.parametrize("mean_errors", [0.012, 0.3, 4.0])
def test_false_alarms_are_as_rare_as_the_bound_promises(mean_errors):
    # Wald: one entity at the healthy rate runs for exp(bound) samples on average, at least.
    bound = 5.0
    assert mean_samples_to_false_alarm(mean_errors, 10.0, bound) >= exp(bound)


def test_a_whole_cluster_has_less_than_one_false_alarm_in_a_hundred_days():
    # 147,456 port ends (24,576 GPUs, non-blocking; domain.md 1), a sample every 30 s.
    assert SYMBOLS.false_alarms_per_day(147_456, 30.0) < 1 / 100


def test_the_windowed_rule_would_raise_hundreds_a_day_at_the_same_rate():
    # More than 2.88 symbol errors in 12 minutes (UFM), at 1e-15: Poisson with mean 0.288, 120 windows a day.
    mean = 400e9 * 720 * 1e-15
    three_or_more = 1 - exp(-mean) * (1 + mean + mean**2 / 2)
    assert 147_456 * 120 * three_or_more > 1000 * SYMBOLS.false_alarms_per_day(147_456, 30.0)


def test_the_onset_is_where_the_evidence_that_counts_began():
    nothing, some = np.array([0.0]), np.array([2.0])
    began = onset(np.array([np.nan]), nothing, some, np.array([100.0]))
    assert onset(began, some, some, np.array([130.0]))[0] == 100.0
    assert np.isnan(onset(began, some, nothing, np.array([160.0]))[0])
