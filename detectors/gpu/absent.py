"""GPUs that vanish from their node's rows while the node goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.heard import BY_GPU, BY_NODE, heard, rows_of
from detectors.planned import PLAN_COLUMNS, forgiven, spread, still_needed, with_windows
from detectors.silence import heard_alone, intervals, returned, seconds, silences
from detectors.stats.sorted_state import located, part
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
        interval, rows = context.intervals_seconds["gpu"], tables[Gpu]
        limit = max(intervals(self.missed_intervals, interval), timedelta(seconds=self.minimum_seconds))
        carried = part(state, "row", PLAN)[PLAN_COLUMNS.names()]
        plans = with_windows(carried, tables[Maintenance])
        nodes_before = part(state, "row", NODE)["id", "time", "since"]
        gaps, slots_after = silences(
            heard(context, rows, BY_GPU).with_columns(told=pl.lit(value=False)),
            part(state, "row", SLOT)["id", "time", "told"], by="id", now=context.now, limit=limit,
            rows_of=lambda slots: rows_of(rows, BY_GPU, slots).with_columns(told=pl.lit(value=False)),
        )  # fmt: skip
        unknown = pl.lit(None, UTC_MICROSECONDS)
        node_gaps, nodes_after = silences(
            heard(context, rows, BY_NODE).with_columns(since=unknown), nodes_before, by="id", now=context.now,
            limit=limit, rows_of=lambda nodes: rows_of(rows, BY_NODE, nodes).with_columns(since=unknown),
        )  # fmt: skip
        lasting = still_needed(plans, context.now, limit)
        gaps = gaps if gaps.is_empty() else _possible(gaps, nodes_after, timedelta(seconds=1.5 * interval))
        if rows.is_empty() and gaps["told"].all() and lasting.equals(carried):
            return Detection(NO_FINDINGS, state)
        returns = returned(nodes_before, node_gaps, by="id")
        said, slots_after = self._said(gaps, slots_after, rows, nodes_before, returns, plans, context)
        last_return = returns.group_by("id").agg(since=pl.col("time").max())
        nodes_after = nodes_after.drop("since").join(last_return, on="id", how="left", maintain_order="left")
        # In order of row and id, as they come.
        kept = [(NODE, nodes_after), (PLAN, lasting), (SLOT, slots_after)]
        after = [frame.with_columns(row=pl.lit(row)) for row, frame in kept]
        return Detection(said, pl.concat([pl.DataFrame(schema=self.keeps), *after], how="diagonal"))

    def _said(  # noqa: PLR0913, PLR0917  # silences of slots and nodes, and what explains them
        self, gaps: pl.DataFrame, slots_after: pl.DataFrame, rows: pl.DataFrame, nodes_before: pl.DataFrame,
        returns: pl.DataFrame, plans: pl.DataFrame, context: Context,
    ) -> tuple[pl.DataFrame, pl.DataFrame]:  # fmt: skip
        """Findings on slots that are silent alone, and the slots with what was told and without those meant to be."""
        if gaps.is_empty():
            return NO_FINDINGS, slots_after.with_columns(told=pl.lit(value=False))
        interval = context.intervals_seconds["gpu"]
        limit = max(intervals(self.missed_intervals, interval), timedelta(seconds=self.minimum_seconds))
        gaps = gaps.with_columns(node=pl.col("id").str.split("/").list.first())
        beats = pl.concat([nodes_before.select("time", node="id"), rows.select("time", "node")])
        beats = beats.filter(pl.col("node").is_in(gaps["node"].unique().implode())).unique()
        grace = timedelta(seconds=1.5 * interval)
        returns = returns.select("time", node="id")
        alone = heard_alone(gaps.filter(~pl.col("told")), beats, returns, group="node", grace=grace)
        begun = _begun(alone, spread(plans, context.topology), limit, context)
        meant, lost = begun.filter("forgiven"), begun.filter(~pl.col("forgiven"))
        told = pl.concat([gaps.filter("told").select("id", "time", "until"), lost.select("id", "time", "until")])
        lasting = pl.col("until").is_null()
        slots_after = slots_after.join(meant.filter(lasting), on="id", how="anti", maintain_order="left").with_columns(
            told=pl.col("id").is_in(told.filter(lasting)["id"].implode())
        )
        said = findings_frame(_statements(lost, told, interval, limit), self.name, "gpu_fallen_off_bus", "gpu")
        return ordered(said), slots_after


def _possible(gaps: pl.DataFrame, nodes: pl.DataFrame, grace: timedelta) -> pl.DataFrame:
    """Silences that were told, and those of slots whose node has been heard since, which are few when a node dies."""
    at, _ = located(nodes["id"], gaps["id"].str.split("/").list.first())
    return gaps.filter(gaps["told"] | (nodes["time"][at] >= gaps["time"] + grace))


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
