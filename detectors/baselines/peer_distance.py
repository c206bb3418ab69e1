"""A peer detector after Minder (NSDI 2025): the machine whose metrics look least like the others' for minutes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import numpy as np
import polars as pl

from detectors.baselines.gpu_rows import FLOORS, METRICS, STATE, kept, samples_of, state_of, statements
from detectors.contract import Context, Detection, ordered
from detectors.levels import LEVEL_COLUMNS, levels
from schemas.gpu import Gpu


@dataclass(frozen=True, kw_only=True)
class PeerDistance:
    """Once a minute and metric by metric: each GPU's samples of the last `window_seconds` are a vector; its distance is
    the sum of Euclidean distances to all other vectors; the GPU with the largest one is abnormal when its distance is
    more than `threshold` standard deviations above the mean, and is said when that has held for `for_seconds`.

    As in the paper: similarity of machines within one job, metric by metric, only the most distant one, continuity of
    four minutes. Unlike it: no variational autoencoder before the distance, and GPUs instead of machines, so that
    it can name what the others name.
    """

    threshold: float = 3.0
    window_seconds: float = 60.0
    for_seconds: float = 240.0

    @property
    def name(self) -> str:
        return "baseline.minder_like"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        return STATE

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        remembered = kept(state, "row").select("time", *METRICS, "entity", "tick")
        rows = pl.concat([remembered, samples_of(tables[Gpu]).select(remembered.columns)])
        minute = pl.col("tick").dt.truncate("1m")
        whole = pl.lit(context.now) >= minute + timedelta(seconds=self.window_seconds)
        minutes = rows.filter(whole).with_columns(minute=minute).sort("tick", "entity").partition_by("minute")
        judged = [self._minute(part) for part in minutes if not part.is_empty()]
        before = kept(state, "level").select(LEVEL_COLUMNS.names())
        samples = pl.concat([pl.DataFrame(schema=SAMPLES), *judged])
        changes, after = levels(samples, before, for_seconds=self.for_seconds, clear_seconds=60.0)
        return Detection(ordered(statements(changes, self.name, self.threshold)), state_of(after, rows.filter(~whole)))

    def _minute(self, rows: pl.DataFrame) -> pl.DataFrame:
        """SAMPLES of one minute: how many deviations each GPU's distance is above the mean; only the largest is bad."""
        most = rows.group_by("entity").len()["len"].max()
        counted = rows.filter(pl.len().over("entity") == most)
        entities = counted["entity"].unique(maintain_order=True).sort()
        counted = counted.sort("entity", "tick")
        best = np.zeros(len(entities))
        leads = np.zeros(len(entities), dtype=np.int64)
        for index, metric in enumerate(METRICS):
            vectors = counted[metric].to_numpy().reshape(len(entities), -1) / FLOORS[metric]
            distance = _distances(vectors)
            spread = max(float(distance.std()), float(np.sqrt(vectors.shape[1])))
            deviations = (distance - distance.mean()) / spread
            alone = np.where(deviations == deviations.max(), deviations, 0.0)
            leads = np.where(alone > best, index, leads)
            best = np.maximum(best, alone)
        return pl.DataFrame(
            {
                "entity": entities, "time": pl.Series([rows["time"].max()] * len(entities), dtype=SAMPLES["time"]),
                "score": best, "metric": [METRICS[index] for index in leads], "bad": best > self.threshold,
            }
        )  # fmt: skip


SAMPLES = pl.Schema(
    {
        "entity": pl.String(),
        "time": LEVEL_COLUMNS["time"],
        "score": pl.Float64(),
        "metric": pl.String(),
        "bad": pl.Boolean(),
    }
)


def _distances(
    vectors: np.ndarray[tuple[int, int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(n,) mean Euclidean distance of each row to all others, by blocks so that memory stays bounded."""
    squares = (vectors**2).sum(axis=1)
    sums = [
        np.sqrt(np.maximum(squares[part, None] + squares - 2 * vectors[part] @ vectors.T, 0.0)).sum(axis=1)
        for part in np.array_split(np.arange(len(vectors)), max(1, len(vectors) // 512))
    ]
    return np.concatenate(sums) / max(len(vectors) - 1, 1)
