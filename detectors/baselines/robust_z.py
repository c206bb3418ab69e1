"""Robust z of every GPU against all others at the same instant."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.baselines.gpu_rows import METRICS, robust_z, samples_of, statements
from detectors.contract import Context, Detection, ordered
from detectors.levels import LEVEL_COLUMNS, levels
from schemas.gpu import Gpu


@dataclass(frozen=True, kw_only=True)
class RobustZ:
    """The largest robust z over the metrics of gpu_rows stays above `threshold` for `for_seconds`.

    Defaults: 6 rather than the textbook 3.5 of Iglewicz and Hoaglin 1993, which GPUs with plates of their own pass all
    the time; 30 s, so that one odd sample is none.
    """

    threshold: float = 6.0
    for_seconds: float = 30.0
    clear_seconds: float = 60.0

    @property
    def name(self) -> str:
        return "baseline.robust_z"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        return LEVEL_COLUMNS

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        del context
        scores = [f"z_{name}" for name in METRICS]
        judged = robust_z(samples_of(tables[Gpu])).with_columns(score=pl.max_horizontal(scores))
        metric = pl.coalesce(
            pl.when(pl.col(f"z_{name}") == pl.col("score")).then(pl.lit(name)) for name in METRICS
        )  # fmt: skip
        samples = judged.select("entity", "time", "score", metric=metric, bad=pl.col("score") > self.threshold)
        changes, after = levels(samples, state, for_seconds=self.for_seconds, clear_seconds=self.clear_seconds)
        return Detection(ordered(statements(changes, self.name, self.threshold)), after)
