"""A laser that takes more and more current for the same light."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.lanes import of_links, ordered_lanes
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, scan
from detectors.stats.sorted_state import beside, in_order, rows_of, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import Optic

INPUTS = ("bias_milliamps", "transmit_power_dbm", "module_temperature_celsius")
MEMORY = (
    "normal_milliamps", "normal_transmit_dbm", "normal_celsius", "samples", "before_milliamps", "risen_milliamps",
    "risen_seconds",
)  # fmt: skip
OUTPUTS = ("risen_share", "transmit_fallen_db", "normal_milliamps", "milliamps_per_hour")
FIRST_SAMPLES, ENOUGH_SAMPLES = 5.0, 3.0
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class LaserAging:
    """A lane's bias current rises while its Tx power holds or falls: the laser wears out, at this end.

    What fails: the laser's efficiency. The module's control loop raises the bias to hold the light; when it cannot any
    more, Tx falls, then Rx at the far end (fabric.optic_power), then the far end's errors rise. This is the earliest of
    these signs, and the one that names the end to exchange.
    Formula, per lane: risen = bias / normal - 1 - per_kelvin (T - T normal), the normals being the means of the first
    five samples. Ticket when risen >= rise and Tx is not above its normal by transmit_db (a new power setting raises
    both), or the bias is above the module's own high alarm; good below half of rise. Two samples in a row must say so.
    The normals begin anew after a jump of jump from one sample to the next, as no laser ages in a minute: a module was
    exchanged or set anew. Evidence: hours_left until the module's own alarm at the pace since half of rise was passed.

    rise 0.2: a usual end of life of lasers is 20 to 50 % more current (an assumption, no public source at hand; live
    lanes draw 73 to 110 mA, domain.md 4.4, so that no absolute limit serves). per_kelvin 0.01: an assumption.
    transmit_db 0.5. jump 0.1. alarm_milliamps 130 where the module tells none (real capture, domain.md 4.4).

    Cannot see: ageing before the first sample, unless the module's alarm shows it.
    """

    rise: float = 0.2
    per_kelvin: float = 0.01
    transmit_db: float = 0.5
    jump: float = 0.1
    alarm_milliamps: float = 130.0
    for_seconds: float = 1.0
    clear_seconds: float = 60.0

    name: ClassVar[str] = "fabric.laser_aging"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (Optic,)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            **GRADE_COLUMNS, "time": UTC_MICROSECONDS,
            **dict.fromkeys(MEMORY, pl.Float64()),
        }
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on links: optic_degrading."""
        lanes = context.once(ordered_lanes, tables[Optic]).filter(pl.col("bias_milliamps") > 0)
        known = in_order(state)
        few = rows_of(known, lanes["entity"])
        walked, memory = scan(
            lanes, few.select("entity", "time", *MEMORY), inputs=INPUTS, memory=MEMORY, outputs=OUTPUTS,
            step=self._step,
        )  # fmt: skip
        alarm = pl.col("bias_alarm_high_milliamps").fill_null(self.alarm_milliamps)
        over = pl.col("bias_milliamps") >= alarm
        worn = (pl.col("risen_share") >= self.rise) & ~(pl.col("transmit_fallen_db") < -self.transmit_db).fill_null(
            value=False
        )
        grade = pl.when(over | worn).then(1).when((pl.col("risen_share") < self.rise / 2) & ~over).then(0)
        judged = walked.with_columns(
            grade=grade.cast(pl.Int64()), alarm_milliamps=alarm,
            hours_left=pl.when(pl.col("milliamps_per_hour") > 0).then(
                (alarm - pl.col("bias_milliamps")) / pl.col("milliamps_per_hour")
            ),
        )  # fmt: skip
        changes, after = graded_levels(
            judged, few.select(GRADE_COLUMNS.names()), for_seconds=self.for_seconds, clear_seconds=self.clear_seconds
        )
        after = with_rows(known, beside(memory, after).select(self.keeps.names()))
        return Detection(self._findings(changes, known, context), after)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        bias, before = sample["bias_milliamps"], memory["before_milliamps"]
        anew = np.abs(bias - before) > self.jump * before
        count = np.where(anew, 0.0, np.nan_to_num(memory["samples"]))
        learning = count < FIRST_SAMPLES
        normals = {}
        for name, value in (
            ("normal_milliamps", bias),
            ("normal_transmit_dbm", sample["transmit_power_dbm"]),
            ("normal_celsius", sample["module_temperature_celsius"]),
        ):
            old = np.where(anew, np.nan, memory[name])
            moved = np.where(np.isnan(old), value, old + np.where(learning, (value - old) / (count + 1), 0.0))
            normals[name] = np.where(np.isnan(value), old, moved)
        warmer = np.nan_to_num(sample["module_temperature_celsius"] - normals["normal_celsius"])
        risen = bias / normals["normal_milliamps"] - 1 - self.per_kelvin * warmer
        risen = np.where(count >= ENOUGH_SAMPLES, risen, np.nan)
        rising = risen >= self.rise / 2
        first = rising & np.isnan(memory["risen_milliamps"])
        since = np.where(first, 0.0, memory["risen_seconds"] + np.nan_to_num(sample["elapsed_seconds"]))
        start = np.where(rising, np.where(first, bias, memory["risen_milliamps"]), np.nan)
        pace = (bias - start) / np.where(since > 0, since, np.nan) * SECONDS_PER_HOUR
        after = {
            **normals, "samples": np.where(learning, count + 1, count), "before_milliamps": bias,
            "risen_milliamps": start, "risen_seconds": np.where(rising, since, np.nan),
        }  # fmt: skip
        return after, {
            "risen_share": risen, "transmit_fallen_db": normals["normal_transmit_dbm"] - sample["transmit_power_dbm"],
            "normal_milliamps": normals["normal_milliamps"], "milliamps_per_hour": np.where(rising, pace, np.nan),
        }  # fmt: skip

    def _findings(self, changes: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
        if changes.is_empty():
            return NO_FINDINGS
        falling = (pl.col("transmit_fallen_db") >= self.transmit_db).fill_null(value=False)
        rows = of_links(changes, before, context.topology).with_columns(
            code=pl.when(falling).then(pl.lit("laser_fails")).otherwise(pl.lit("bias_rises")),
            score=pl.col("risen_share"),
            threshold=pl.lit(self.rise),
            action=pl.lit("open_ticket"),
        ).with_columns(
            evidence(
                "part", "bias_milliamps", "normal_milliamps", "alarm_milliamps", "transmit_power_dbm",
                "transmit_fallen_db", "milliamps_per_hour", "hours_left",
            )
        )  # fmt: skip
        return ordered(findings_frame(rows, self.name, "optic_degrading", "link"))
