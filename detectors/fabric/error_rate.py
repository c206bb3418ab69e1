"""How many errors are too many: a sequential test of counted errors instead of a window that must first be full.

Errors left after correction are rare and independent, so their number in a sample is Poisson with mean rate x exposure
(bits, codewords). The test keeps the log-likelihood ratio of the faulty rate over the healthy one, never below 0
(Page's CUSUM, a sequential probability ratio test that begins anew whenever health has won):

    score <- max(0, score + errors x ln(faulty / healthy) - exposure x (faulty - healthy))

It says faulty at the bound and healthy again at 0; between them what was said holds. Its false alarms are computed: one
entity at the healthy rate gives at most one in exp(bound) samples on average (Wald's inequality; Lorden 1971), whatever
the size of the samples. Many errors decide in one sample, few in as many as they take.
"""

from dataclasses import dataclass
from math import exp, log

import numpy as np

from detectors.stats.scan import Floats

SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True, kw_only=True)
class RateTest:
    """healthy, faulty: errors per unit of exposure. bound: natural logarithm of the evidence that is enough.

    bound 24.5 gives 24,576 GPUs (147,456 port ends of a non-blocking fabric, domain.md 1) at a sample every 30 s one
    false alarm in 104 days, were every port always at the healthy limit.
    """

    healthy: float
    faulty: float
    bound: float = 24.5

    def after(self, score: Floats, errors: Floats, exposure: Floats) -> Floats:
        """The score one sample later. NaN is a score of 0 before, and no change for a sample that says nothing."""
        before = np.nan_to_num(score)
        moved = before + errors * log(self.faulty / self.healthy) - exposure * (self.faulty - self.healthy)
        return np.where(np.isnan(moved), before, np.clip(moved, 0.0, self.bound))

    def false_alarms_per_day(self, entities: int, interval_seconds: float) -> float:
        """At most so many, over all entities together, each of them at the healthy rate."""
        return entities * SECONDS_PER_DAY / interval_seconds * exp(-self.bound)


def onset(began: Floats, score_before: Floats, score: Floats, at: Floats) -> Floats:
    """When the evidence that still counts began: the first sample since the score was last 0 (the CUSUM's own estimate
    of the change). NaN while it is 0.
    """
    fresh = (score > 0) & ~(np.nan_to_num(score_before) > 0)
    return np.where(score > 0, np.where(fresh, at, began), np.nan)
