"""A loop that lets less coolant through while its pumps push as ever."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, scan, toward, weight_of
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import CoolantLoop

MEMORY = ("age_seconds", "flow_now", "head_now", "flow_normal", "head_normal")
OUTPUTS = ("flow_now", "head_now", "normal_flow_liters_per_minute", "normal_head_kpa", "flow_lost_share", "grade")


@dataclass(frozen=True, kw_only=True)
class FlowRestricted:
    """Something narrows a CDU's loop: a filter that clogs, a valve half closed, a hose that kinks.

    What it looks like: flow falls and the pressure over the pumps grows at constant speed, as they climb their curve
    (domain.md 4.6: filter fouling = dP up, flow down). A pump that slows lowers both, a leak lowers the pressure
    before and after the pumps alike: neither is taken for a restriction, and no pump needs to report.
    Formula: now = exponential mean over now_seconds, normal = over normal_seconds (growing up to it), held still while
    abnormal. Abnormal when flow < (1 - flow_drop) normal and supply - return pressure > (1 + head_rise) normal;
    flow_drop is a ticket, flow_drop_page a page. Stated after for_seconds, cleared after clear_seconds.
    Defaults: flow_drop 0.1, head_rise 0.05: with pumps of head 2.5 - 1.5 q^2 (two in parallel, replay.hydraulics) 10 %
    less flow are 28 % more head, and 5 % more head lose 2 % of flow, so both are far above gauges of 0.5 %.
    flow_drop_page 0.25, close to the pump-loss rule of 30 %. now_seconds 5, for_seconds 5, clear_seconds 60,
    normal_seconds 3600: assumptions.
    Cannot see: a restriction that takes a day or more to grow (the normal follows); loops whose pumps are driven to
    keep the flow; loops without a flow meter or with one pressure only.
    """

    flow_drop: float = 0.1
    flow_drop_page: float = 0.25
    head_rise: float = 0.05
    now_seconds: float = 5.0
    normal_seconds: float = 3600.0
    for_seconds: float = 5.0
    clear_seconds: float = 60.0

    name: ClassVar[str] = "coolant.flow_restricted"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (CoolantLoop,)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {**GRADE_COLUMNS, "time": UTC_MICROSECONDS, **dict.fromkeys(MEMORY, pl.Float64())}
    )

    def detect(
        self,
        tables: Mapping[type[dy.Schema], pl.DataFrame],
        state: pl.DataFrame,
        context: Context,  # noqa: ARG002  # the protocol's
    ) -> Detection:
        """Findings on CDUs: coolant_flow_restricted."""
        rows = tables[CoolantLoop].select(
            "time", entity="cdu", flow="flow_liters_per_minute",
            head=pl.col("supply_pressure_kpa") - pl.col("return_pressure_kpa"),
        ).drop_nulls()  # fmt: skip
        walked, memory = scan(
            rows.sort("entity", "time"), state.select("entity", "time", *MEMORY),
            inputs=("flow", "head"), memory=MEMORY, outputs=OUTPUTS, step=self._step,
        )  # fmt: skip
        changes, after = graded_levels(
            walked.with_columns(pl.col("grade").cast(pl.Int64)), state.select(GRADE_COLUMNS.names()),
            for_seconds=self.for_seconds, clear_seconds=self.clear_seconds,
        )  # fmt: skip
        kept = memory.join(after, on="entity", how="left").select(self.keeps.names()).sort("entity")
        page = pl.col("severity") == "page"
        said = changes.with_columns(
            flow_liters_per_minute="flow_now", head_kpa="head_now", code=pl.lit("flow_down_head_up"),
            score="flow_lost_share", threshold=pl.lit(self.flow_drop),
            action=pl.when(page & pl.col("active")).then(pl.lit("raise_flow")).otherwise(pl.lit("open_ticket")),
        ).with_columns(
            evidence("flow_liters_per_minute", "normal_flow_liters_per_minute", "head_kpa", "normal_head_kpa")
        )  # fmt: skip
        return Detection(ordered(findings_frame(said, self.name, "coolant_flow_restricted", "cdu")), kept)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        elapsed = sample["elapsed_seconds"]
        age = np.where(np.isnan(elapsed), 0.0, memory["age_seconds"] + elapsed)
        quick = weight_of(elapsed, self.now_seconds)
        flow = toward(memory["flow_now"], sample["flow"], quick)
        head = toward(memory["head_now"], sample["head"], quick)
        lost = 1 - flow / memory["flow_normal"]
        risen = head > (1 + self.head_rise) * memory["head_normal"]
        grade = ((lost > self.flow_drop) & risen) * (1.0 + (lost > self.flow_drop_page))
        # Whatever moves the flow by half the threshold is kept out of the normal: the beginning of a fault is one too.
        held = np.abs(lost) > self.flow_drop / 2
        grown = np.nan_to_num(elapsed / (np.minimum(age, self.normal_seconds) + elapsed))
        weight = np.where(held, grown / 10, grown)
        return {
            "age_seconds": age, "flow_now": flow, "head_now": head,
            "flow_normal": toward(memory["flow_normal"], sample["flow"], np.where(grade > 0, 0.0, weight)),
            "head_normal": toward(memory["head_normal"], sample["head"], np.where(grade > 0, 0.0, weight)),
        }, {
            "flow_now": flow, "head_now": head, "flow_lost_share": lost, "grade": grade,
            "normal_flow_liters_per_minute": memory["flow_normal"], "normal_head_kpa": memory["head_normal"],
        }  # fmt: skip
