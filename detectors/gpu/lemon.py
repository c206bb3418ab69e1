"""Nodes that fail again and again, whatever is done to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.xid_catalog import FATAL_CODES
from detectors.stats.increments import RECENT_COLUMNS, crowded
from schemas.gpu import GpuEvent

LAST, RECENT = "last", "recent"


@dataclass(frozen=True, kw_only=True)
class LemonNode:
    """A node with a marginal board, riser, supply or slot: each failure is repaired, passes its tests, and returns.

    What it looks like: failures of a few nodes, often of different GPUs and codes, make up most of all failures (3 of
    63 nodes had more than half of the exclusions; RSC's lemons were 1.2 to 1.7 % of the fleet: domain.md 2.3).
    Formula: a failure is a driver error that all classifiers call a fault (as in gpu.xid) or a line "fallen off the
    bus", on any GPU of the node; lines less than `apart_seconds` after the one before are the same failure. A ticket at
    `failures` within `window_seconds`; it ends when fewer lie in the window.
    Defaults: 3 in 7 days. At 11.6 failures a day over 3,072 nodes (domain.md 2.1) a good node has 0.026 in a week, and
    3 or more with a probability of 3e-6: one false lemon in two years. Others act at 5 in 7 days (NVSentinel), or at
    the third with the same code (gpud). 300 s without a line: what one failure logs comes within minutes.
    Cannot see: failures without a driver event (a node that just goes silent); what was exchanged between two of them.
    """

    failures: int = 3
    window_seconds: float = 7 * 86_400.0
    apart_seconds: float = 300.0

    @property
    def name(self) -> str:
        return "gpu.lemon"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (GpuEvent,)

    @property
    def keeps(self) -> pl.Schema:
        """Per node the time of its last line, and its failures of the last `window_seconds` (RECENT_COLUMNS)."""
        return pl.Schema({"row": pl.String(), **RECENT_COLUMNS})

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on nodes: lemon_node."""
        apart = timedelta(seconds=self.apart_seconds)
        fatal = (pl.col("kind") == "xid") & pl.col("code").is_in(FATAL_CODES)
        lines = (
            tables[GpuEvent]
            .filter(fatal | (pl.col("kind") == "fallen_off_bus"))
            .select("node", "time")
            .rename({"node": "entity"})
        )
        if lines.is_empty() and state.is_empty():
            return Detection(ordered(), state)
        last = state.filter(row=LAST).select("entity", "time", carried=pl.lit(True))
        timeline = pl.concat([last, lines.with_columns(carried=pl.lit(False))])
        gap = pl.col("time") - pl.col("time").shift(1).over("entity")
        fresh = timeline.filter((gap >= apart).fill_null(value=True) & ~pl.col("carried"))
        changes, recent = crowded(
            fresh.select("entity", "time", amount=pl.lit(1, pl.Int64)),
            state.filter(row=RECENT).select(RECENT_COLUMNS.names()), now=context.now,
            window=timedelta(seconds=self.window_seconds), begins_at=self.failures, ends_below=self.failures,
        )  # fmt: skip
        said = changes.with_columns(failures="amount", window_days=pl.lit(self.window_seconds / 86_400)).with_columns(
            evidence("failures", "window_days"), code=pl.lit("fails_again"), severity=pl.lit("ticket"),
            score=pl.col("amount").cast(pl.Float64), threshold=pl.lit(float(self.failures)),
            action=pl.when("active").then(pl.lit("field_diagnostics")),
        )  # fmt: skip
        recently = timeline.group_by("entity").agg(pl.col("time").last()).filter(pl.col("time") + apart >= context.now)
        kept = [recently.with_columns(row=pl.lit(LAST)), recent.with_columns(row=pl.lit(RECENT))]
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        return Detection(ordered(findings_frame(said, self.name, "lemon_node", "node")), after.sort(pl.all()))
