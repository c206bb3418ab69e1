"""Loops whose coolant does not carry away what their GPUs draw: a meter lies, or heat goes elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.plates import PENDING_COLUMNS, together
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.stats.scan import Arrays, Floats, scan, toward, weight_of
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import ColdPlate, CoolantLoop
from schemas.gpu import Gpu

PENDING, MEANS, SENSOR, HEAT = "pending", "means", "sensor", "heat"
RATIOS: Mapping[str, str] = {"coolant": "watts", "facility": "watts", "plates": "liters"}
"""What is compared with its normal, and over what it is taken."""
MEMORY = (
    "seen", "gpus", "watts_fast", "watts_slow", "steady_seconds",
    *(f"{name}_{mean}" for name in RATIOS for mean in ("now", "base", "normal")),
)  # fmt: skip
OFF = tuple(f"{name}_off" for name in RATIOS)
SEEN = ("coolant_kilowatts", "electrical_kilowatts", "coolant_off_share", "facility_off_share", "plates_off_share")
# PG25 at 50 C (domain.md 4.6), only for the evidence: a constant factor is part of each loop's normal.
KILOWATTS_PER_KELVIN_PER_LITER_PER_MINUTE = 1.015 * 3930.0 / 60_000


@dataclass(frozen=True, kw_only=True)
class HeatBalance:
    """What goes into a loop as electricity comes out as heat, Q = rho V cp dT; where it does not, something is wrong.

    What fails: a flow meter or a temperature sensor of the loop drifts, and with it all that is judged by it; or heat
    really leaves by another way or comes from somewhere else.
    Formula: coolant = flow * (return - supply) over the power of the loop's GPUs, each an exponential mean over
    `now_seconds` (the heat of a pause of seconds comes later than its power), against the loop's own normal (mean of
    the first `learn_samples`; what is more than half the threshold off is kept out of it), because hosts give 75 to
    85 % of their heat to the coolant and nobody knows how much exactly. Bad when it is `residual_share` off for
    `sustained_seconds`; ends after `clear_seconds` within.
    Two more ratios tell which it is: facility = warming of the facility's water over the same power, and plates = sum
    of the plates' flows over the loop's. When the plates disagree with the loop by half of the threshold, the flow
    meter lies (code flow_meter); when the facility still agrees with the power within half, a temperature does
    (temperature_sensor; without plate meters either): telemetry_implausible of the loop's source. Otherwise the heat
    is not in the water: coolant_heat_unbalanced, with code heat_missing or heat_added.
    Judged and learnt in a steady state only: power over 30 s within `steady_share` of that over 200 s for
    `now_seconds` (two means that cross are no steady state), as many GPUs reporting as when it was learnt, and five
    times `now_seconds` after all of them had said nothing for `gap_seconds`: they and the loop may have been cold.
    Defaults: 10 % for 60 s (domain.md 4.6). 60 s as now_seconds, the time constant of a loop; 36 samples, one in 10 s,
    are six minutes; 5 % steady; 300 s clear; a gap of 90 s: assumptions.
    Cannot see: a meter that was wrong from the first day; whether supply or return lies; hosts' own share that does not
    go through GPUs, when it changes; loops with a GPU missing since.
    """

    residual_share: float = 0.1
    steady_share: float = 0.05
    learn_samples: int = 36
    known_samples: int = 6
    every_seconds: float = 10.0
    now_seconds: float = 60.0
    sustained_seconds: float = 60.0
    clear_seconds: float = 300.0
    gap_seconds: float = 90.0

    @property
    def name(self) -> str:
        return "coolant.heat_balance"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu, ColdPlate, CoolantLoop)

    @property
    def keeps(self) -> pl.Schema:
        """Rows of the bucket that is not complete; per loop its means, and a level for each of the two causes."""
        means = {"entity": pl.String(), "time": UTC_MICROSECONDS, **dict.fromkeys(MEMORY, pl.Float64())}
        return pl.Schema({"row": pl.String(), **PENDING_COLUMNS, **means, **LEVEL_COLUMNS})

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings: telemetry_implausible on sources, coolant_heat_unbalanced on CDUs."""
        pending = state.filter(row=PENDING).select(PENDING_COLUMNS.names())
        sampled = together(tables, pending, context, every_seconds=self.every_seconds)
        if sampled.waiting is pending:
            return Detection(ordered(), state)
        walked, memory = scan(
            _balances(sampled.gpus, sampled.loops), state.filter(row=MEANS).select("entity", "time", *MEMORY),
            inputs=("gpus", "watts", "coolant", "facility", "plates", "liters"), memory=MEMORY,
            outputs=("judged", *OFF), step=self._step,
        )  # fmt: skip
        judged = self._judged(walked)
        kept, said = [memory.with_columns(row=pl.lit(MEANS))], []
        for row in (SENSOR, HEAT):
            changes, after = levels(
                judged.with_columns(bad=row), state.filter(row=row).select(LEVEL_COLUMNS.names()),
                for_seconds=self.sustained_seconds, clear_seconds=self.clear_seconds,
            )  # fmt: skip
            kept.append(after.with_columns(row=pl.lit(row)))
            said.append(self._findings(changes, row))
        waiting = sampled.waiting.with_columns(row=pl.lit(PENDING))
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept, waiting], how="diagonal")
        return Detection(ordered(*said), after.select(self.keeps.names()))

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        elapsed, seen = sample["elapsed_seconds"], np.nan_to_num(memory["seen"])
        fast = toward(memory["watts_fast"], sample["watts"], weight_of(elapsed, 30.0))
        slow = toward(memory["watts_slow"], sample["watts"], weight_of(elapsed, 200.0))
        steady = (np.abs(fast / slow - 1) <= self.steady_share) & ~(sample["gpus"] < memory["gpus"])
        more = np.minimum(np.nan_to_num(elapsed), self.now_seconds)
        calm = np.where(steady, np.nan_to_num(memory["steady_seconds"]) + more, 0.0)
        calm = np.where(elapsed > self.gap_seconds, -4 * self.now_seconds, calm)
        steady &= calm >= self.now_seconds
        quick = weight_of(elapsed, self.now_seconds)
        after: dict[str, Floats] = {}
        now: dict[str, Floats] = {}
        off: dict[str, Floats] = {}
        for name, over in RATIOS.items():
            both = ~np.isnan(sample[name]) & ~np.isnan(sample[over])
            for mean, value in (("now", sample[name]), ("base", sample[over])):
                before = memory[f"{name}_{mean}"]
                after[f"{name}_{mean}"] = np.where(both, toward(before, value, quick), before)
            base = after[f"{name}_base"]
            now[name] = np.divide(after[f"{name}_now"], base, out=np.full(len(base), np.nan), where=base > 0)
            off[name] = now[name] / memory[f"{name}_normal"] - 1
        known = seen >= self.known_samples
        odd = np.max([np.nan_to_num(np.abs(each)) for each in off.values()], axis=0) > self.residual_share / 2
        learns = steady & (seen < self.learn_samples) & ~(odd & known)
        for name in RATIOS:
            normal = memory[f"{name}_normal"]
            moved = toward(normal, now[name], np.where(learns, 1 / (seen + 1), 0.0))
            after[f"{name}_normal"] = np.where(np.isnan(now[name]), normal, moved)
        after |= {
            "seen": seen + learns, "watts_fast": fast, "watts_slow": slow, "steady_seconds": calm,
            "gpus": np.fmax(memory["gpus"], sample["gpus"]),
        }  # fmt: skip
        told = {f"{name}_off": off[name] for name in RATIOS}
        return after, {"judged": (steady & known).astype(np.float64), **told}

    def _judged(self, walked: pl.DataFrame) -> pl.DataFrame:
        """The rows with the verdicts of the two causes, null while nothing can be said."""
        half = self.residual_share / 2
        bad = pl.col("coolant_off").abs() > self.residual_share
        meter = (pl.col("plates_off").abs() > half).fill_null(value=False)
        agrees = (pl.col("facility_off").abs() <= half).fill_null(value=False)
        lies = meter | agrees
        can = (pl.col("judged") == 1) & pl.col("coolant_off").is_not_null()
        code = (
            pl.when(meter).then(pl.lit("flow_meter"))
            .when(agrees & pl.col("plates_off").is_not_null()).then(pl.lit("temperature_sensor"))
            .when(agrees).then(pl.lit("flow_meter_or_temperature_sensor"))
            .when(pl.col("coolant_off") < 0).then(pl.lit("heat_missing")).otherwise(pl.lit("heat_added"))
        )  # fmt: skip
        return walked.with_columns(
            pl.when(can).then(bad & lies).alias(SENSOR), pl.when(can).then(bad & ~lies).alias(HEAT), code=code
        )

    def _findings(self, changes: pl.DataFrame, row: str) -> pl.DataFrame:
        sensor = row == SENSOR
        said = changes.with_columns(
            entity=pl.format("coolant_loop:{}", "entity") if sensor else pl.col("entity"),
            severity=pl.lit("ticket"), score=pl.col("coolant_off").abs(), threshold=pl.lit(self.residual_share),
            action=pl.when("active").then(pl.lit("open_ticket")), electrical_kilowatts=pl.col("watts") * 1e-3,
            **{f"{name}_off_share": f"{name}_off" for name in RATIOS},
        ).with_columns(evidence(*SEEN))  # fmt: skip
        cause, kind = ("telemetry_implausible", "source") if sensor else ("coolant_heat_unbalanced", "cdu")
        return findings_frame(said, self.name, cause, kind)


def _balances(gpus: pl.DataFrame, loops: pl.DataFrame) -> pl.DataFrame:
    """Of loops with GPUs: entity, time, gpus, watts, what RATIOS are made of, and coolant_kilowatts."""
    watts = pl.col("power_watts")
    # The rows are sorted, so that the sums do not depend on how they came.
    by_loop = gpus.filter(watts.is_not_null()).group_by("cdu", "time", maintain_order=True).agg(
        gpus=pl.len().cast(pl.Float64), watts=watts.sum(), plate_liters=pl.col("flow_liters_per_minute").sum(),
        metered=pl.col("flow_liters_per_minute").count() == pl.len(),
    ).filter(pl.col("watts") > 0)  # fmt: skip
    liters = pl.col("loop_liters_per_minute")
    stream = liters * (pl.col("return_celsius") - pl.col("supply_celsius"))
    warmed = pl.col("facility_return_celsius") - pl.col("facility_supply_celsius")
    return loops.join(by_loop, on=["cdu", "time"]).select(
        "time", "gpus", "watts", entity="cdu", coolant=stream, facility=warmed,
        plates=pl.when("metered").then("plate_liters"), liters=liters,
        coolant_kilowatts=stream * KILOWATTS_PER_KELVIN_PER_LITER_PER_MINUTE,
    ).sort("entity", "time")  # fmt: skip
