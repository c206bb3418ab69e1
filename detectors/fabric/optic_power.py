"""Light that fades: an ageing laser, seen days before the link fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.lanes import beside_far_end, beside_peers, of_links, ordered_lanes, with_link
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, scan
from detectors.stats.sorted_state import beside, in_order, interleaved, rows_of, with_new, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import Optic

READINGS = ("receive_power_dbm", "transmit_power_dbm", "transmit_change_db")
FIT = (
    "weight", "mean_hours", "mean_dbm", "mean_milliamps", "hours_hours", "hours_dbm", "hours_milliamps", "bend_dbm",
    "slope_dbm", "stepped", "bias_milliamps_per_hour",
)  # fmt: skip
PLACE = ("entity", "device", "port", "lane")
OUTPUTS = (
    "weight", "slope_db_per_hour", "significance", "fitted_dbm", "fallen_db", "bias_milliamps_per_hour", "stepped",
)  # fmt: skip
# Without any noise a slope would be infinitely sure. Up to 0.28 dB it decides nothing: slope / error is then at least
# fallen_db * sqrt(samples) / RESOLUTION_DB, and that is the significance that is asked for.
RESOLUTION_DB = 0.01


@dataclass(frozen=True, kw_only=True)
class ReceivePowerTrend:
    """Received light falls steadily towards the module's own low alarm.

    What fails: the laser at the far end ages (its bias current rises to hold the light, then cannot), or the path's
    loss grows slowly. What it looks like: dBm on a slope, while neighbours stay. Formula: least squares of dBm over
    hours with weights that forget with memory_hours, per lane; the fit restarts where light jumps by more than
    jump_db between two samples without the sender having jumped as much, because such a step is a connector or a bend
    and no trend. A lane is bad (ticket) when

        slope / its standard error <= -significance,  the fit has fallen by at least fallen_db,
        and (fitted light - alarm) / -slope <= horizon_hours,

    where the error comes from the noise of second differences (variance 6 sigma^2), which a fade that has only begun
    does not inflate. A lane is a page when it is below the alarm without a jump having taken it there. Two samples in
    a row must say so. It clears when the trend is insignificant or twice the horizon away.

    alarm: the module's own receive_power_alarm_low_dbm; alarm_low_dbm -8.9 where it tells none (400G 4x100G single
    mode, real capture, domain.md 4.4). horizon_hours 24: a working day to act. memory_hours 2: 120 samples a minute
    apart make 0.05 dB of noise a slope error below 0.01 dB/h. fallen_db 0.5 and significance 5: a day's swing of
    temperature moves light by some 0.1 dB (an assumption). samples 8. jump_db 1.0: the least step that
    fabric.contaminated_connector takes for one.

    Cannot see: bias that rises while light still holds (it is in the evidence only), a fade of more than jump_db per
    sample, and on which side of the fibre the loss is.
    """

    alarm_low_dbm: float = -8.9
    horizon_hours: float = 24.0
    memory_hours: float = 2.0
    significance: float = 5.0
    fallen_db: float = 0.5
    jump_db: float = 1.0
    samples: float = 8.0
    for_seconds: float = 1.0
    clear_seconds: float = 180.0

    name: ClassVar[str] = "fabric.optic_power"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (Optic,)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            "device": pl.String(), "port": pl.Int64(), "lane": pl.Int64(), **GRADE_COLUMNS,
            "time": UTC_MICROSECONDS, **dict.fromkeys(READINGS, pl.Float64()),
            "lit_time": UTC_MICROSECONDS, **dict.fromkeys(FIT, pl.Float64()),
        }
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on links: optic_degrading."""
        light = pl.col("receive_power_dbm", "transmit_power_dbm")
        told = context.once(ordered_lanes, tables[Optic]).filter(pl.any_horizontal(light.is_not_null()))
        known = in_order(state)
        few = rows_of(known, told["entity"])
        read, readings = scan(
            told, few.select("entity", "time", *READINGS), inputs=("receive_power_dbm", "transmit_power_dbm"),
            memory=READINGS, outputs=("receive_change_db", "transmit_change_db"), step=_changes,
        )  # fmt: skip
        fit_before = few.filter(pl.col("lit_time").is_not_null()).select("entity", *FIT, time="lit_time")
        walked, fit = scan(
            self._beside_sender(read, known, context), fit_before,
            inputs=("receive_power_dbm", "receive_change_db", "bias_milliamps", "far_transmit_change_db"), memory=FIT,
            outputs=OUTPUTS, step=self._fit,
        )  # fmt: skip
        alarm = pl.col("receive_power_alarm_low_dbm").fill_null(self.alarm_low_dbm)
        judged = walked.with_columns(alarm_dbm=alarm).with_columns(
            hours_left=(pl.col("fitted_dbm") - pl.col("alarm_dbm")) / -pl.col("slope_db_per_hour")
        )
        changes, after = graded_levels(
            judged.with_columns(grade=self._grade()), few.select(GRADE_COLUMNS.names()),
            for_seconds=self.for_seconds, clear_seconds=self.clear_seconds,
        )  # fmt: skip
        kept = with_new(few.select(PLACE), read)
        for more in (readings, fit.rename({"time": "lit_time"}), after):
            kept = beside(kept, more)
        kept = with_rows(known, kept.select(self.keeps.names()))
        return Detection(self._findings(changes, known, walked, context), kept)

    def _beside_sender(self, read: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Lit samples; those that jumped with how the sender at the far end has just changed."""
        lit = read.filter(pl.col("receive_power_dbm").is_not_null())
        jumped = (pl.col("receive_change_db").abs() > self.jump_db).fill_null(value=False)
        asked = beside_far_end(
            with_link(lit.filter(jumped), context.topology), before, read, ("transmit_change_db",),
            _tolerance_seconds(context),
        ).drop("whole", "peer", "peer_port")  # fmt: skip
        return interleaved(lit.filter(~jumped), asked)

    def _fit(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        """Weighted least squares one sample later; hours are counted back from the newest sample."""
        light, bias, hours = sample["receive_power_dbm"], sample["bias_milliamps"], sample["elapsed_seconds"] / 3600
        jump = sample["receive_change_db"] - np.nan_to_num(sample["far_transmit_change_db"])
        fresh = np.isnan(hours) | (np.abs(jump) > self.jump_db)
        stepped = np.where(
            jump < -self.jump_db, 1.0, np.where(jump > self.jump_db, 0.0, np.nan_to_num(memory["stepped"]))
        )
        hours = np.nan_to_num(hours)
        kept = np.where(fresh, 0.0, self.memory_hours / (self.memory_hours + hours))
        old = {name: np.where(fresh | np.isnan(memory[name]), 0.0, memory[name]) for name in FIT}
        weight = kept * old["weight"] + 1
        from_mean_hours = hours - old["mean_hours"]
        from_mean_dbm = np.where(fresh, 0.0, light - old["mean_dbm"])
        unknown_bias = fresh | np.isnan(bias) | np.isnan(memory["mean_milliamps"])
        from_mean_milliamps = np.where(unknown_bias, 0.0, bias - memory["mean_milliamps"])
        mean_dbm = np.where(fresh, light, old["mean_dbm"] + from_mean_dbm / weight)
        mean_milliamps = np.where(
            unknown_bias & ~np.isnan(bias), bias, memory["mean_milliamps"] + from_mean_milliamps / weight
        )
        mean_hours = np.where(fresh, 0.0, old["mean_hours"] - hours + from_mean_hours / weight)
        hours_hours = kept * old["hours_hours"] - np.where(fresh, 0.0, from_mean_hours * mean_hours)
        hours_dbm = kept * old["hours_dbm"] + np.where(fresh, 0.0, from_mean_hours * (light - mean_dbm))
        slope_dbm = np.where(fresh, np.nan, sample["receive_change_db"])
        bend = np.nan_to_num(slope_dbm - np.where(fresh, np.nan, memory["slope_dbm"]))
        bend_dbm = kept * old["bend_dbm"] + bend * bend
        hours_milliamps = kept * old["hours_milliamps"] + np.where(
            unknown_bias, 0.0, from_mean_hours * (bias - mean_milliamps)
        )
        spread = np.where(hours_hours > 0, hours_hours, np.nan)
        slope = hours_dbm / spread
        noise = bend_dbm / 6 / np.maximum(weight - 2, 1.0) + RESOLUTION_DB**2 / 12
        error = np.sqrt(noise / spread)
        return {
            "weight": weight, "mean_hours": mean_hours, "mean_dbm": mean_dbm, "mean_milliamps": mean_milliamps,
            "hours_hours": hours_hours, "hours_dbm": hours_dbm, "hours_milliamps": hours_milliamps,
            "bend_dbm": bend_dbm, "slope_dbm": slope_dbm, "stepped": stepped,
            "bias_milliamps_per_hour": hours_milliamps / spread,
        }, {
            "weight": weight, "slope_db_per_hour": slope, "significance": slope / error,
            "fitted_dbm": mean_dbm - slope * mean_hours, "fallen_db": -slope * np.sqrt(12 * spread / weight),
            "bias_milliamps_per_hour": hours_milliamps / spread, "stepped": stepped,
        }  # fmt: skip

    def _grade(self) -> pl.Expr:
        enough = pl.col("weight") >= self.samples
        falling = enough & (pl.col("significance") <= -self.significance) & (pl.col("fallen_db") >= self.fallen_db)
        low = (pl.col("receive_power_dbm") < pl.col("alarm_dbm")) & (pl.col("stepped") == 0)
        over = enough & (
            (pl.col("significance") > -self.significance / 2) | (pl.col("hours_left") > 2 * self.horizon_hours)
        )
        return (
            pl.when(low | (falling & (pl.col("receive_power_dbm") < pl.col("alarm_dbm")))).then(2)
            .when(falling & (pl.col("hours_left") <= self.horizon_hours)).then(1)
            .when(over).then(0)
        )  # fmt: skip

    def _findings(
        self, changes: pl.DataFrame, before: pl.DataFrame, walked: pl.DataFrame, context: Context
    ) -> pl.DataFrame:
        if changes.is_empty():
            return NO_FINDINGS
        wholes, slope = beside_peers(of_links(changes, before, context.topology), walked), ("bias_milliamps_per_hour",)
        slopes = before.select("entity", *slope, time="lit_time")
        spoken = beside_far_end(wholes, slopes, walked, slope, _tolerance_seconds(context))
        page = pl.col("severity") == "page"
        rows = spoken.with_columns(
            code=pl.when(page).then(pl.lit("below_alarm")).otherwise(pl.lit("fading")),
            score=pl.col("alarm_dbm") - pl.col("receive_power_dbm"),
            threshold=pl.lit(0.0),
            action=pl.when(page).then(pl.lit("isolate_port")).otherwise(pl.lit("open_ticket")),
        ).with_columns(
            evidence(
                "part", "receive_power_dbm", "alarm_dbm", "slope_db_per_hour", "hours_left", "peers_receive_power_dbm",
                "bias_milliamps", "bias_milliamps_per_hour", "far_bias_milliamps_per_hour",
            )
        )  # fmt: skip
        return ordered(findings_frame(rows, self.name, "optic_degrading", "link"))


def _changes(memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
    """What light received and sent has changed by since the last reading of each; held where there is none."""
    received, sent = sample["receive_power_dbm"], sample["transmit_power_dbm"]
    change = np.where(np.isnan(sent), memory["transmit_change_db"], sent - memory["transmit_power_dbm"])
    return {
        "receive_power_dbm": np.where(np.isnan(received), memory["receive_power_dbm"], received),
        "transmit_power_dbm": np.where(np.isnan(sent), memory["transmit_power_dbm"], sent),
        "transmit_change_db": change,
    }, {"receive_change_db": received - memory["receive_power_dbm"], "transmit_change_db": change}


def _tolerance_seconds(context: Context) -> float:
    return 5 * context.intervals_seconds.get("optic", 60.0)
