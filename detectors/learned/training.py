"""What a model may be fitted on: history is looked through first, so that a fault is not learned as normal.

Outliers, and stretches between two jumps of a column that lie at another level than most of the history, are left out
of the fit. When that would be too much, the history is refused: then there are two kinds of normal in it, and only a
person knows which one was right. What happens three times in a history is a habit (a checkpoint, a pump that takes
turns) and is learned; so would be a fault that comes and goes as often. What creeps in slowly cannot be told from a
column that wanders, nor can a step of less than about three standard deviations of single rows from noise.
"""

from itertools import pairwise

import numpy as np

from detectors.learned.windows import Columns, Flags, Values, centre_and_scale

# In robust standard deviations of windows. Of the fault-free beginning of six recordings of a real water loop the
# farthest stands at 7; a step of 4 standard deviations of single rows stands at 11 with windows of 15 rows.
GROSS = 8.0
LEFT_OUT_SHARE_MAXIMUM = 0.10
STAYS_SHARE = 0.5
HABIT_TIMES = 3


class Unfit(ValueError):
    """History that no model may be fitted on: one line with the reason and what to do."""


def steady_rows(values: Values, window: int, names: tuple[str, ...]) -> Flags:
    """(n,) rows at the level of most of the history. Raises Unfit; a row in its text counts from 0."""
    steady = np.ones(len(values), dtype=np.bool_)
    changes = Columns(np.ones(values.shape[1], dtype=np.bool_), window).features(values)
    centre, scale = centre_and_scale(changes[2 * window :])
    jumps = np.abs(changes - centre) / scale
    jumps[: 2 * window] = 0.0
    for column in np.flatnonzero(jumps.max(axis=0) > GROSS):
        steady &= _at_level(values[:, column], np.abs(changes[:, column]), jumps[:, column], window)
        if 1 - steady.mean() > LEFT_OUT_SHARE_MAXIMUM:
            row = int(np.argmax(~steady))
            raise Unfit(
                f"{names[column]} steps to another level at row {row} of the history and {1 - steady.mean():.0%} of it "
                "is unlike the rest: it shows two kinds of normal; fit on one side of the step"
            )
    return steady


def _at_level(series: Values, changes: Values, jumps: Values, window: int) -> Flags:
    """(n,) False where the column lies between jumps at another level than in the longest stretch without one."""
    rest = jumps.copy()
    edges: dict[int, float] = {}
    while rest.max() > GROSS:
        last = int(np.argmax(rest))
        edges[last - window + 1] = changes[last]
        rest[max(last - window, 0) : last + window + 1] = 0.0
    bounds = [0, *sorted(edges), len(series)]
    stretches = list(pairwise(bounds))
    first, last = max(stretches, key=lambda stretch: stretch[1] - stretch[0])
    usual = np.median(series[first:last])
    steady = np.ones(len(series), dtype=np.bool_)
    for begin, end in stretches:
        jump = min(edges[edge] for edge in (begin, end) if edge in edges)
        steady[begin:end] = abs(np.median(series[begin:end]) - usual) < STAYS_SHARE * jump
    return steady | _habit(~steady, window)


def _habit(odd: Flags, window: int) -> bool:
    """Whether the odd rows come in as many separate stretches as make a habit."""
    rows = np.flatnonzero(odd)
    return len(rows) > 0 and 1 + int((np.diff(rows) > 2 * window).sum()) >= HABIT_TIMES


def kept_windows(features: Values, columns: Columns, names: tuple[str, ...]) -> Flags:
    """(n,) windows that may be learned from: full ones that are not far out. Raises Unfit when too many are."""
    settled = features[columns.settled_rows :]
    centre, scale = centre_and_scale(settled)
    far = np.abs(features - centre) / scale > GROSS
    far[: columns.settled_rows] = False
    far[:, [_habit(far[:, column], columns.window_rows) for column in range(far.shape[1])]] = False
    kept = np.asarray(~far.any(axis=1), dtype=np.bool_)
    kept[: columns.settled_rows] = False
    left_out = 1 - kept.sum() / len(settled)
    if left_out > LEFT_OUT_SHARE_MAXIMUM:
        worst = names[int(np.argmax(far[columns.settled_rows :].mean(axis=0)))]
        raise Unfit(
            f"{left_out:.0%} of the history is far from the rest of it, most of all in {worst}: "
            "it is no picture of normal; fit on another window"
        )
    return kept
