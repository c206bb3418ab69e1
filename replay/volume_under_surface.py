"""VUS-PR: precision against recall of a score over time, at every threshold and every tolerance at a boundary.

Paparrizos et al., PVLDB 15(11), 2022: labels fade out around each anomaly over a buffer; the area under the curve of
precision against recall, where recall also asks how many anomalies were touched at all, is averaged over the buffers.
No point is adjusted. The score of chance is about the share of anomalous points.
"""

import numpy as np
import numpy.typing as npt

THRESHOLDS_MAXIMUM = 250
BUFFER_STEPS = 5


def vus_pr(scores: npt.ArrayLike, labels: npt.ArrayLike, *, buffer_points: int) -> float:
    """0 to 1. scores, labels: (n,), higher is worse. buffer_points: the widest tolerance. Raises ValueError when no
    point is labelled.
    """
    score, label = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
    if not label.any():
        raise ValueError("no point is labelled: precision against recall says nothing")
    widths = np.unique(np.linspace(0, buffer_points, BUFFER_STEPS + 1).astype(np.int64))
    return float(np.mean([_area(score, label, int(width)) for width in widths]))


def _area(score: npt.NDArray[np.float64], label: npt.NDArray[np.bool_], width: int) -> float:
    """Average precision with labels that fade out over half of the width on both sides."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], label, [False]]).astype(np.int8)))
    segments = list(zip(edges[::2], edges[1::2], strict=True))
    faded = label.astype(np.float64)
    spans = []
    for begin, end in segments:
        first, last = max(begin - width // 2, 0), min(end + width // 2, len(label))
        for points, away in (
            (np.arange(first, begin), begin - np.arange(first, begin)),
            (np.arange(end, last), np.arange(end, last) - end + 1),
        ):
            faded[points] = np.maximum(faded[points], np.sqrt(np.maximum(1 - away / max(width, 1), 0.0)))
        spans.append((first, last))
    weight = (label.sum() + faded.sum()) / 2
    levels = np.unique(score)[::-1]
    if len(levels) > THRESHOLDS_MAXIMUM:
        levels = np.quantile(score, np.linspace(1, 0, THRESHOLDS_MAXIMUM))
    recalls, precisions = [0.0], [1.0]
    for level in levels:
        said = score >= level
        hit = float(faded[said].sum())
        touched = sum(bool(said[first:last].any()) for first, last in spans) / len(spans)
        recalls.append(min(hit / weight, 1.0) * touched)
        precisions.append(hit / max(int(said.sum()), 1))
    return float(np.sum(np.diff(recalls) * np.array(precisions[1:])))
