"""Bit errors that the light does not explain."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.lanes import of_links, ordered_lanes, words_of
from detectors.fabric.module_normals import CHANGES, MEMORY, READINGS, SAID, from_normal, module_samples
from detectors.fabric.port_samples import TRAINING, bits_since, held, ordered_ports, port_samples, raw_rate, settled
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, scan
from detectors.stats.sorted_state import beside, fitted, interleaved, part, rows_of, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import FabricPort, Optic
from schemas.tables import TABLE_BY_SCHEMA

COUNTERS = ("fec_corrected_total",)
RATES = ("raw_bit_error_rate", "seconds_since_clear")
PORT_MEMORY = (*TRAINING, *COUNTERS, "normal_raw", "raw_samples", "risen_at")
FIRST_SAMPLES, ENOUGH_SAMPLES = 5.0, 3.0
MODULE, PORT = "module", "port"


@dataclass(frozen=True, kw_only=True)
class ErrorOrigin:
    """A receiver's errors rise while its light is as it was: the fault is electrical, and no cleaning helps.

    What fails: the SerDes or the trace between module and chip (host_serdes), a module that overheats because its cage
    is blocked (thermal), or its supply (supply). What it looks like: raw bit errors up by two decades at one end, Rx on
    every lane as when first seen; and either the module is hot, or its voltage is off, or nothing of it has changed.
    Formula, per end: risen when the raw rate is times its own normal (mean of its first five samples) and at least
    raw_minimum. Then the module's first words after that moment are asked: worst lane within light_db of its normal,
    or the light explains it and the optic detectors speak; else thermal when it is celsius or hotter, or kelvin above
    its normal, supply when its volts are outside [volts_low, volts_high], host_serdes otherwise. Two samples in a row
    must say so. It ends when the rate is below a tenth of that.

    times 100, kelvin 10, celsius 70: gates of UFM and ibdiagnet (domain.md 4.4: "BER change x100", "cable temp >70 C,
    delta >10 C"). volts 3.135 to 3.465: a 400G module's own warnings (real capture, domain.md 4.4). light_db 1.0: a
    loss that a healthy budget absorbs. raw_minimum 1e-7: where correction has nothing to do (an assumption).

    Cannot see: errors that were there from the first sample, modules without readings, which of the two SerDes of the
    lane it is (the sender's or the receiver's).
    """

    times: float = 100.0
    raw_minimum: float = 1e-7
    light_db: float = 1.0
    kelvin: float = 10.0
    celsius: float = 70.0
    volts_low: float = 3.135
    volts_high: float = 3.465
    settle_seconds: float = 300.0
    gigabits: float = 400.0
    tolerance_intervals: float = 5.0
    for_seconds: float = 1.0
    clear_seconds: float = 60.0

    name: ClassVar[str] = "fabric.error_origin"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (FabricPort, Optic)
    # row = port (memory of its errors, its level) or module (normals and last words of its transceiver).
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            "row": pl.String(), **GRADE_COLUMNS, "time": UTC_MICROSECONDS,
            **dict.fromkeys((*PORT_MEMORY, *MEMORY), pl.Float64()),
        }
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on links: link_degraded."""
        modules, ports = part(state, "row", MODULE), part(state, "row", PORT)
        lanes = context.once(ordered_lanes, tables[Optic])
        seen = context.once(module_samples, lanes)
        optics, normals = scan(
            seen, rows_of(modules, seen["entity"]).select("entity", "time", *MEMORY),
            inputs=READINGS, memory=MEMORY, outputs=CHANGES, step=from_normal,
        )  # fmt: skip
        samples = context.once(ordered_ports, tables[FabricPort])
        few = rows_of(ports, samples["entity"])
        walked, memory = scan(
            port_samples(samples, COUNTERS, RATES).with_columns(at=pl.col("time").dt.epoch("us").cast(pl.Float64())),
            few.select("entity", "time", *PORT_MEMORY), inputs=("up", "downed", "gigabits", *COUNTERS, *RATES, "at"),
            memory=PORT_MEMORY, outputs=("raw", "normal_raw", "risen_at", "calm"), step=self._step,
        )  # fmt: skip
        changes, after = graded_levels(
            self._judged(walked, modules, optics, context), few.select(GRADE_COLUMNS.names()),
            for_seconds=self.for_seconds, clear_seconds=self.clear_seconds,
        )  # fmt: skip
        kept = [
            with_rows(before, self._kept(row, now))
            for row, before, now in ((MODULE, modules, normals), (PORT, ports, beside(memory, after)))
        ]
        return Detection(self._findings(changes, ports, context), pl.concat(kept))

    def _kept(self, row: str, known: pl.DataFrame) -> pl.DataFrame:
        return fitted(known.with_columns(row=pl.lit(row)), self.keeps)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        training, calm = settled(memory, sample, self.settle_seconds)
        raw = np.where(calm, raw_rate(memory, sample, bits_since(sample, self.gigabits)), np.nan)
        count, normal = np.nan_to_num(memory["raw_samples"]), memory["normal_raw"]
        risen = (count >= ENOUGH_SAMPLES) & (raw >= self.times * normal) & (raw >= self.raw_minimum)
        over = raw < np.fmax(self.times / 10 * normal, self.raw_minimum / 10)
        began = np.where(risen & np.isnan(memory["risen_at"]), sample["at"], memory["risen_at"])
        learns = ~np.isnan(raw) & (count < FIRST_SAMPLES) & ~risen
        learned = np.where(np.isnan(normal), raw, normal + (raw - normal) / (count + 1))
        after = {
            **training, "fec_corrected_total": held(memory["fec_corrected_total"], sample["fec_corrected_total"]),
            "normal_raw": np.where(learns, learned, normal), "raw_samples": np.where(learns, count + 1, count),
            "risen_at": np.where(over, np.nan, began),
        }  # fmt: skip
        calm_told = np.where(over, 0.0, np.where(risen, 1.0, np.nan))
        return after, {"raw": raw, "normal_raw": normal, "risen_at": after["risen_at"], "calm": calm_told}

    def _judged(
        self, walked: pl.DataFrame, modules: pl.DataFrame, optics: pl.DataFrame, context: Context
    ) -> pl.DataFrame:
        """Samples of ends with their grade; only where errors have risen does the module have to be asked."""
        up = walked.filter(pl.col("calm") == 0).with_columns(grade=pl.lit(0, pl.Int64()))
        risen = walked.filter(pl.col("calm") == 1).sort("time")
        words = words_of(risen["entity"], modules, optics, SAID)
        tolerance = round(self.tolerance_intervals * context.interval_seconds_of(TABLE_BY_SCHEMA[Optic]) * 1000)
        asked = risen.join_asof(
            words.rename({"time": "module_time"}), left_on="time", right_on="module_time", by="entity",
            tolerance=f"{tolerance}ms", check_sortedness=False, coalesce=False,
        )  # fmt: skip
        since = pl.col("module_time").dt.epoch("us") >= pl.col("risen_at").cast(pl.Int64())
        grade = pl.when(since).then((pl.col("lost_worst_db") < self.light_db).cast(pl.Int64()))
        return interleaved(up, asked.with_columns(grade=grade))

    def _findings(self, changes: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
        if changes.is_empty():
            return NO_FINDINGS
        hot = (pl.col("celsius") >= self.celsius) | (pl.col("risen_kelvin") >= self.kelvin)
        off = (pl.col("volts") < self.volts_low) | (pl.col("volts") > self.volts_high)
        rows = of_links(changes, before, context.topology).with_columns(
            code=pl.when(hot).then(pl.lit("thermal")).when(off).then(pl.lit("supply")).otherwise(pl.lit("host_serdes")),
            score=pl.col("raw"),
            threshold=self.times * pl.col("normal_raw"),
            raw_bit_error_rate=pl.col("raw"),
            normal_raw_bit_error_rate=pl.col("normal_raw"),
            action=pl.lit("open_ticket"),
        ).with_columns(
            evidence(
                "part", "raw_bit_error_rate", "normal_raw_bit_error_rate", "receive_worst_dbm", "lost_worst_db",
                "celsius", "risen_kelvin", "volts",
            )
        )  # fmt: skip
        return ordered(findings_frame(rows, self.name, "link_degraded", "link"))
