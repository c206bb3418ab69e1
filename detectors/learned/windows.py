"""Sliding windows over the columns of one entity, and what of a column is worth learning: its level or its change.

A column that comes back to a level (flow, vibration) is judged by its mean over the window. One that wanders (a tank
that warms all day) has no level to come back to: what it did while a model was fitted says nothing about where it will
be an hour later. It is judged by how far it moved from the window before. The Dickey-Fuller test says which is which.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# Dickey and Fuller 1979, with a constant: 1 % critical value of the t statistic for long series.
DICKEY_FULLER_1_PERCENT = -3.43
MAD_TO_DEVIATION = 1.4826  # a normal distribution's standard deviation over its median absolute deviation


@dataclass(frozen=True, eq=False)
class Columns:
    """How p columns become features. wanders (p,): judged by change. window_rows: rows of one window."""

    wanders: Flags
    window_rows: int

    def features(self, values: Values) -> Values:
        """(n, p) from (n, p). A window is the row and those before it, as many as there are; the noise of one that is
        not full yet is brought down to that of a full one, so that a beginning is no alarm.
        """
        if not len(values):
            return values
        means = _trailing_means(values, self.window_rows)
        rows = np.arange(1, len(values) + 1)[:, None]
        before = means[np.maximum(np.arange(len(values)) - self.window_rows, 0)]
        whole = np.where(self.wanders, 2 * self.window_rows, self.window_rows)
        seen = np.sqrt(np.minimum(rows / whole, 1.0))
        return np.asarray(np.where(self.wanders, means - before, means) * seen, dtype=np.float64)

    @property
    def settled_rows(self) -> int:
        """Rows until every window is full."""
        return (2 if self.wanders.any() else 1) * self.window_rows


def _trailing_means(values: Values, window: int) -> Values:
    """(n, p) mean of the last `window` rows, of fewer at the beginning."""
    sums = np.vstack([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - window, 0)
    return np.asarray((sums[last] - sums[first]) / (last - first)[:, None], dtype=np.float64)


def wandering(values: Values) -> Flags:
    """(p,) whether a unit root cannot be rejected at 1 %: regression of the change on the level, one lagged change."""
    found = [_dickey_fuller(values[:, column]) > DICKEY_FULLER_1_PERCENT for column in range(values.shape[1])]
    return np.array(found, dtype=np.bool_)


def _dickey_fuller(series: Values) -> float:
    """The t statistic of the level; far below zero for a series that comes back."""
    change = np.diff(series)
    past = np.column_stack([np.ones(len(change) - 1), series[1:-1], change[:-1]])
    coefficients, _, rank, _ = np.linalg.lstsq(past, change[1:], rcond=None)
    if rank < past.shape[1]:
        return -np.inf  # perfectly regular, so certainly no random walk
    rest = change[1:] - past @ coefficients
    variance = rest @ rest / max(len(rest) - past.shape[1], 1)
    deviation = np.sqrt(variance * np.linalg.inv(past.T @ past)[1, 1])
    return float(coefficients[1] / deviation) if deviation > 0 else -np.inf


def centre_and_scale(values: Values) -> tuple[Values, Values]:
    """(p,) median and robust standard deviation; the plain one where more than half of the rows are equal."""
    centre = np.median(values, axis=0)
    scale = MAD_TO_DEVIATION * np.median(np.abs(values - centre), axis=0)
    scale = np.where(scale > 0, scale, values.std(axis=0))
    return centre, np.where(scale > 0, scale, 1.0)
