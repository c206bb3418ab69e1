"""Formulas against numbers worked out elsewhere (domain.md section 4.7)."""

import pytest

from pipelines.capacity import (
    Regime,
    daly_seconds,
    poisson_at_most,
    shortage_probability,
    spares_needed,
    waste,
    young_seconds,
)

HOURS = 2.06 * 3600  # between failures: 11.6 a day


@pytest.mark.parametrize(
    ("cost", "interval", "wasted"), [(10, 378, 7.5), (30, 647, 11.2), (60, 904, 14.8), (120, 1255, 19.7)]
)
def test_the_best_interval_and_its_waste(cost: float, interval: float, wasted: float) -> None:
    best = daly_seconds(cost, HOURS)
    assert best == pytest.approx(interval, abs=1)
    assert 100 * waste(best, Regime(HOURS, cost, 180)) == pytest.approx(wasted, abs=0.1)


def test_no_other_interval_wastes_clearly_less_than_dalys() -> None:
    regime = Regime(HOURS, 30, 180)
    least = min(waste(seconds, regime) for seconds in range(30, 4000, 10))
    assert waste(daly_seconds(30, HOURS), regime) <= least + 0.001
    assert young_seconds(30, HOURS) == pytest.approx((2 * 30 * HOURS) ** 0.5)


@pytest.mark.parametrize(("hours", "nodes"), [(4, 6), (24, 20), (72, 49)])
def test_spares_for_eleven_failures_a_day(hours: float, nodes: int) -> None:
    assert spares_needed(11.6, hours, 0.99) == nodes


@pytest.mark.parametrize(("target", "nodes"), [(0.99, 14), (0.999, 17)])
def test_sixteen_nodes_are_right_for_seven_failures_a_day(target: float, nodes: int) -> None:
    assert spares_needed(7.4, 24, target) == nodes


def test_seventy_failures_a_day_need_ninety_nodes() -> None:
    assert spares_needed(70, 24, 0.99) == 90


def test_a_sum_of_poisson_terms_is_a_probability() -> None:
    assert poisson_at_most(-1, 3) == 0
    assert poisson_at_most(0, 3) == pytest.approx(0.049787, abs=1e-6)
    assert poisson_at_most(200, 3) == pytest.approx(1)
    assert shortage_probability(16, 7.4, 24) == pytest.approx(1 - poisson_at_most(16, 7.4))
