"""GPUs whose way from chip to coolant gets worse, long before they are hot enough to slow down."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.plates import PENDING_COLUMNS, together
from detectors.gpu.slots import GPU_ID
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.stats.scan import Arrays, scan, toward, weight_of
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import ColdPlate, CoolantLoop
from schemas.gpu import (
    CLOCKS_EVENT_HARDWARE_SLOWDOWN,
    CLOCKS_EVENT_HARDWARE_THERMAL,
    CLOCKS_EVENT_SOFTWARE_THERMAL,
    Gpu,
)

PENDING, BASELINE, LEVEL = "pending", "baseline", "level"
MEMORY = ("seen", "watts", "normal", "now", "flow_normal", "flow_now", "calm_seconds")
SLOWED = CLOCKS_EVENT_SOFTWARE_THERMAL | CLOCKS_EVENT_HARDWARE_THERMAL | CLOCKS_EVENT_HARDWARE_SLOWDOWN
SEEN = (
    "kelvin_per_watt", "normal_kelvin_per_watt", "drift_share", "peers_drift_share", "flow_share",
    "temperature_celsius", "inlet_celsius", "power_watts",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ThermalResistance:
    """A cold plate clogs, its thermal paste pumps out, or its branch gets less coolant.

    What it looks like: at the same power and inlet the GPU stands higher above the coolant than it used to. The
    resistance R = (GPU - inlet) / power, in K/W, takes load and inlet out of the temperature (domain.md 4.6: the best
    single feature of a plate), so weeks of drift show that the temperature itself hides. A plate answers a step of
    power like a resistance with a capacity, so the power that its temperature goes by is the exponential mean over
    `plate_seconds`: a GPU whose power has just fallen is warm, not clogged.
    Formula: normal = mean of the GPU's own first `learn_samples` samples; it keeps out what is `drift_share` * 0.8 off,
    and afterwards follows only downwards (a plate was cleaned), over a day. now = exponential mean over `now_seconds`.
    drift = now / normal, over the median of the same of the GPUs of its host, which have the same coolant and the same
    job: what moves all of them is not the plate's. Bad when drift > 1 + `drift_share`, or when the normal itself is
    more than `peers_ratio` times the median normal of its host (bad from the first day), for `sustained_seconds`;
    ends after `clear_seconds`. code: resistance_and_flow when its flow is below 0.9 of its own normal (a clogged
    plate), resistance otherwise (thermal paste).
    Samples with less than `rise_minimum_kelvin` over the inlet, of GPUs that heat has slowed within `clear_seconds`,
    or while the host's median is itself off by `drift_share` say nothing: the first drown in whole degrees, the others
    have detectors of their own.
    Defaults: 0.1 is 3 K of the 30 K at 700 W, with 22 K left to the limit. Readings are whole degrees (1 % of 30 K),
    so 30 s of samples make 0.6 %. 22 s: 0.044 K/W times 510 J/K (domain.md 4.6; the capacity is an assumption). 360
    samples at one in 10 s are an hour under load. 10 K, 60 s, 600 s, ratio 1.5 (boards of one kind spread by 7 %):
    assumptions.
    Cannot see: an idle GPU; a plate that clogged before the stream began and by less than `peers_ratio`; all plates of
    a host at once; which of plate, paste or branch where plates have no flow meter.
    """

    drift_share: float = 0.1
    peers_ratio: float = 1.5
    peers_minimum: int = 4
    learn_samples: int = 360
    known_samples: int = 6
    rise_minimum_kelvin: float = 10.0
    every_seconds: float = 10.0
    now_seconds: float = 30.0
    plate_seconds: float = 22.0
    normal_seconds: float = 86_400.0
    sustained_seconds: float = 60.0
    clear_seconds: float = 600.0

    @property
    def name(self) -> str:
        return "gpu.thermal_resistance"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu, ColdPlate, CoolantLoop)

    @property
    def keeps(self) -> pl.Schema:
        """Rows of the bucket that is not complete; per GPU its baseline; per GPU ever bad its level."""
        baseline = {"entity": pl.String(), "time": UTC_MICROSECONDS, **dict.fromkeys(MEMORY, pl.Float64())}
        return pl.Schema({"row": pl.String(), **PENDING_COLUMNS, **baseline, **LEVEL_COLUMNS})

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on GPUs: cold_plate_clogged."""
        pending = state.filter(row=PENDING).select(PENDING_COLUMNS.names())
        sampled = together(tables, pending, context, every_seconds=self.every_seconds)
        if sampled.waiting is pending:
            return Detection(ordered(), state)
        settled = state.filter(pl.col("row") != PENDING)
        changes = pl.DataFrame()
        if sampled.gpus.height:
            baseline, level = settled.filter(row=BASELINE), settled.filter(row=LEVEL)
            walked, memory = scan(
                self._resistances(sampled.gpus), baseline.select("entity", "time", *MEMORY),
                inputs=("rise", "watts", "flow", "slowed"), memory=MEMORY,
                outputs=("normal", "now", "flow_share", "calm_seconds"), step=self._step,
            )  # fmt: skip
            changes, level = levels(
                self._judged(walked, level), level.select(LEVEL_COLUMNS.names()),
                for_seconds=self.sustained_seconds, clear_seconds=self.clear_seconds,
            )  # fmt: skip
            kept = [memory.with_columns(row=pl.lit(BASELINE)), level.with_columns(row=pl.lit(LEVEL))]
            settled = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").sort("row", "entity")
        after = pl.concat(
            [pl.DataFrame(schema=self.keeps), settled, sampled.waiting.with_columns(row=pl.lit(PENDING))],
            how="diagonal",
        )
        return Detection(self._findings(changes), after.select(self.keeps.names()))

    def _resistances(self, samples: pl.DataFrame) -> pl.DataFrame:
        """entity, time, rise, watts, flow and readings of the samples that are worth judging."""
        rise = pl.col("temperature_celsius") - pl.col("inlet_celsius")
        slowed = (pl.col("clocks_event_reasons") & SLOWED).fill_null(0) != 0
        worth = (rise >= self.rise_minimum_kelvin) & (pl.col("power_watts") > 0)
        return samples.filter(worth).with_columns(
            GPU_ID, rise=rise, watts="power_watts", flow="flow_liters_per_minute",
            slowed=slowed.cast(pl.Float64),
        ).sort("entity", "time")  # fmt: skip

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        flow, elapsed = sample["flow"], sample["elapsed_seconds"]
        watts = toward(memory["watts"], sample["watts"], weight_of(elapsed, self.plate_seconds))
        value = sample["rise"] / watts
        seen, normal = np.nan_to_num(memory["seen"]), memory["normal"]
        slowed = sample["slowed"] == 1
        # One that has never been slowed has been calm for ever.
        calm = np.where(slowed, 0.0, np.nan_to_num(memory["calm_seconds"], nan=np.inf) + np.nan_to_num(elapsed))
        quick = np.where(slowed, 0.0, weight_of(elapsed, self.now_seconds))
        now = toward(memory["now"], value, quick)
        off = np.abs(value / normal - 1) > 0.8 * self.drift_share
        odd = slowed | ((seen >= self.known_samples) & off)
        learns = (seen < self.learn_samples) & ~odd
        down = np.where((now < normal) & ~slowed, weight_of(elapsed, self.normal_seconds), 0.0)
        weight = np.where(learns, 1 / (seen + 1), down)
        usual = memory["flow_normal"]
        known = ~np.isnan(flow)
        flow_now = np.where(known, toward(memory["flow_now"], flow, quick), memory["flow_now"])
        flow_normal = np.where(known, toward(usual, flow, np.where(learns, 1 / (seen + 1), 0.0)), usual)
        normal_after = toward(normal, value, weight)
        after = {
            "seen": seen + learns, "watts": watts, "normal": normal_after, "now": now, "flow_normal": flow_normal,
            "flow_now": flow_now, "calm_seconds": calm,
        }  # fmt: skip
        told = np.where(seen + 1 >= self.known_samples, normal_after, np.nan)
        share = np.divide(flow_now, flow_normal, out=np.full(len(now), np.nan), where=flow_normal > 0)
        return after, {"normal": told, "now": now, "flow_share": share, "calm_seconds": calm}

    def _judged(self, walked: pl.DataFrame, level: pl.DataFrame) -> pl.DataFrame:
        """entity, time, bad and evidence of the GPUs that are bad here or have been before."""
        host = ["node", "time"]
        own = pl.col("now") / pl.col("normal")
        calm = pl.col("calm_seconds") >= self.clear_seconds
        rows = walked.filter(pl.col("normal").is_not_null() & calm).with_columns(own=own).with_columns(
            peers=pl.len().over(host), peers_own=pl.col("own").median().over(host),
            peers_normal=pl.col("normal").median().over(host),
        )  # fmt: skip
        alone = pl.col("peers") < self.peers_minimum
        rows = rows.with_columns(
            peers_own=pl.when(alone).then(1.0).otherwise("peers_own"),
            peers_normal=pl.when(alone).then("normal").otherwise("peers_normal"),
        ).with_columns(drift=pl.col("own") / pl.col("peers_own"), apart=pl.col("normal") / pl.col("peers_normal"))
        moved_together = (pl.col("peers_own") - 1).abs() > self.drift_share
        bad = (pl.col("drift") > 1 + self.drift_share) | (pl.col("apart") > self.peers_ratio)
        rows = rows.with_columns(bad=pl.when(~moved_together).then(bad))
        concerned = pl.concat([level["entity"], rows.filter("bad")["entity"]]).unique()
        return rows.filter(pl.col("entity").is_in(concerned.implode()))

    def _findings(self, changes: pl.DataFrame) -> pl.DataFrame:
        if changes.is_empty():
            return ordered()
        choked = (pl.col("flow_share") < 0.9).fill_null(value=False)
        rows = changes.with_columns(
            code=pl.when(choked).then(pl.lit("resistance_and_flow")).otherwise(pl.lit("resistance")),
            severity=pl.lit("ticket"), score=pl.max_horizontal("drift", "apart"),
            threshold=pl.when(pl.col("apart") > self.peers_ratio).then(self.peers_ratio).otherwise(
                1 + self.drift_share
            ),
            action=pl.when("active").then(pl.lit("field_diagnostics")),
            kelvin_per_watt="now", normal_kelvin_per_watt="normal", drift_share=pl.col("drift") - 1,
            peers_drift_share=pl.col("peers_own") - 1,
        ).with_columns(evidence(*SEEN))  # fmt: skip
        return ordered(findings_frame(rows, self.name, "cold_plate_clogged", "gpu"))
