"""Coolant that turns: acid, salts, too little glycol."""

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

QUANTITIES = ("ph", "conductivity", "glycol")
MEMORY = ("age_seconds", "conductivity_normal", *(f"{name}_now" for name in QUANTITIES))
SIGNALS = ("acid", "alkaline", "conductivity_off", "glycol_off")
OUTPUTS = (*SIGNALS, "ph_now", "conductivity_now", "glycol_now", "conductivity_before")
LEVEL_NAMES = tuple(name for name in LEVEL_COLUMNS if name != "entity")


@dataclass(frozen=True, kw_only=True)
class CoolantChemistry:
    """The coolant of a loop leaves the band in which it protects copper, brass and aluminium.

    What fails: the inhibitor is used up and glycol turns to acid (pH falls, late), ions come in by corrosion or a wrong
    refill (conductivity), or plain water was filled in (glycol).
    Formula: now = exponential mean over now_seconds. pH outside ph_minimum..ph_maximum; conductivity more than
    conductivity_share from its own normal (mean over normal_seconds, growing up to it, held still while abnormal);
    glycol more than glycol_tolerance from glycol_percent. Any of them for for_seconds is a ticket, whose code names
    which; it clears after clear_seconds.
    Defaults: domain.md 4.6 (the vendor's document wins): pH 8.0 to 10.5, conductivity +-20 %, PG 25 +- 3 %. Gauges
    drift by hundredths, so now_seconds 10, for_seconds 30 and clear_seconds 300 are far from their noise (assumptions).
    Cannot see: reserve alkalinity and metals, which tell earlier and are measured in a laboratory; a conductivity that
    creeps more slowly than normal_seconds (a day).
    """

    ph_minimum: float = 8.0
    ph_maximum: float = 10.5
    conductivity_share: float = 0.2
    glycol_percent: float = 25.0
    glycol_tolerance: float = 3.0
    now_seconds: float = 10.0
    normal_seconds: float = 86_400.0
    for_seconds: float = 30.0
    clear_seconds: float = 300.0

    name: ClassVar[str] = "coolant.chemistry"
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
        """Findings on CDUs: coolant_chemistry."""
        rows = tables[CoolantLoop].select(
            "time", "ph", entity="cdu", conductivity="conductivity_us_per_cm", glycol="glycol_percent"
        ).filter(pl.any_horizontal(pl.col(*QUANTITIES).is_not_null()))  # fmt: skip
        walked, memory = scan(
            rows.sort("entity", "time"), state.select("entity", "time", *MEMORY),
            inputs=QUANTITIES, memory=MEMORY, outputs=OUTPUTS, step=self._step,
        )  # fmt: skip
        before = state.select("entity", *(pl.col(f"level_{name}").alias(name) for name in LEVEL_NAMES))
        changes, after = levels(
            walked.with_columns(bad=pl.any_horizontal(pl.col(signal) == 1 for signal in SIGNALS)),
            before.filter(pl.col("bad").is_not_null()).select(LEVEL_COLUMNS.names()),
            for_seconds=self.for_seconds, clear_seconds=self.clear_seconds,
        )  # fmt: skip
        stored = after.rename({name: f"level_{name}" for name in LEVEL_NAMES})
        kept = memory.join(stored, on="entity", how="left").select(self.keeps.names()).sort("entity")
        words = [pl.when(pl.col(signal) == 1).then(pl.lit(signal)) for signal in SIGNALS]
        said = changes.with_columns(
            code=pl.concat_str(words, separator="+", ignore_nulls=True), severity=pl.lit("ticket"),
            score=pl.sum_horizontal(pl.col(*SIGNALS)), threshold=pl.lit(1.0),
            action=pl.when("active").then(pl.lit("open_ticket")), normal_conductivity_us_per_cm="conductivity_before",
            conductivity_us_per_cm="conductivity_now", glycol_percent="glycol_now", ph="ph_now",
        ).with_columns(
            evidence("ph", "conductivity_us_per_cm", "normal_conductivity_us_per_cm", "glycol_percent")
        )  # fmt: skip
        return Detection(ordered(findings_frame(said, self.name, "coolant_chemistry", "cdu")), kept)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        elapsed = sample["elapsed_seconds"]
        age = np.where(np.isnan(elapsed), 0.0, memory["age_seconds"] + elapsed)
        quick, now = weight_of(elapsed, self.now_seconds), dict[str, Floats]()
        for name in QUANTITIES:
            known = memory[f"{name}_now"]
            now[name] = np.where(np.isnan(sample[name]), known, toward(known, sample[name], quick))
        normal = memory["conductivity_normal"]
        away = np.abs(now["conductivity"] / normal - 1)
        off = away > self.conductivity_share
        grown = np.nan_to_num(elapsed / (np.minimum(age, self.normal_seconds) + elapsed))
        # Halfway there the normal follows at a tenth of its pace: the beginning of a change is one too.
        pace = np.where(off, 0.0, np.where(away > self.conductivity_share / 2, grown / 10, grown))
        moved = toward(normal, sample["conductivity"], pace)
        return {
            "age_seconds": age,
            "conductivity_normal": np.where(np.isnan(sample["conductivity"]), normal, moved),
            **{f"{name}_now": value for name, value in now.items()},
        }, {
            "acid": (now["ph"] < self.ph_minimum).astype(np.float64),
            "alkaline": (now["ph"] > self.ph_maximum).astype(np.float64),
            "conductivity_off": off.astype(np.float64),
            "glycol_off": (np.abs(now["glycol"] - self.glycol_percent) > self.glycol_tolerance).astype(np.float64),
            **{f"{name}_now": value for name, value in now.items()},
            "conductivity_before": normal,
        }
