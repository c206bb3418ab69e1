"""GPUs whose PCIe link replays too much."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.pcie_speed import FULL_GIGATRANSFERS_PER_SECOND, SPEED
from detectors.gpu.slots import GPU_ID
from detectors.stats.increments import RECENT_COLUMNS, apart, crowded, increments
from schemas.gpu import Gpu

TOTAL, RECENT = "total", "recent"
COUNTER = "pcie_replay_total"
COUNTER_BITS = 32  # NVML


@dataclass(frozen=True, kw_only=True)
class PcieReplays:
    """A lane between GPU and host is marginal: packets fail their checksum and are sent again.

    What it looks like: the replay counter grows; transfers slow down, and XID 79 often follows (43 to 63 % of PCIe
    errors come with one: domain.md 2.3). The total means nothing: 150 was seen on a healthy GPU.
    Formula: more than `replays` within `window_seconds` on a Gen5 x16 link; a slower or narrower link sends less, so a
    replay there weighs 512 GT/s over its own speed. Ends with fewer than half of that. A fall is a reset.
    Defaults: 31 a minute, DCGM's ceil(GT/s / 1000 * 60 * lanes): the specification's bit error rate of 1e-12 used up.
    Cannot see: whether card, riser or switch is at fault; corrected errors that need no replay.
    """

    replays: int = 31
    window_seconds: float = 60.0

    @property
    def name(self) -> str:
        return "gpu.pcie_replays"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        """Per GPU the last total, and the weighed increments of the last `window_seconds` (RECENT_COLUMNS)."""
        return pl.Schema(
            {"row": pl.String(), "node": pl.String(), "gpu": pl.Int64(), COUNTER: pl.Int64(), **RECENT_COLUMNS}
        )

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        rows = tables[Gpu]["node", "gpu", "time", COUNTER]
        totals, before = apart(state, TOTAL)
        totals, before = totals["node", "gpu", COUNTER], before[RECENT_COLUMNS.names()]
        rose, totals_after = increments(rows, totals, by=["node", "gpu"], counters={COUNTER: COUNTER_BITS})
        if rose.is_empty() and before.is_empty() and totals_after is totals:
            return Detection(NO_FINDINGS, state)
        speeds = tables[Gpu].join(rose, on=["node", "gpu", "time"], how="semi").select("node", "gpu", "time", SPEED)
        weight = (FULL_GIGATRANSFERS_PER_SECOND / pl.col("gigatransfers_per_second")).round().cast(pl.Int64)
        rises = rose.join(speeds, on=["node", "gpu", "time"], how="left", maintain_order="left").select(
            GPU_ID, "time", amount=pl.col(COUNTER) * weight.fill_null(1).clip(lower_bound=1)
        )
        changes, recent = crowded(
            rises, before, now=context.now,
            window=timedelta(seconds=self.window_seconds), begins_at=self.replays + 1,
            ends_below=max(1, self.replays // 2),
        )  # fmt: skip
        said = changes.with_columns(weighed_replays="amount").with_columns(
            evidence("weighed_replays"), code=pl.lit("pcie_replays"), severity=pl.lit("ticket"),
            score=pl.col("amount").cast(pl.Float64), threshold=pl.lit(float(self.replays)),
            action=pl.when("active").then(pl.lit("field_diagnostics")),
        )  # fmt: skip
        kept = [totals_after.with_columns(row=pl.lit(TOTAL)), recent.with_columns(row=pl.lit(RECENT))]
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        return Detection(ordered(findings_frame(said, self.name, "gpu_pcie", "gpu")), after)
