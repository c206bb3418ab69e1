"""When it began: the change point on the score, so that an alarm tells its onset and not only its first loud row.

A cumulative sum (Page 1954) of the score's distance above a reference grows from the change on; its last zero before
the alarm is the maximum likelihood estimate of the change.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from detectors.learned.windows import Values

REFERENCE = 0.5  # midway between a normal score and the threshold of 1.0


@dataclass(frozen=True)
class Stretch:
    """Rows of one alarm: onset <= first <= last. onset: estimated; first: at or above the threshold."""

    onset: int
    first: int
    last: int


def stretches(scores: Values, threshold: float) -> Iterator[Stretch]:
    """Alarms in order of time; a dip that does not bring the sum back to zero does not end one.

    The score is taken as at most twice the threshold, so that a loud alarm does not outlast its cause.
    """
    excess = np.cumsum(np.minimum(scores, 2 * threshold) - REFERENCE * threshold)
    lowest = np.minimum.accumulate(np.minimum(excess, 0.0))
    quiet = excess <= lowest
    alarms = scores >= threshold
    begins = np.flatnonzero(alarms & ~np.concatenate([[False], alarms[:-1]]))
    ends = np.flatnonzero(alarms & ~np.concatenate([alarms[1:], [False]]))
    rows = np.arange(len(scores))
    last_quiet = np.maximum.accumulate(np.where(quiet, rows, -1))
    held: Stretch | None = None
    for first, last in zip(begins, ends, strict=True):
        onset = int(last_quiet[first]) + 1
        if held is not None and onset <= held.last:
            held = Stretch(held.onset, held.first, int(last))
            continue
        if held is not None:
            yield held
        held = Stretch(onset, int(first), int(last))
    if held is not None:
        yield held
