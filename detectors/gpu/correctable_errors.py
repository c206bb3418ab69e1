"""GPUs whose memory corrects far more errors than that of their peers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.slots import GPU_ID
from detectors.stats.increments import RECENT_COLUMNS, apart, crowded, increments
from schemas.gpu import Gpu

TOTAL, RECENT = "total", "recent"
COUNTER = "ecc_correctable_total"


@dataclass(frozen=True, kw_only=True)
class CorrectableErrors:
    """A row or bank of HBM wears out: single bits flip, are corrected, and one day two of them flip together.

    What it looks like: the counter of corrected errors grows on one GPU and stands still on the others. Nothing is
    lost yet; rows are remapped (XID 63) and uncorrectable errors follow. Totals mean little (Azure lets 20,000,000
    pass), and every GPU of a driver that counts otherwise counts alike: the rate against the peers is what tells.
    Formula: at least `errors` new ones within `window_seconds`; ends with fewer than half of that. It is not said when
    more than max(`peers_minimum`, `peers_share` of all GPUs) hold the level at that instant: it is not the GPU then.
    Info, not a ticket: the GPU corrects what happens, DCGM only logs it and NVIDIA ignores XID 92 for it. A suspicion
    is shown, and an uncorrectable error or failed remap that follows belongs to it and dates from it.
    Defaults: 120 in an hour, two a minute: healthy boards of the large studies see one in weeks (H100: one memory error
    of any kind in 88,768 hours, domain.md 2.3), so a Poisson count of 120 is none of theirs. 5 % and 4 GPUs: more than
    that do not wear out in the same hour; assumptions.
    Cannot see: which bank or row; errors that nobody counts any more because the library stalls (NVSentinel issue
    1748).
    """

    errors: int = 120
    window_seconds: float = 3600.0
    peers_share: float = 0.05
    peers_minimum: int = 4

    @property
    def name(self) -> str:
        return "gpu.correctable_errors"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        """Per GPU the last total, and the increments of the last `window_seconds` (RECENT_COLUMNS)."""
        return pl.Schema(
            {"row": pl.String(), "node": pl.String(), "gpu": pl.Int64(), COUNTER: pl.Int64(), **RECENT_COLUMNS}
        )

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on GPUs: gpu_memory."""
        rows = tables[Gpu]["node", "gpu", "time", COUNTER]
        totals, before = apart(state, TOTAL)
        totals, before = totals["node", "gpu", COUNTER], before[RECENT_COLUMNS.names()]
        rose, totals_after = increments(rows, totals, by=["node", "gpu"], counters={COUNTER: None})
        if rose.is_empty() and before.is_empty() and totals_after is totals:
            return Detection(NO_FINDINGS, state)
        changes, recent = crowded(
            rose.select(GPU_ID, "time", amount=COUNTER), before, now=context.now,
            window=timedelta(seconds=self.window_seconds), begins_at=self.errors, ends_below=max(1, self.errors // 2),
        )  # fmt: skip
        gpus = context.topology.nodes.height * context.topology.gpus_per_node
        common = max(self.peers_minimum, int(self.peers_share * gpus))
        told = _with_holders(changes, before).filter(~pl.col("active") | (pl.col("gpus_alike") <= common))
        said = told.with_columns(new_errors="amount").with_columns(
            evidence("new_errors", "gpus_alike"), code=pl.lit("ecc_correctable"),
            severity=pl.lit("info"), score=pl.col("amount").cast(pl.Float64), threshold=pl.lit(float(self.errors)),
            action=pl.when("active").then(pl.lit("open_ticket")),
        )  # fmt: skip
        kept = [totals_after.with_columns(row=pl.lit(TOTAL)), recent.with_columns(row=pl.lit(RECENT))]
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        return Detection(ordered(findings_frame(said, self.name, "gpu_memory", "gpu")), after)


def _with_holders(changes: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """The changes with gpus_alike: how many GPUs hold the level once all that changes at that instant has changed."""
    holding = before.filter("active")["entity"].n_unique()
    steps = changes.group_by("time").agg(
        step=pl.when("active").then(1).otherwise(-1).sum().cast(pl.Int64)
    ).sort("time").select("time", gpus_alike=holding + pl.col("step").cum_sum())  # fmt: skip
    return changes.join(steps, on="time", how="left", maintain_order="left")
