"""Codewords that error correction could only just repair."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.error_rate import RateTest, onset
from detectors.fabric.lanes import of_links
from detectors.fabric.port_samples import TRAINING, grown, held, ordered_ports, port_samples, settled
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, scan
from detectors.stats.sorted_state import beside, in_order, rows_of, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import FabricPort

COUNTERS = ("codewords", "tail", "deeper")
MEMORY = (*TRAINING, *COUNTERS, "score", "since")
OUTPUTS = ("grade", "score", "since", "codewords_seen", "tail_seen", "deeper_seen")


@dataclass(frozen=True, kw_only=True)
class FecTail:
    """The histogram of repaired symbols grows a tail: errors come in bursts, and the next burst is one too long.

    What fails: an equaliser at its limit, a reflection, crosstalk; noise alone makes no tail. What it looks like: raw
    errors as ever and nothing lost, but codewords with half of the repairable symbols wrong (8 of 15 for KP4), where
    independent errors make none: at a raw rate of 1e-5 a codeword of 5440 bits has 0.054 wrong symbols on average, and
    8 with probability 2e-15.
    Formula: a sequential Poisson test (detectors.fabric.error_rate) of codewords in the upper half of fec_histogram
    over all codewords, sample by sample and end by end.

    tail: faulty 1e-9 a codeword, since with half as many codewords in each next bin, which is what bursts leave, one
    in 2.6e11 has 16 wrong symbols and is lost: 1e-14 symbol errors a bit, UFM's limit (field.md 5). healthy 1e-13: more
    than independent errors give up to a raw rate of 1.6e-5. settle_seconds 300 as in fabric.bit_errors.

    Cannot see: ports that show no histogram; how soon: the ratio of the next bins is in the evidence.
    """

    tail: RateTest = field(default_factory=lambda: RateTest(healthy=1e-13, faulty=1e-9))
    settle_seconds: float = 300.0
    clear_seconds: float = 60.0

    name: ClassVar[str] = "fabric.fec_tail"
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
        shown = context.once(ordered_ports, tables[FabricPort]).filter(pl.col("fec_histogram").list.len() >= 4)
        bins, half = pl.col("fec_histogram"), pl.col("fec_histogram").list.len() // 2
        told = shown.with_columns(
            codewords=bins.list.sum(),
            tail=bins.list.slice(half).list.sum(),
            deeper=bins.list.slice(half + 1).list.sum(),
        )
        known = in_order(state)
        few = rows_of(known, told["entity"])
        walked, memory = scan(
            port_samples(told, COUNTERS).with_columns(at=pl.col("time").dt.epoch("us").cast(pl.Float64())),
            few.select("entity", "time", *MEMORY), inputs=("up", "downed", *COUNTERS, "at"), memory=MEMORY,
            outputs=OUTPUTS, step=self._step,
        )  # fmt: skip
        changes, after = graded_levels(
            walked.with_columns(pl.col("grade").cast(pl.Int64())), few.select(GRADE_COLUMNS.names()),
            clear_seconds=self.clear_seconds,
        )  # fmt: skip
        after = with_rows(known, beside(memory, after).select(self.keeps.names()))
        return Detection(self._findings(changes, known, context), after)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        training, calm = settled(memory, sample, self.settle_seconds)
        seen = {name: np.where(calm, grown(memory[name], sample[name]), np.nan) for name in COUNTERS}
        score = self.tail.after(memory["score"], seen["tail"], seen["codewords"])
        since = onset(memory["since"], memory["score"], score, sample["at"])
        grade = np.where(score >= self.tail.bound, 1.0, np.where(score <= 0, 0.0, np.nan))
        after = {
            **training, **{name: held(memory[name], sample[name]) for name in COUNTERS}, "score": score, "since": since,
        }  # fmt: skip
        return after, {
            "grade": np.where(np.isnan(seen["tail"]), np.nan, grade), "score": score, "since": since,
            **{f"{name}_seen": values for name, values in seen.items()},
        }  # fmt: skip

    def _findings(self, changes: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
        if changes.is_empty():
            return NO_FINDINGS
        since = pl.from_epoch(pl.col("since").cast(pl.Int64()), time_unit="us").dt.replace_time_zone("UTC")
        some = pl.col("tail_seen") > 0
        rows = (
            of_links(changes, before, context.topology)
            .with_columns(
                code=pl.lit("fec_tail"),
                threshold=pl.lit(self.tail.bound),
                first_bad_at=pl.when("active").then(pl.min_horizontal("first_bad_at", since)).otherwise("first_bad_at"),
                tail_codewords=pl.col("tail_seen"),
                tail_share=pl.when(pl.col("codewords_seen") > 0).then(pl.col("tail_seen") / pl.col("codewords_seen")),
                next_bin_ratio=pl.when(some).then(pl.col("deeper_seen") / pl.col("tail_seen")),
                action=pl.lit("open_ticket"),
            )
            .with_columns(evidence("part", "tail_codewords", "tail_share", "next_bin_ratio"))
        )
        return ordered(findings_frame(rows, self.name, "link_degraded", "link"))
