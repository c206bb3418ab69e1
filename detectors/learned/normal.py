"""What is normal, learned from history: principal components of sliding windows, judged by three statistics.

T2 (Hotelling 1931) asks how far a window is from the centre along the directions in which normal windows vary, Q
(Jackson and Mudholkar 1979) how far off those directions it is, and the third how far a single column is from its own
centre: a fault in one column alone is diluted in the other two. Each is divided by its own prediction limit and the
largest is the score, so 1.0 is the threshold. Limits account for how few independent windows a history holds: as many
as fit into it side by side, not as many as it has rows.

The model is plain numbers (`document`) and no object of any library: it can be read, diffed and stored as JSON.
Chosen on the five valve1 recordings of the Skoltech Anomaly Benchmark, fitted on the first 400 rows of each: a window
of 15 rows, 90 % of variance and half a percent of false alarms a window. These five are what it was tuned on.
An isolation forest on the same features found 17 % of those faults at the same rate of false alarms, and together with
it there were half as many false alarms again without better recall: it does not earn its place here.
What it cannot see: a fault that stays within what history covers, or creeps in a column that wanders anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from detectors.learned.training import Unfit, kept_windows, steady_rows
from detectors.learned.windows import Columns, Values, centre_and_scale, wandering

WINDOWS_MINIMUM = 10


@dataclass(frozen=True, kw_only=True)
class Learning:
    """window_rows: rows of a sliding window. variance_share: that the components explain. false_alarm_share: of
    independent normal windows that alarm, split evenly over the three statistics.
    """

    window_rows: int = 15
    variance_share: float = 0.9
    false_alarm_share: float = 0.005


@dataclass(frozen=True, eq=False, kw_only=True)
class Normal:
    """p columns, k components. origin (p,): median of the rows. centre, scale, deviation (p,): of the
    features; deviation in units of scale.
    loadings (p, p): directions in columns, the k that explain most first; variances (p,) along them. t2_limit, q_limit,
    z2_limit: what a score of 1.0 is.
    """

    names: tuple[str, ...]
    columns: Columns
    origin: Values
    centre: Values
    scale: Values
    deviation: Values
    loadings: Values
    variances: Values
    components: int
    t2_limit: float
    q_limit: float
    z2_limit: float

    def scores(self, values: Values) -> Values:
        """(n,) 1.0 and more is abnormal, from (n, p) rows of one entity in order of time."""
        away = self.away(values)
        along = (away * self.deviation) @ self.loadings
        kept = along[:, : self.components]
        t2 = (kept**2 / self.variances[: self.components]).sum(axis=1) / self.t2_limit
        off = (along[:, self.components :] ** 2).sum(axis=1) / self.q_limit
        single = (away**2).max(axis=1) / self.z2_limit
        return np.asarray(np.maximum(np.maximum(t2, off), single), dtype=np.float64)

    def away(self, values: Values) -> Values:
        """(n, p) features in standard deviations from their centre: which columns a score is about."""
        features = self.columns.features(values - self.origin)
        return np.asarray((features - self.centre) / (self.scale * self.deviation), dtype=np.float64)

    def document(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        return {
            "names": list(self.names), "window_rows": self.columns.window_rows,
            "wanders": self.columns.wanders.tolist(), "components": self.components,
            **{name: getattr(self, name).tolist() for name in ARRAYS},
            **{name: getattr(self, name) for name in LIMITS},
        }  # fmt: skip


ARRAYS = ("origin", "centre", "scale", "deviation", "loadings", "variances")
LIMITS = ("t2_limit", "q_limit", "z2_limit")


def thawed(document: dict[str, Any]) -> Normal:
    """The model that a document describes. Raises KeyError for one that lacks something."""
    wanders = np.array(document["wanders"], dtype=np.bool_)
    return Normal(
        names=tuple(document["names"]), columns=Columns(wanders, document["window_rows"]),
        components=document["components"],
        t2_limit=document["t2_limit"], q_limit=document["q_limit"], z2_limit=document["z2_limit"],
        **{name: np.array(document[name], dtype=np.float64) for name in ARRAYS},
    )  # fmt: skip


def fit(histories: Sequence[Values], names: tuple[str, ...], learning: Learning) -> Normal:
    """One model of entities that are alike: histories are (n, p) rows of each in order of time, finite.
    Raises Unfit with the reason, one line.
    """
    window = learning.window_rows
    needed = (2 + WINDOWS_MINIMUM) * window
    longest = max((len(history) for history in histories), default=0)
    if longest < needed:
        raise Unfit(f"{longest} rows of history are too few: {needed} are needed for windows of {window} rows")
    for history in histories:
        still = [
            name for name, moves in zip(names, history.min(axis=0) < history.max(axis=0), strict=True) if not moves
        ]
        if still:
            raise Unfit(f"{', '.join(still)} is constant in the history of this entity: leave it out with --columns")
    steady = [
        history[steady_rows(history, window, names)] for history in histories if len(history) >= needed
    ]  # fmt: skip
    wanders = np.mean([wandering(history) for history in steady], axis=0) > 0.5
    columns = Columns(np.asarray(wanders, dtype=np.bool_), window)
    origin = np.median(np.vstack(steady), axis=0)
    featured = [columns.features(history - origin) for history in steady]
    learned = [features[kept_windows(features, columns, names)] for features in featured]
    return _model(np.vstack(learned), names, columns, origin, learning)


def _model(learned: Values, names: tuple[str, ...], columns: Columns, origin: Values, learning: Learning) -> Normal:
    """learned: (n, p) features that are taken as normal."""
    centre, scale = centre_and_scale(learned)
    standing = (learned - centre) / scale
    variances, loadings = np.linalg.eigh(np.atleast_2d(np.cov(standing.T)))
    variances, loadings = np.maximum(variances[::-1], 1e-12), loadings[:, ::-1]
    windows = len(learned) / columns.window_rows
    explained = np.cumsum(variances) / variances.sum()
    most = max(1, min(len(names), int(windows / 3)))
    components = min(int(np.searchsorted(explained, learning.variance_share)) + 1, most)
    share = learning.false_alarm_share / 3
    along, seen = standing @ loadings, 1 - share
    deviation = standing.std(axis=0)
    # habits are no normal distribution: no limit lies below what history itself shows but for that share
    return Normal(
        names=names, columns=columns, origin=origin, centre=centre, scale=scale, deviation=deviation,
        loadings=loadings, variances=variances, components=components,
        t2_limit=max(
            _t2_limit(components, windows, share),
            float(np.quantile((along[:, :components] ** 2 / variances[:components]).sum(axis=1), seen)),
        ),
        q_limit=max(
            _q_limit(variances[components:], windows, share),
            float(np.quantile((along[:, components:] ** 2).sum(axis=1), seen)),
        ),
        z2_limit=max(
            float((1 + 1 / windows) * _quantiles().stdtrit(windows - 1, 1 - share / 2 / len(names)) ** 2),
            float(np.quantile(((standing / deviation) ** 2).max(axis=1), seen)),
        ),
    )  # fmt: skip


def _quantiles() -> Any:
    """scipy.special, whose import costs every command a second though only fitting needs it."""
    from scipy import special  # type: ignore[import-untyped]  # noqa: PLC0415  # ships no types; see above

    return special


def _t2_limit(components: int, windows: float, share: float) -> float:
    """Hotelling's prediction limit for one more window after `windows` independent ones."""
    factor = components * (windows - 1) * (windows + 1) / (windows * (windows - components))
    return float(factor * _quantiles().fdtri(components, windows - components, 1 - share))


def _q_limit(variances: Values, windows: float, share: float) -> float:
    """Of a weighted sum of squares by Box's g and h, for variances that `windows` windows have estimated."""
    if not len(variances):
        return float("inf")
    total, squares = float(variances.sum()), float((variances**2).sum())
    freedom = total**2 / squares
    return float(squares / total * freedom * _quantiles().fdtri(freedom, windows - 1, 1 - share))
