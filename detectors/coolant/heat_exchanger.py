"""A heat exchanger that fouls: the coolant stands higher above the facility's water for the same heat."""

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

MEANS = ("approach_now", "heat_now", "flow_now", "facility_now")
MEMORY = ("age_seconds", *MEANS, "facility_slow", "approach_per_heat_normal", "heat_normal", "flow_normal")
OUTPUTS = ("bad", "approach_now", "risen", "normal_approach_kelvin")
LEVEL_NAMES = tuple(name for name in LEVEL_COLUMNS if name != "entity")


@dataclass(frozen=True, kw_only=True)
class HeatExchangerFouled:
    """The heat exchanger of a CDU between coolant and facility water fouls.

    What fails: scale or slime on the facility's side. At the same heat the approach (supply - facility supply) grows
    from its 3 to 5 K (domain.md 4.6) and takes the supply temperature with it; every GPU behind it gets warmer.
    Formula: approach per heat, heat = flow * (return - supply) in L/min K, both as exponential means over now_seconds;
    normal = the same over normal_seconds (growing up to it). Fouled when it is more than fouled_share above normal for
    for_seconds; ends after clear_seconds. The normal stands still while it is more than a quarter of that above.
    Judged only in a steady state: facility water within steady_kelvin of its mean over steady_seconds, heat above
    heat_share and flow within flow_share of their own normals, as approach depends on all three and lags behind.
    Defaults: fouled_share 0.25 (one kelvin of four), now_seconds 60 = the time constant of a loop's volume,
    for_seconds 60, steady_kelvin 0.5, steady_seconds 300, heat_share 0.7, flow_share 0.1, normal_seconds 86,400,
    clear_seconds 600: assumptions. A ticket: fouling takes weeks.
    Cannot see: fouling slower than normal_seconds, which the normal follows; less facility flow (the same picture).
    """

    fouled_share: float = 0.25
    now_seconds: float = 60.0
    for_seconds: float = 60.0
    clear_seconds: float = 600.0
    steady_kelvin: float = 0.5
    steady_seconds: float = 300.0
    heat_share: float = 0.7
    flow_share: float = 0.1
    normal_seconds: float = 86_400.0

    name: ClassVar[str] = "coolant.heat_exchanger"
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
        """Findings on CDUs: heat_exchanger_fouled."""
        rows = tables[CoolantLoop].select(
            "time", entity="cdu", facility="facility_supply_celsius", flow="flow_liters_per_minute",
            approach=pl.col("supply_celsius") - pl.col("facility_supply_celsius"),
            heat=pl.col("flow_liters_per_minute") * (pl.col("return_celsius") - pl.col("supply_celsius")),
        ).drop_nulls()  # fmt: skip
        walked, memory = scan(
            rows.sort("entity", "time"), state.select("entity", "time", *MEMORY),
            inputs=("approach", "heat", "flow", "facility"), memory=MEMORY, outputs=OUTPUTS, step=self._step,
        )  # fmt: skip
        before = state.select("entity", *(pl.col(f"level_{name}").alias(name) for name in LEVEL_NAMES))
        changes, after = levels(
            walked.with_columns(bad=pl.col("bad") == 1),
            before.filter(pl.col("bad").is_not_null()).select(LEVEL_COLUMNS.names()),
            for_seconds=self.for_seconds, clear_seconds=self.clear_seconds,
        )  # fmt: skip
        stored = after.rename({name: f"level_{name}" for name in LEVEL_NAMES})
        kept = memory.join(stored, on="entity", how="left").select(self.keeps.names()).sort("entity")
        said = changes.with_columns(
            approach_kelvin="approach_now", facility_supply_celsius="facility", code=pl.lit("approach"),
            severity=pl.lit("ticket"), score="risen", threshold=pl.lit(self.fouled_share),
            action=pl.when("active").then(pl.lit("open_ticket")),
        ).with_columns(evidence("approach_kelvin", "normal_approach_kelvin", "facility_supply_celsius"))  # fmt: skip
        return Detection(ordered(findings_frame(said, self.name, "heat_exchanger_fouled", "cdu")), kept)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        elapsed = sample["elapsed_seconds"]
        age = np.where(np.isnan(elapsed), 0.0, memory["age_seconds"] + elapsed)
        quick = weight_of(elapsed, self.now_seconds)
        now: dict[str, Floats] = {
            name: toward(memory[name], sample[name.removesuffix("_now")], quick) for name in MEANS
        }
        slow = toward(memory["facility_slow"], sample["facility"], weight_of(elapsed, self.steady_seconds))
        normal = memory["approach_per_heat_normal"]
        steady = (
            (np.abs(sample["facility"] - slow) < self.steady_kelvin)
            & (np.abs(now["facility_now"] - slow) < self.steady_kelvin)
            & ~(now["heat_now"] < self.heat_share * memory["heat_normal"])
            & ~(np.abs(now["flow_now"] / memory["flow_normal"] - 1) > self.flow_share)
            & (now["heat_now"] > 0)
        )
        per_heat = np.divide(now["approach_now"], now["heat_now"], out=np.full(len(age), np.nan), where=steady)
        risen = per_heat / normal - 1
        grown = np.nan_to_num(elapsed / (np.minimum(age, self.normal_seconds) + elapsed))
        weight = np.where(risen > self.fouled_share / 4, 0.0, grown)
        moved = np.where(np.isnan(per_heat), normal, toward(normal, per_heat, weight))
        usual = {
            f"{name}_normal": np.where(steady, toward(memory[f"{name}_normal"], sample[name], weight),
                                       memory[f"{name}_normal"])
            for name in ("heat", "flow")
        }  # fmt: skip
        after = {"age_seconds": age, **now, "facility_slow": slow, "approach_per_heat_normal": moved, **usual}
        bad = np.where(np.isnan(risen), np.nan, risen > self.fouled_share)
        return after, {
            "bad": bad, "approach_now": now["approach_now"], "risen": risen,
            "normal_approach_kelvin": normal * now["heat_now"],
        }  # fmt: skip
