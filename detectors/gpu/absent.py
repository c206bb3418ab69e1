"""GPUs that vanish from their node's rows while the node goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.slots import GPU_ID
from detectors.planned import PLAN_COLUMNS, forgiven, spread, still_needed, windows
from detectors.silence import heard_alone, intervals, returned, seconds, silences
from schemas.columns import UTC_MICROSECONDS
from schemas.gpu import Gpu
from schemas.job import Maintenance

SLOT, NODE, PLAN = "slot", "node", "plan"


@dataclass(frozen=True, kw_only=True)
class GpuAbsent:
    """A GPU drops off the PCIe bus and its series simply ends, with or without XID 79.

    What it looks like: a slot that reported before is missing from the node's rows while other slots go on
    (dcgm-exporter issue 348, NVSentinel pull request 195). A node silent as a whole is telemetry or a lost node.
    Formula: no row of the slot for max(minimum_seconds, missed_intervals * interval), and the node heard at least one
    and a half intervals after the slot's last row. After a silence of the node every slot gets the same time again.
    Ends with the slot's next row. Onset = last row + interval.
    Defaults: 3 intervals and 5 s: an exporter that reads slots one by one may slip a scrape.
    A silence that maintenance of the GPU, its node or its domains touches is forgotten.
    Cannot see: a slot that never reported; the last slot of a node; GPUs that an exporter drops on purpose, as some do
    with unallocated ones (dcgm-exporter issue 569).
    """

    missed_intervals: float = 3.0
    minimum_seconds: float = 5.0

    @property
    def name(self) -> str:
        return "gpu.absent"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu, Maintenance)

    @property
    def keeps(self) -> pl.Schema:
        """One row per slot and per node (last row, whether told absent, since when it is back), and open plans."""
        return pl.Schema(
            {
                "row": pl.String(), "id": pl.String(), "time": UTC_MICROSECONDS, "told": pl.Boolean(),
                "since": UTC_MICROSECONDS, **PLAN_COLUMNS,
            }
        )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        interval = context.intervals_seconds["gpu"]
        limit = max(intervals(self.missed_intervals, interval), timedelta(seconds=self.minimum_seconds))
        plans = pl.concat([state.filter(row=PLAN).select(PLAN_COLUMNS.names()), windows(tables[Maintenance])])
        slots = tables[Gpu].select(GPU_ID.alias("id"), "time", told=pl.lit(False))
        nodes = tables[Gpu].select("time", id="node", since=pl.lit(None, UTC_MICROSECONDS))
        nodes_before = state.filter(row=NODE).select("id", "time", "since")
        gaps, slots_after = silences(
            slots, state.filter(row=SLOT).select("id", "time", "told"), by="id", now=context.now, limit=limit
        )
        node_gaps, nodes_after = silences(nodes, nodes_before, by="id", now=context.now, limit=limit)
        returns = returned(nodes_before, node_gaps, by="id").select("time", node="id")
        last_return = returns.group_by(id="node").agg(since=pl.col("time").max())
        gaps = gaps.with_columns(node=pl.col("id").str.split("/").list.first())
        beats = pl.concat([nodes_before.select("id", "time"), nodes.select("id", "time")]).rename({"id": "node"})
        beats = beats.filter(pl.col("node").is_in(gaps["node"].unique().implode())).unique()
        grace = timedelta(seconds=1.5 * interval)
        alone = heard_alone(gaps.filter(~pl.col("told")), beats, returns, group="node", grace=grace)
        begun = _begun(alone, spread(plans, context.topology), limit, context)
        meant, lost = begun.filter("forgiven"), begun.filter(~pl.col("forgiven"))
        told = pl.concat([gaps.filter("told").select("id", "time", "until"), lost.select("id", "time", "until")])
        said = _statements(lost, told, interval, limit)
        lasting = pl.col("until").is_null()
        slots_after = slots_after.join(meant.filter(lasting), on="id", how="anti").with_columns(
            told=pl.col("id").is_in(told.filter(lasting)["id"].implode())
        )
        kept = [
            slots_after.with_columns(row=pl.lit(SLOT)),
            nodes_after.drop("since").join(last_return, on="id", how="left").with_columns(row=pl.lit(NODE)),
            still_needed(plans, context.now, limit).with_columns(row=pl.lit(PLAN)),
        ]
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        return Detection(
            ordered(findings_frame(said, self.name, "gpu_fallen_off_bus", "gpu")),
            after.sort("row", "id", *PLAN_COLUMNS),
        )


def _begun(alone: pl.DataFrame, plans: pl.DataFrame, limit: timedelta, context: Context) -> pl.DataFrame:
    """The first instant of each silence at which the slot is missed and the node heard, and whether it was meant."""
    timed = alone.with_columns(at=pl.max_horizontal(pl.col("base") + limit, "heard"))
    met = (pl.col("at") < context.now) & (pl.col("until").is_null() | (pl.col("at") < pl.col("until")))
    first = timed.filter(met).sort("id", "time", "at").unique(["id", "time"], keep="first", maintain_order=True)
    return first.with_columns(forgiven=forgiven(first, plans, {"gpu": "id", "node": "node"}, at="at", limit=limit))


def _statements(lost: pl.DataFrame, told: pl.DataFrame, interval_seconds: float, limit: timedelta) -> pl.DataFrame:
    begins = lost.select(
        "id", last="time", time="at", waited_since="base", active=pl.lit(True), action=pl.lit("reboot_node")
    )
    begins = begins.with_columns(last_row_at="last").with_columns(evidence("last_row_at", "waited_since"))
    ends = told.filter(pl.col("until").is_not_null()).select("id", last="time", time="until", active=pl.lit(False))
    return pl.concat([begins, ends], how="diagonal").with_columns(
        entity="id", code=pl.lit("absent"), severity=pl.lit("page"),
        first_bad_at=pl.col("last") + timedelta(seconds=interval_seconds),
        score=seconds(pl.col("time") - pl.col("last")),
        threshold=pl.lit(limit.total_seconds()),
    )  # fmt: skip
