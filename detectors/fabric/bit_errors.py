"""Bit errors of a link, before and after correction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.error_rate import RateTest, onset
from detectors.fabric.lanes import of_links
from detectors.fabric.port_samples import (
    TRAINING,
    bits_since,
    grown,
    held,
    ordered_ports,
    port_samples,
    raw_rate,
    settled,
)
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, scan
from detectors.stats.sorted_state import beside, in_order, rows_of, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import FabricPort

COUNTERS = ("fec_corrected_total", "fec_uncorrected_total", "effective_error_total", "symbol_error_total")
READINGS = ("raw_bit_error_rate", "effective_bit_error_rate", "symbol_bit_error_rate", "seconds_since_clear")
SCORES = ("effective_score", "symbol_score")
SINCE = ("effective_since", "symbol_since")
MEMORY = (*TRAINING, *COUNTERS, "raw_high", *SCORES, *SINCE)
OUTPUTS = ("grade", "tier", "raw", "effective_errors", "symbol_errors", "bits", *SCORES, "since")
TIERS = ("raw", "effective", "symbol")


@dataclass(frozen=True, kw_only=True)
class BitErrors:
    """A link makes more bit errors than it may, before correction (raw) or after it (effective, symbol).

    What fails: light, a SerDes, a cable. What it looks like: raw errors rise first, by powers of ten, and nothing else;
    near the limit of the code (2.4e-4 for KP4) codewords are lost, packets are sent again and a collective waits.
    Formula, per end and sample (errors and bits since the sample before, from counters where there are any):
    raw = errors before correction / bits; bad from raw_begins on in two samples in a row, good below raw_ends, a page
    from raw_page on. Effective and symbol errors go through a sequential Poisson test (detectors.fabric.error_rate),
    which decides in the first 30 s at a rate of 1e-12 where a rule over windows waits 12 minutes. What correction
    leaves of raw errors above raw_begins is their doing: it counts while they last, and is no evidence once they are
    over. A link is as bad as its worse end and tier; an end is good when all its tiers are.

    raw_begins 5e-6, raw_ends 1e-6; effective 1e-11 against 1e-12; symbol 1e-14 against 1e-15: warning (raw), error and
    normal of active optics in UFM's Field_BER_Thresholds.csv (field.md 5). raw_page 1e-4: half a decade below the KP4
    limit (domain.md 4.4). settle_seconds 300, as a link that has just retrained adapts, and one that does so again and
    again is fabric.link_flap's (an assumption). gigabits 400 where the port does not tell its rate.
    False alarms of both tests: see RateTest; raw errors of healthy links are two decades below.

    Cannot see: copper's tighter limits; an average since the last clearing (a reading with seconds_since_clear) for a
    rate of now, so that it is used only where no counter is; and why: fabric.error_origin and the optic detectors do.
    """

    raw_begins: float = 5e-6
    raw_ends: float = 1e-6
    raw_page: float = 1e-4
    effective: RateTest = field(default_factory=lambda: RateTest(healthy=1e-12, faulty=1e-11))
    symbol: RateTest = field(default_factory=lambda: RateTest(healthy=1e-15, faulty=1e-14))
    settle_seconds: float = 300.0
    gigabits: float = 400.0
    clear_seconds: float = 60.0

    name: ClassVar[str] = "fabric.bit_errors"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (FabricPort,)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            **GRADE_COLUMNS, "time": UTC_MICROSECONDS,
            **dict.fromkeys(MEMORY, pl.Float64()),
        }
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on links: link_degraded."""
        samples = port_samples(context.once(ordered_ports, tables[FabricPort]), COUNTERS, READINGS)
        known = in_order(state)
        few = rows_of(known, samples["entity"])
        walked, memory = scan(
            samples.with_columns(at=pl.col("time").dt.epoch("us").cast(pl.Float64())),
            few.select("entity", "time", *MEMORY),
            inputs=("up", "downed", "gigabits", *COUNTERS, *READINGS, "at"), memory=MEMORY, outputs=OUTPUTS,
            step=self._step,
        )  # fmt: skip
        changes, after = graded_levels(
            walked.with_columns(pl.col("grade").cast(pl.Int64())), few.select(GRADE_COLUMNS.names()),
            clear_seconds=self.clear_seconds,
        )  # fmt: skip
        after = with_rows(known, beside(memory, after).select(self.keeps.names()))
        return Detection(self._findings(changes, known, context), after)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        training, calm = settled(memory, sample, self.settle_seconds)
        bits = bits_since(sample, self.gigabits)
        more = {name: grown(memory[name], sample[name]) for name in COUNTERS}
        of_now = np.isnan(sample["seconds_since_clear"])
        raw = np.where(calm, raw_rate(memory, sample, bits), np.nan)
        left = np.where(
            np.isnan(more["effective_error_total"]), more["fec_uncorrected_total"], more["effective_error_total"]
        )
        effective_errors, symbol_errors = (
            np.where(calm, np.fmax(counted, np.where(of_now, rate * bits, np.nan)), np.nan)
            for counted, rate in (
                (left, sample["effective_bit_error_rate"]),
                (more["symbol_error_total"], sample["symbol_bit_error_rate"]),
            )
        )
        effective = self.effective.after(memory["effective_score"], effective_errors, bits)
        symbol = self.symbol.after(memory["symbol_score"], symbol_errors, bits)
        high = raw >= self.raw_begins
        raw_bad = high & (memory["raw_high"] == 1)
        over = (effective >= self.effective.bound, symbol >= self.symbol.bound)
        good = ~(raw >= self.raw_ends) & (effective <= 0) & (symbol <= 0)
        knows = ~np.isnan(raw) | ~np.isnan(effective_errors) | ~np.isnan(symbol_errors)
        bad = raw_bad | over[0] | over[1]
        grade = np.where(bad, np.where(raw >= self.raw_page, 2.0, 1.0), np.where(good, 0.0, np.nan))
        since = {
            "effective_since": onset(memory["effective_since"], memory["effective_score"], effective, sample["at"]),
            "symbol_since": onset(memory["symbol_since"], memory["symbol_score"], symbol, sample["at"]),
        }
        tests = {**since, "effective_score": effective, "symbol_score": symbol}
        # The first sample after raw errors have ended still holds what they did within it.
        explained = high | ((memory["raw_high"] == 1) & ~np.isnan(raw))
        after = {
            **training, **{name: held(memory[name], sample[name]) for name in COUNTERS},
            "raw_high": np.where(np.isnan(raw), memory["raw_high"], high.astype(np.float64)),
            **{name: np.where(explained, memory[name], value) for name, value in tests.items()},
        }  # fmt: skip
        return after, {
            "grade": np.where(knows, grade, np.nan),
            "tier": np.where(raw_bad, 0.0, np.where(over[0], 1.0, 2.0)),
            "raw": raw, "effective_errors": effective_errors, "symbol_errors": symbol_errors, "bits": bits,
            "effective_score": effective, "symbol_score": symbol,
            "since": np.where(raw_bad, np.nan, np.where(over[0], since["effective_since"], since["symbol_since"])),
        }  # fmt: skip

    def _findings(self, changes: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
        if changes.is_empty():
            return NO_FINDINGS
        tier = pl.col("tier").cast(pl.Int64())
        since = pl.from_epoch(pl.col("since").cast(pl.Int64()), time_unit="us").dt.replace_time_zone("UTC")
        rows = of_links(changes, before, context.topology).with_columns(
            code=tier.replace_strict(dict(enumerate(TIERS)), default=None, return_dtype=pl.String),
            score=pl.when(tier == 0).then("raw").when(tier == 1).then("effective_score").otherwise("symbol_score"),
            threshold=pl.when(tier == 0).then(self.raw_begins).when(tier == 1).then(self.effective.bound)
            .otherwise(self.symbol.bound),
            first_bad_at=pl.when("active").then(pl.min_horizontal("first_bad_at", since)).otherwise("first_bad_at"),
            raw_bit_error_rate=pl.col("raw"),
            action=pl.lit("open_ticket"),
        ).with_columns(
            evidence("part", "raw_bit_error_rate", "effective_errors", "symbol_errors", "bits", *SCORES)
        )  # fmt: skip
        return ordered(findings_frame(rows, self.name, "link_degraded", "link"))
