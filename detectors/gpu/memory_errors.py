"""GPUs whose memory had an error that could not be corrected."""

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
COUNTER = "ecc_uncorrectable_total"


@dataclass(frozen=True, kw_only=True)
class MemoryErrors:
    """Two bits of one word of HBM or SRAM flip, or a row dies: what was computed with it is wrong or lost.

    What it looks like: the counter of uncorrectable ECC errors rises, usually with XID 48, 94 or 95, sometimes in the
    counter alone (a GPU that degrades can stall the very library that logs its events: NVSentinel issue 1748).
    Formula: `errors` or more new ones within `hold_seconds`; the level ends when the window is clean. The first value
    seen is no error, as counters start anywhere; a fall is a reset, after which it counts from zero.
    Defaults: 1, as DCGM fails a GPU at any volatile double-bit error and gcm at any above 0. 3600 s: as gpu.xid, a
    reset with its checks takes up to half an hour.
    Cannot see: a counter that a reset has brought back to where it was; whether the error was contained (XID 94) or
    hit the context.
    """

    errors: int = 1
    hold_seconds: float = 3600.0

    @property
    def name(self) -> str:
        return "gpu.memory_errors"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        """Per GPU the last total, and the increments of the last `hold_seconds` (RECENT_COLUMNS)."""
        return pl.Schema(
            {"row": pl.String(), "node": pl.String(), "gpu": pl.Int64(), COUNTER: pl.Int64(), **RECENT_COLUMNS}
        )

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        rows = tables[Gpu]["node", "gpu", "time", COUNTER]
        totals, before = apart(state, TOTAL)
        totals, before = totals["node", "gpu", COUNTER], before[RECENT_COLUMNS.names()]
        rose, totals_after = increments(rows, totals, by=["node", "gpu"], counters={COUNTER: None})
        if rose.is_empty() and before.is_empty() and totals_after is totals:
            return Detection(NO_FINDINGS, state)
        rises = rose.select(GPU_ID, "time", amount=COUNTER)
        changes, recent = crowded(
            rises, before, now=context.now,
            window=timedelta(seconds=self.hold_seconds), begins_at=self.errors, ends_below=self.errors,
        )  # fmt: skip
        said = changes.with_columns(new_errors="amount").with_columns(
            evidence("new_errors"), code=pl.lit("ecc_uncorrectable"), severity=pl.lit("page"),
            score=pl.col("new_errors").cast(pl.Float64), threshold=pl.lit(float(self.errors)),
            action=pl.when("active").then(pl.lit("reset_gpu")),
        )  # fmt: skip
        kept = [totals_after.with_columns(row=pl.lit(TOTAL)), recent.with_columns(row=pl.lit(RECENT))]
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        return Detection(ordered(findings_frame(said, self.name, "gpu_memory", "gpu")), after)
