"""Air in a loop: flow and pressure tremble together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.stats.scan import Arrays, Floats, scan, toward, weight_of
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import CoolantLoop

QUANTITIES = ("flow", "head")
PARTS = ("before", "step", "mean", "tremor", "tremor_normal")
MEMORY = ("age_seconds", *(f"{quantity}_{part}" for quantity in QUANTITIES for part in PARTS))
OUTPUTS = ("bad", *(f"{quantity}_{what}" for quantity in QUANTITIES for what in ("noise", "noise_normal")))
LEVEL_NAMES = tuple(name for name in LEVEL_COLUMNS if name != "entity")


@dataclass(frozen=True, kw_only=True)
class CoolantAir:
    """Bubbles go round in a loop: after filling, through a leaking seal on the suction side, from too low a pressure.

    What it looks like: a pump that takes air loses its head for an instant and has it back; flow and the pressure over
    the pumps tremble from sample to sample around means that hardly move (domain.md 4.6: variance up), and plates
    under a bubble get hot spots.
    Formula: for d = the difference of neighbouring samples, tremor = exponential mean over `now_seconds` of -d(t)
    d(t-1), which for noise is its variance, and which a step or ramp (a pump that stops, a valve that opens) leaves
    alone as its differences have one sign. noise = sqrt(tremor) over the mean. Bad when the noise of flow and of head
    are both above `noise_ratio` times their own normal (over `normal_seconds`, growing up to it, held still meanwhile)
    and above `noise_minimum`, for `sustained_seconds`; ends after `clear_seconds`.
    Defaults: ratio 3 is nine times the variance; minimum 0.015, as gauges have 0.5 %; 20 s, 15 s, 120 s, a day:
    assumptions.
    Cannot see: air that was there from the first day; swings much slower than the samples; loops without a flow meter
    or with one pressure; dissolved air.
    """

    noise_ratio: float = 3.0
    noise_minimum: float = 0.015
    now_seconds: float = 20.0
    known_seconds: float = 60.0
    normal_seconds: float = 86_400.0
    sustained_seconds: float = 15.0
    clear_seconds: float = 120.0

    name: ClassVar[str] = "coolant.air"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (CoolantLoop,)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            "entity": pl.String(), "time": UTC_MICROSECONDS, **dict.fromkeys(MEMORY, pl.Float64()),
            **{f"level_{name}": LEVEL_COLUMNS[name] for name in LEVEL_NAMES},
        }
    )  # fmt: skip

    def detect(
        self,
        tables: Mapping[type[dy.Schema], pl.DataFrame],
        state: pl.DataFrame,
        context: Context,  # noqa: ARG002  # the protocol's
    ) -> Detection:
        """Findings on CDUs: coolant_air."""
        rows = tables[CoolantLoop].select(
            "time", entity="cdu", flow="flow_liters_per_minute",
            head=pl.col("supply_pressure_kpa") - pl.col("return_pressure_kpa"),
        ).drop_nulls()  # fmt: skip
        walked, memory = scan(
            rows.sort("entity", "time"), state.select("entity", "time", *MEMORY),
            inputs=QUANTITIES, memory=MEMORY, outputs=OUTPUTS, step=self._step,
        )  # fmt: skip
        before = state.select("entity", *(pl.col(f"level_{name}").alias(name) for name in LEVEL_NAMES))
        changes, after = levels(
            walked.with_columns(bad=pl.col("bad") == 1),
            before.filter(pl.col("bad").is_not_null()).select(LEVEL_COLUMNS.names()),
            for_seconds=self.sustained_seconds, clear_seconds=self.clear_seconds,
        )  # fmt: skip
        stored = after.rename({name: f"level_{name}" for name in LEVEL_NAMES})
        kept = memory.join(stored, on="entity", how="left").select(self.keeps.names()).sort("entity")
        said = changes.with_columns(
            code=pl.lit("flow_and_pressure_tremble"), severity=pl.lit("ticket"), threshold=pl.lit(self.noise_ratio),
            score=pl.col("flow_noise") / pl.col("flow_noise_normal"),
            action=pl.when("active").then(pl.lit("open_ticket")),
            flow_noise_share="flow_noise", normal_flow_noise_share="flow_noise_normal",
            head_noise_share="head_noise", normal_head_noise_share="head_noise_normal",
        ).with_columns(
            evidence("flow_noise_share", "normal_flow_noise_share", "head_noise_share", "normal_head_noise_share")
        )  # fmt: skip
        return Detection(ordered(findings_frame(said, self.name, "coolant_air", "cdu")), kept)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        elapsed = sample["elapsed_seconds"]
        age = np.where(np.isnan(elapsed), 0.0, memory["age_seconds"] + elapsed)
        grown = np.nan_to_num(elapsed / (np.minimum(age, self.normal_seconds) + elapsed))
        quick = weight_of(elapsed, self.now_seconds)
        after: dict[str, Floats] = {"age_seconds": age}
        told: dict[str, Floats] = {}
        trembles = np.ones(len(age), dtype=np.bool_)
        for quantity in QUANTITIES:
            value, before = sample[quantity], memory[f"{quantity}_before"]
            step = value - before
            product = -step * memory[f"{quantity}_step"]
            tremor = memory[f"{quantity}_tremor"]
            tremor = np.where(np.isnan(product), tremor, toward(tremor, product, quick))
            mean = toward(memory[f"{quantity}_mean"], value, quick)
            normal = memory[f"{quantity}_tremor_normal"]
            noise, usual = _noise(tremor, mean), _noise(normal, mean)
            trembles &= (noise > self.noise_ratio * usual) & (noise > self.noise_minimum)
            after |= {
                f"{quantity}_before": value, f"{quantity}_step": step, f"{quantity}_mean": mean,
                f"{quantity}_tremor": tremor,
            }  # fmt: skip
            told |= {f"{quantity}_noise": noise, f"{quantity}_noise_normal": usual}
        trembles &= age >= self.known_seconds
        weight = np.where(trembles, 0.0, grown)
        for quantity in QUANTITIES:
            normal, now = memory[f"{quantity}_tremor_normal"], after[f"{quantity}_tremor"]
            after[f"{quantity}_tremor_normal"] = np.where(np.isnan(now), normal, toward(normal, now, weight))
        return after, {"bad": trembles.astype(np.float64), **told}


def _noise(tremor: Floats, mean: Floats) -> Floats:
    """The square root of a variance over the mean; zero where that is none."""
    deviation = np.sqrt(np.maximum(tremor, 0.0))
    return np.divide(deviation, mean, out=np.zeros(len(mean)), where=mean > 0)
