"""Coolant that leaves the loop shows in the rope, the reservoir and the pressure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.planned import PLAN_COLUMNS, during, loops_in, still_needed, with_windows
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, Floats, scan, toward, weight_of
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import CoolantLoop
from schemas.job import Maintenance

QUANTITIES = ("level", "temperature", "return_pressure", "supply_pressure", "flow")
MEMORY = ("age_seconds", "rope", *(f"{name}_{mean}" for name in QUANTITIES for mean in ("now", "normal")))
OUTPUTS = (
    "rope_wet", "level_falling", "pressure_falling", "level_lost_percent", "level_lost_percent_per_minute",
    "pressure_lost_kpa", "signals",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CoolantLeak:
    """Coolant leaks from a CDU's loop.

    What fails: a hose, quick coupling or plate. Three independent signals: the leak rope says warning or critical;
    the reservoir's level falls while the temperature stays (cold coolant is denser, so a level that falls with the
    temperature is none); the pressure falls before and after the pumps while the flow stays (a pump that slows lowers
    only the pressure after it). One signal alone is a ticket, two are a page: redundant sensors before a shutdown
    (the industry's rule that a sensor fault is not a leak). leak_state "fault" is a broken sensor and no signal.

    Formula: now = exponential mean over now_seconds, normal = over normal_seconds (growing up to it), held still while
    that quantity is abnormal. level: normal - now > level_lost_percent while |temperature - its normal| <
    temperature_kelvin. pressure: normal - now > pressure_lost_share of normal at both ends that report, the one
    before the pumps among them, while flow is within flow_share of its normal. A signal count that lasts for_seconds
    is stated; it clears after clear_seconds. In maintenance of the CDU, or of the superblock or pod that holds all its
    nodes, a loop is drained and filled: level and pressure say nothing then and for three now_seconds after it, and
    their normals begin anew. A wet rope is a wet rope. How fast the level falls is (now - its sample) / now_seconds,
    what a mean lies behind a steady fall; for recovery, which asks how long a leak may wait.

    level_lost_percent 1.5: 2 K on 500 L of PG25 (4e-4 per K) are 0.4 L, under 1 % of a 50 L reservoir (an assumption).
    temperature_kelvin 2: the same. pressure_lost_share 0.08: above the ripple of pumps (an assumption; set it per
    site). flow_share 0.05: by the affinity laws 5 % of speed are 10 % of head. for_seconds 1: two samples at 1 Hz.

    Cannot see: a leak of less than level_lost_percent per normal_seconds (3 % an hour), or one that make-up water
    hides.
    """

    level_lost_percent: float = 1.5
    temperature_kelvin: float = 2.0
    pressure_lost_share: float = 0.08
    flow_share: float = 0.05
    now_seconds: float = 10.0
    normal_seconds: float = 1800.0
    for_seconds: float = 1.0
    clear_seconds: float = 60.0

    name: ClassVar[str] = "coolant.leak"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (CoolantLoop, Maintenance)
    # One row per CDU, and one per open plan (`plan` is true: the entity is what it is over).
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            **GRADE_COLUMNS, "time": UTC_MICROSECONDS, **dict.fromkeys(MEMORY, pl.Float64()), "plan": pl.Boolean(),
            **PLAN_COLUMNS,
        }
    )  # fmt: skip

    def detect(
        self,
        tables: Mapping[type[dy.Schema], pl.DataFrame],
        state: pl.DataFrame,
        context: Context,
    ) -> Detection:
        """Findings on CDUs: coolant_leak."""
        if all(tables[schema].is_empty() for schema in self.reads) and not state["plan"].any():
            return Detection(NO_FINDINGS, state)
        quantities = ("leak_state", "level_percent", "supply_celsius", "return_pressure_kpa", "supply_pressure_kpa")
        plans = with_windows(state.filter("plan").select(PLAN_COLUMNS.names()), tables[Maintenance])
        state = state.filter(~pl.col("plan"))
        told = tables[CoolantLoop].filter(pl.any_horizontal(pl.col(quantities).is_not_null()))
        wet = pl.col("leak_state").replace_strict(
            {"warning": 1.0, "critical": 1.0}, default=0.0, return_dtype=pl.Float64()
        )
        rows = told.select(
            "time", "leak_state",
            entity="cdu",
            rope=pl.when(pl.col("leak_state").is_not_null()).then(wet),
            level="level_percent",
            temperature=(pl.col("supply_celsius") + pl.col("return_celsius")) / 2,
            return_pressure="return_pressure_kpa",
            supply_pressure="supply_pressure_kpa",
            flow="flow_liters_per_minute",
        )  # fmt: skip
        settles = timedelta(seconds=3 * self.now_seconds)
        planned = during(rows, loops_in(plans, context.topology), by="entity", after=settles)
        rows = rows.with_columns(planned.cast(pl.Float64).alias("planned"))
        walked, memory = scan(
            rows.sort("entity", "time"), state.select("entity", "time", *MEMORY),
            inputs=("planned", "rope", *QUANTITIES), memory=MEMORY, outputs=OUTPUTS, step=self._step,
        )  # fmt: skip
        samples = walked.with_columns(grade=pl.col("signals").clip(0, 2).cast(pl.Int64()))
        changes, after = graded_levels(
            samples, state.select(GRADE_COLUMNS.names()),
            for_seconds=self.for_seconds, clear_seconds=self.clear_seconds,
        )  # fmt: skip
        kept = pl.concat([
            memory.join(after, on="entity", how="left").with_columns(plan=pl.lit(value=False)),
            still_needed(plans, context.now, settles).with_columns(plan=pl.lit(value=True)),
        ], how="diagonal")  # fmt: skip
        nothing = pl.DataFrame(schema=self.keeps)
        kept = pl.concat([nothing, kept], how="diagonal").select(self.keeps.names())
        return Detection(self._findings(changes), kept.sort("plan", "entity", *PLAN_COLUMNS.names()))

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        elapsed, planned = sample["elapsed_seconds"], sample["planned"] == 1
        begins = np.isnan(elapsed) | planned
        memory = {**memory, **{name: np.where(planned, np.nan, memory[name]) for name in MEMORY[2:]}}
        age = np.where(begins, 0.0, memory["age_seconds"] + elapsed)
        lost, now = {}, {}
        after: dict[str, Floats] = {"age_seconds": age}
        grown = np.nan_to_num(elapsed / (np.minimum(age, self.normal_seconds) + elapsed))
        for name in QUANTITIES:
            value = sample[name]
            quick = toward(memory[f"{name}_now"], value, weight_of(elapsed, self.now_seconds))
            now[name] = np.where(np.isnan(value), memory[f"{name}_now"], quick)
            lost[name] = memory[f"{name}_normal"] - now[name]
        rope = np.where(np.isnan(sample["rope"]), memory["rope"], sample["rope"])
        level = (lost["level"] > self.level_lost_percent) & (np.abs(lost["temperature"]) < self.temperature_kelvin)
        share = {name: lost[name] / memory[f"{name}_normal"] for name in ("return_pressure", "supply_pressure", "flow")}
        pressure = (
            (share["return_pressure"] > self.pressure_lost_share)
            & (np.isnan(share["supply_pressure"]) | (share["supply_pressure"] > self.pressure_lost_share))
            & (np.isnan(share["flow"]) | (np.abs(share["flow"]) < self.flow_share))
        )
        held = {"level": level, "return_pressure": pressure, "supply_pressure": pressure}
        for name in QUANTITIES:
            normal = memory[f"{name}_normal"]
            moved = toward(normal, sample[name], np.where(held.get(name, np.zeros(len(age), np.bool_)), 0.0, grown))
            after[f"{name}_now"], after[f"{name}_normal"] = now[name], np.where(np.isnan(sample[name]), normal, moved)
        after["rope"] = rope
        wet = rope == 1
        return after, {
            "rope_wet": wet.astype(np.float64),
            "level_falling": level.astype(np.float64),
            "pressure_falling": pressure.astype(np.float64),
            "level_lost_percent": lost["level"],
            # A mean lies behind a steady fall by what falls in its time constant; by less at first.
            "level_lost_percent_per_minute": 60.0 * (now["level"] - sample["level"]) / self.now_seconds,
            "pressure_lost_kpa": lost["return_pressure"],
            "signals": wet.astype(np.float64) + level + pressure,
        }

    def _findings(self, changes: pl.DataFrame) -> pl.DataFrame:
        named = {"rope_wet": "rope", "level_falling": "level", "pressure_falling": "pressure"}
        words = [pl.when(pl.col(signal) == 1).then(pl.lit(word)) for signal, word in named.items()]
        page = pl.col("severity") == "page"
        rows = changes.with_columns(
            code=pl.concat_str(words, separator="+", ignore_nulls=True),
            score=pl.col("signals"),
            threshold=pl.lit(1.0),
            action=pl.when(page).then(pl.lit("staged_shutdown")).otherwise(pl.lit("open_ticket")),
            seconds_since_first_sign=(pl.col("time") - pl.col("first_bad_at")) / pl.duration(seconds=1),
            level_percent="level",
            return_pressure_kpa="return_pressure",
            mean_celsius="temperature",
            flow_liters_per_minute="flow",
        ).with_columns(
            evidence(
                "leak_state", "seconds_since_first_sign", "level_percent", "level_lost_percent",
                "level_lost_percent_per_minute", "return_pressure_kpa", "pressure_lost_kpa", "mean_celsius",
                "flow_liters_per_minute",
            )
        )  # fmt: skip
        return ordered(findings_frame(rows, self.name, "coolant_leak", "cdu"))
