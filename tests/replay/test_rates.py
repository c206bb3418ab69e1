import pytest

from replay.rates import per_day, poisson_upper


@pytest.mark.parametrize(("count", "bound"), [(0, 2.996), (1, 4.744), (2, 6.296), (5, 10.513), (10, 16.962)])
def test_the_upper_bound_is_that_of_published_tables(count, bound):
    """One-sided 95 % limits of a Poisson mean (Garwood 1936; also half the 95 % point of chi-squared of 2n + 2)."""
    assert poisson_upper(count) == pytest.approx(bound, abs=1e-3)


def test_the_bound_of_a_large_count_is_that_of_the_normal_distribution():
    """Mean n and standard deviation sqrt(n), to within the skew that is left: 1.645 of them above n."""
    assert poisson_upper(10_000) == pytest.approx(10_000 + 1.645 * 100, rel=1e-3)


def test_a_false_page_in_a_day_of_the_whole_cluster_is_one_a_day():
    assert per_day(1, 24_576 * 24) == pytest.approx(1.0)


def test_a_rate_needs_time():
    with pytest.raises(ValueError, match="no GPU-hours"):
        per_day(1, 0)
