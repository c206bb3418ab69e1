"""GPUs whose NVLinks make errors."""

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
COUNTERS = ("nvlink_crc_error_total", "nvlink_replay_total", "nvlink_recovery_total")


@dataclass(frozen=True, kw_only=True)
class NvlinkErrors:
    """A lane between a GPU and its NVSwitch is noisy: a bad solder joint, connector, cable or retimer.

    What it looks like: CRC errors grow; packets are replayed; when that does not help the link trains anew, and all
    traffic waits for it. Everything still arrives, slower, until XID 74 ends it.
    Formula: errors within `window_seconds`, weighed by what DCGM makes of each: a CRC error counts 1, a replay
    `replay_weight`, a recovery `recovery_weight`. The level begins at `errors` and ends when the window is clean.
    It pages: whoever shares a collective with the GPU waits for its link.
    Defaults: DCGM warns at one CRC error and fails at 100 a second or at one replay or recovery; gcm tolerates none,
    imbue five. One error is no reason to wake anybody: 10 in 300 s for CRC errors alone, one recovery, or two replays.
    Cannot see: which of the links (the table has sums), nor which end of it: the GPU that counts is the one named.
    """

    errors: int = 10
    window_seconds: float = 300.0
    replay_weight: int = 5
    recovery_weight: int = 10

    @property
    def name(self) -> str:
        return "gpu.nvlink_errors"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        """Per GPU the last totals, and the weighed increments of the last `window_seconds` (RECENT_COLUMNS)."""
        totals = dict.fromkeys(COUNTERS, pl.Int64())
        return pl.Schema({"row": pl.String(), "node": pl.String(), "gpu": pl.Int64(), **totals, **RECENT_COLUMNS})

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        rows = tables[Gpu]["node", "gpu", "time", *COUNTERS]
        totals, before = apart(state, TOTAL)
        totals, before = totals["node", "gpu", *COUNTERS], before[RECENT_COLUMNS.names()]
        rose, totals_after = increments(rows, totals, by=["node", "gpu"], counters=dict.fromkeys(COUNTERS))
        if rose.is_empty() and before.is_empty() and totals_after is totals:
            return Detection(NO_FINDINGS, state)
        crc, replays, recoveries = (pl.col(name) for name in COUNTERS)
        rises = rose.select(
            GPU_ID, "time", *COUNTERS, amount=crc + self.replay_weight * replays + self.recovery_weight * recoveries
        )
        changes, recent = crowded(
            rises.select("entity", "time", "amount"), before,
            now=context.now, window=timedelta(seconds=self.window_seconds), begins_at=self.errors, ends_below=1,
        )  # fmt: skip
        said = (
            changes.join(rises.drop("amount"), on=["entity", "time"], how="left", maintain_order="left")
            .rename({name: name.replace("_total", "_new") for name in COUNTERS})
            .with_columns(
                evidence(*(name.replace("_total", "_new") for name in COUNTERS)), code=pl.lit("nvlink_errors"),
                severity=pl.lit("page"), score=pl.col("amount").cast(pl.Float64),
                threshold=pl.lit(float(self.errors)), action=pl.when("active").then(pl.lit("reset_gpu")),
            )
        )  # fmt: skip
        kept = [totals_after.with_columns(row=pl.lit(TOTAL)), recent.with_columns(row=pl.lit(RECENT))]
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        return Detection(ordered(findings_frame(said, self.name, "gpu_nvlink", "gpu")), after)
