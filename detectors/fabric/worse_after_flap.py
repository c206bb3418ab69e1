"""A link that comes back from an outage with far more bit errors than it had before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.lanes import of_links
from detectors.fabric.port_samples import TRAINING, bits_since, held, ordered_ports, port_samples, raw_rate, settled
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, scan
from detectors.stats.sorted_state import beside, in_order, rows_of, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import FabricPort

COUNTERS = ("fec_corrected_total",)
RATES = ("raw_bit_error_rate", "seconds_since_clear")
MEMORY = (*TRAINING, *COUNTERS, "raw_now", "samples_now", "raw_before")
ENOUGH_SAMPLES, REMEMBERED_SAMPLES = 3.0, 60.0


@dataclass(frozen=True, kw_only=True)
class WorseAfterFlap:
    """A receiver locks onto a poor signal, or a plug has moved: the link is up, and worse than it was.

    What fails: the equaliser settles on a bad optimum when a link trains while its light is not yet whole, or what took
    the link down has also cost light. What it looks like: after an outage the state is active and every limit is kept,
    yet an end makes many times the raw bit errors that it made before; the next small loss takes it over the limit.
    Formula, per end: raw = errors before correction / bits since the sample before. before = running mean of raw over
    the settled samples ahead of the outage (at least three; one weighs at least a sixtieth); where a link trains again
    while it is bad, before stays that of the good time. Bad when, settle_seconds after the last training, raw is at
    least times before and at least raw_minimum for for_seconds (so in two samples); good again below ends_times before,
    or below raw_minimum, for clear_seconds. A link is as bad as its worse end.

    times 10: an order of magnitude (sonic-mgmt pull request 26555, pre-FEC BER guard after a flap). ends_times 3: half
    of that in decades. settle_seconds 300: as in fabric.bit_errors. raw_minimum 1e-9: where correction has next to
    nothing to do (an assumption). gigabits 400 where the port does not tell its rate. for_seconds 1, clear_seconds
    60: as in fabric.error_origin.

    Cannot see: errors that rose before the outage or long after it (fabric.bit_errors, fabric.error_origin), ports
    without a count of corrected errors or a rate, outages that nobody counted, and links that flap faster than they
    settle (fabric.link_flap).
    """

    times: float = 10.0
    ends_times: float = 3.0
    raw_minimum: float = 1e-9
    settle_seconds: float = 300.0
    gigabits: float = 400.0
    for_seconds: float = 1.0
    clear_seconds: float = 60.0

    name: ClassVar[str] = "fabric.worse_after_flap"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (FabricPort,)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {**GRADE_COLUMNS, "time": UTC_MICROSECONDS, **dict.fromkeys(MEMORY, pl.Float64())}
    )

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on links: link_degraded."""
        ports, known = context.once(ordered_ports, tables[FabricPort]), in_order(state)
        few = rows_of(known, ports["entity"])
        walked, memory = scan(
            port_samples(ports, COUNTERS, RATES),
            few.select("entity", "time", *MEMORY), inputs=("up", "downed", "gigabits", *COUNTERS, *RATES),
            memory=MEMORY, outputs=("grade", "raw", "raw_before"), step=self._step,
        )  # fmt: skip
        changes, after = graded_levels(
            walked.with_columns(pl.col("grade").cast(pl.Int64())), few.select(GRADE_COLUMNS.names()),
            for_seconds=self.for_seconds, clear_seconds=self.clear_seconds,
        )  # fmt: skip
        after = with_rows(known, beside(memory, after).select(self.keeps.names()))
        return Detection(self._findings(changes, known, context), after)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        training, calm = settled(memory, sample, self.settle_seconds)
        raw = np.where(calm, raw_rate(memory, sample, bits_since(sample, self.gigabits)), np.nan)
        trains = training["since_trained_seconds"] == 0
        now, count, before = memory["raw_now"], np.nan_to_num(memory["samples_now"]), memory["raw_before"]
        known = trains & (count >= ENOUGH_SAMPLES) & ~(now >= self.times * before)
        before = np.where(known, now, before)
        now, count = np.where(trains, np.nan, now), np.where(trains, 0.0, count)
        bad = (raw >= self.times * before) & (raw >= self.raw_minimum)
        good = raw < np.fmax(self.ends_times * before, self.raw_minimum)
        seen = ~np.isnan(raw)
        mean = np.where(np.isnan(now), raw, now + (raw - now) / np.minimum(count + 1, REMEMBERED_SAMPLES))
        after = {
            **training, "fec_corrected_total": held(memory["fec_corrected_total"], sample["fec_corrected_total"]),
            "raw_now": np.where(seen, mean, now), "samples_now": count + seen, "raw_before": before,
        }  # fmt: skip
        return after, {"grade": np.where(bad, 1.0, np.where(good, 0.0, np.nan)), "raw": raw, "raw_before": before}

    def _findings(self, changes: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
        if changes.is_empty():
            return NO_FINDINGS
        rows = of_links(changes, before, context.topology).with_columns(
            code=pl.lit("after_retrain"), score=pl.col("raw"), threshold=self.times * pl.col("raw_before"),
            raw_bit_error_rate=pl.col("raw"), raw_bit_error_rate_before=pl.col("raw_before"),
            action=pl.lit("open_ticket"),
        ).with_columns(evidence("part", "raw_bit_error_rate", "raw_bit_error_rate_before"))  # fmt: skip
        return ordered(findings_frame(rows, self.name, "link_degraded", "link"))
