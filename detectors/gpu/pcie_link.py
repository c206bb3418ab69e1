"""GPUs whose PCIe link has trained to less than it can."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.pcie_speed import SPEED
from detectors.gpu.slots import GPU_ID
from detectors.levels import LEVEL_COLUMNS, levels
from schemas.gpu import Gpu

BEST, LEVEL = "best", "level"
SEEN = ("pcie_width", "pcie_generation", "gigatransfers_per_second", "expected_gigatransfers_per_second")


@dataclass(frozen=True, kw_only=True)
class PcieLink:
    """A dirty or badly seated edge connector loses lanes or speed: the link trains to what works and says nothing.

    What it looks like: fewer lanes or a lower generation than before, or than the other GPUs of the host; transfers
    to host and network slow down, and nothing is logged (NVSentinel issue 890).
    Formula: lanes * transfer rate of the generation below the best this GPU has shown and below the median of the GPUs
    of its host at that instant, whichever of the two is known to be higher, for `sustained_seconds` of samples under
    load; ends after `clear_seconds` at full speed.
    Load is a utilization of `busy_percent` or more: an idle GPU lowers its generation to save power. Samples that are
    idle or do not say say nothing.
    Defaults: 50 %, as a training rank shows 90 or more and an idle GPU 0. 5 s: a link trains anew within one, and a
    utilization is the mean of up to one, so that a load that begins or ends is no more than two samples at 1 Hz.
    Cannot see: a whole host that came up slow, as nothing says what it should have been; a GPU that never works.
    """

    busy_percent: float = 50.0
    sustained_seconds: float = 5.0
    clear_seconds: float = 60.0

    @property
    def name(self) -> str:
        return "gpu.pcie_link"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    @property
    def keeps(self) -> pl.Schema:
        """Per GPU the best speed it has shown; per GPU ever too slow its level."""
        best = {"node": pl.String(), "gpu": pl.Int64(), "best": pl.Float64()}
        return pl.Schema({"row": pl.String(), **best, **LEVEL_COLUMNS})

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        del context
        busy = pl.col("utilization_percent") >= self.busy_percent
        rows = tables[Gpu].filter(busy).select("node", "gpu", "time", "pcie_width", "pcie_generation", SPEED)
        rows = rows.filter(pl.col("gigatransfers_per_second").is_not_null())
        best_before = state.filter(row=BEST).select("node", "gpu", "best")
        best = pl.concat([best_before, rows.select("node", "gpu", best="gigatransfers_per_second")])
        best_after = best.group_by("node", "gpu").agg(pl.col("best").max())
        levels_before = state.filter(row=LEVEL).select(LEVEL_COLUMNS.names())
        samples = _samples(rows, best_before, _unequal(rows, best_before, levels_before), levels_before)
        changes, levels_after = levels(
            samples, levels_before, for_seconds=self.sustained_seconds, clear_seconds=self.clear_seconds
        )
        said = changes.with_columns(
            evidence(*SEEN), code=pl.lit("pcie_downtrained"), severity=pl.lit("ticket"), threshold=pl.lit(1.0),
            score=pl.col("expected_gigatransfers_per_second") / pl.col("gigatransfers_per_second"),
            action=pl.when("active").then(pl.lit("field_diagnostics")),
        )  # fmt: skip
        kept = [best_after.with_columns(row=pl.lit(BEST)), levels_after.with_columns(row=pl.lit(LEVEL))]
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        return Detection(ordered(findings_frame(said, self.name, "gpu_pcie", "gpu")), after.sort(pl.all()))


def _unequal(rows: pl.DataFrame, best: pl.DataFrame, levels_before: pl.DataFrame) -> pl.Series:
    """Nodes on which not every speed is the same, now and before, and those with a level: all others need no look."""
    speeds = pl.concat([rows.select("node", speed="gigatransfers_per_second"), best.select("node", speed="best")])
    spread = speeds.group_by("node").agg(least=pl.col("speed").min(), most=pl.col("speed").max())
    known = levels_before.select(node=pl.col("entity").str.split("/").list.first())["node"]
    return pl.concat([spread.filter(pl.col("least") < pl.col("most"))["node"], known]).unique()


def _samples(rows: pl.DataFrame, best: pl.DataFrame, nodes: pl.Series, levels_before: pl.DataFrame) -> pl.DataFrame:
    """entity, time, bad and the evidence of the GPUs of these nodes that are too slow now or have been before."""
    slot = ["node", "gpu"]
    speed = pl.col("gigatransfers_per_second")
    judged = (
        rows.filter(pl.col("node").is_in(nodes.implode()))
        .join(best, on=slot, how="left", maintain_order="left")
        .with_columns(
            own=pl.max_horizontal(speed.cum_max().over(slot), "best"), peers=speed.median().over("node", "time")
        )
        .with_columns(expected_gigatransfers_per_second=pl.max_horizontal("own", "peers"))
        .with_columns(GPU_ID, bad=speed < pl.col("expected_gigatransfers_per_second"))
    )
    concerned = pl.concat([levels_before["entity"], judged.filter("bad")["entity"]]).unique()
    return judged.filter(pl.col("entity").is_in(concerned.implode())).select("entity", "time", "bad", *SEEN)
