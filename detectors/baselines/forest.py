"""An isolation forest over single samples of GPUs, fitted on the beginning of the stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import numpy as np
import polars as pl

from detectors.baselines.gpu_rows import METRICS, STATE, kept, samples_of, state_of, statements
from detectors.contract import Context, Detection, ordered
from detectors.levels import LEVEL_COLUMNS, levels
from schemas.gpu import Gpu

ROWS_KEPT = 4096


@dataclass(frozen=True, kw_only=True)
class Forest:
    """A sample is abnormal when it is easier to isolate than all but `contamination` of the samples of the first
    `fit_seconds`; said when that has held for `for_seconds`.

    100 trees of 256 samples, as in Liu, Ting and Zhou 2008. The forest is grown again from the kept samples at every
    step, with the same seed: it is a yardstick and keeps no objects.
    """

    fit_seconds: float = 240.0
    contamination: float = 0.001
    for_seconds: float = 30.0
    seed: int = 1

    @property
    def name(self) -> str:
        return "baseline.isolation_forest"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        return STATE

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        from sklearn.ensemble import IsolationForest  # noqa: PLC0415  # costs a command two seconds, and few need it

        samples = samples_of(tables[Gpu])
        learned_until = context.began + timedelta(seconds=self.fit_seconds)
        remembered = kept(state, "row").select("time", *METRICS, "entity", "tick")
        fresh = samples.filter(pl.col("time") < learned_until).select(remembered.columns)
        history = pl.concat([remembered, fresh])
        history = history.gather_every(max(1, -(-len(history) // ROWS_KEPT)))
        before = kept(state, "level").select(LEVEL_COLUMNS.names())
        judged = samples.filter(pl.col("time") >= learned_until)
        if judged.is_empty() or history.is_empty():
            return Detection(ordered(), state_of(before, history))
        forest = IsolationForest(n_estimators=100, random_state=self.seed).fit(history.select(METRICS).to_numpy())
        usual = -forest.score_samples(history.select(METRICS).to_numpy())
        threshold = float(np.quantile(usual, 1 - self.contamination))
        score = pl.Series("score", -forest.score_samples(judged.select(METRICS).to_numpy()))
        rows = judged.select("entity", "time").with_columns(score, metric=pl.lit("all"), bad=score > threshold)
        changes, after = levels(rows, before, for_seconds=self.for_seconds, clear_seconds=60.0)
        return Detection(ordered(statements(changes, self.name, threshold)), state_of(after, history))
