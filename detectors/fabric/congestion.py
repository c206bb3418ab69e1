"""Traffic that waits, on a link that is well."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.lanes import of_links, with_link, words_of
from detectors.fabric.port_samples import TRAINING, grown, held, ordered_ports, port_samples, settled
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, scan, weight_of
from detectors.stats.sorted_state import beside, in_order, interleaved, rows_of, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import FabricPort

WAITING = ("transmit_wait_total", "transmit_discard_total", "pause_received_total")
DAMAGE = ("symbol_error_total", "receive_error_total", "fec_uncorrected_total")
COUNTERS = (*WAITING, *DAMAGE)
MEMORY = (*TRAINING, *COUNTERS, "normal_wait", "samples", "damaged")
RATES = ("wait_ticks_per_second", "discards_per_second", "pauses_per_second")
OUTPUTS = (*RATES, "normal_wait", "jammed", "clear", "damaged")


@dataclass(frozen=True, kw_only=True)
class Congestion:
    """A port has data to send and may not: the path behind it is full, and no part is broken.

    What happens: several senders share a hop (incast, a hash that puts flows on one link), or a receiver is slow to
    take what comes. What it looks like: transmit_wait_total (InfiniBand) or received pause frames (Ethernet's priority
    flow control) race, in the end packets are discarded; errors stay as they were.
    Formula, per port and sample: jammed when ticks of waiting a second are times the port's own normal (mean over
    memory_seconds, held still while jammed) and at least wait_ticks, or discards a second reach discards, or pauses a
    second reach pauses. Bad when jammed and neither this end nor the far one is damaged: no new symbol or receive
    errors, no lost codewords, a raw rate below raw_limit, not just retrained. On a damaged link waiting is a symptom,
    and fabric.bit_errors speaks. It must last for_seconds, and is a suspicion (info) and no incident: nothing is
    broken, and nobody has to do anything to the link.

    times 30 and wait_ticks 1e6: the length of a tick differs by device, so that only the change can be judged
    (assumptions). discards 100 a second: NVSentinel's limit of xmit_discards (field.md 5). pauses 1000 a second (an
    assumption). raw_limit 5e-6: fabric.bit_errors. for_seconds 60: a checkpoint's burst is shorter.

    Cannot see: a port that was jammed from its first sample on by waiting alone; whose traffic it is.
    """

    times: float = 30.0
    wait_ticks: float = 1e6
    discards: float = 100.0
    pauses: float = 1000.0
    raw_limit: float = 5e-6
    memory_seconds: float = 3600.0
    samples: float = 3.0
    settle_seconds: float = 60.0
    tolerance_intervals: float = 5.0
    for_seconds: float = 60.0
    clear_seconds: float = 60.0

    name: ClassVar[str] = "fabric.congestion"
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
        """Findings on links: link_congested."""
        ports, known = context.once(ordered_ports, tables[FabricPort]), in_order(state)
        few = rows_of(known, ports["entity"])
        walked, memory = scan(
            port_samples(ports, COUNTERS, ("raw_bit_error_rate",)),
            few.select("entity", "time", *MEMORY), inputs=("up", "downed", *COUNTERS, "raw_bit_error_rate"),
            memory=MEMORY, outputs=OUTPUTS, step=self._step,
        )  # fmt: skip
        changes, after = graded_levels(
            self._judged(walked, known, context), few.select(GRADE_COLUMNS.names()),
            for_seconds=self.for_seconds, clear_seconds=self.clear_seconds,
        )  # fmt: skip
        after = with_rows(known, beside(memory, after).select(self.keeps.names()))
        return Detection(self._findings(changes, known, context), after)

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        training, calm = settled(memory, sample, self.settle_seconds)
        seconds = np.where(sample["elapsed_seconds"] > 0, sample["elapsed_seconds"], np.nan)
        more = {name: grown(memory[name], sample[name]) for name in COUNTERS}
        wait, discards, pauses = (more[name] / seconds for name in WAITING)
        normal, count = memory["normal_wait"], np.nan_to_num(memory["samples"])
        waits = (count >= self.samples) & (wait >= self.times * normal) & (wait >= self.wait_ticks)
        jammed = waits | (discards >= self.discards) | (pauses >= self.pauses)
        known = ~np.isnan(wait) | ~np.isnan(discards) | ~np.isnan(pauses)
        learns = ~np.isnan(wait) & ~jammed
        weight = np.fmax(1 / (count + 1), weight_of(sample["elapsed_seconds"], self.memory_seconds))
        learned = np.where(np.isnan(normal), wait, normal + weight * (wait - normal))
        errors = np.zeros(len(wait), dtype=np.bool_)
        for name in DAMAGE:
            errors |= more[name] > 0
        damaged = errors | (sample["raw_bit_error_rate"] >= self.raw_limit) | ~calm
        after = {
            **training, **{name: held(memory[name], sample[name]) for name in COUNTERS},
            "damaged": damaged.astype(np.float64), "normal_wait": np.where(learns, learned, normal),
            "samples": np.where(learns, count + 1, count),
        }  # fmt: skip
        return after, {
            "wait_ticks_per_second": wait, "discards_per_second": discards, "pauses_per_second": pauses,
            "normal_wait": normal, "jammed": jammed.astype(np.float64), "damaged": damaged.astype(np.float64),
            "clear": (known & ~jammed).astype(np.float64),
        }  # fmt: skip

    def _judged(self, walked: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Samples of ports with their grade; the far end is asked only of a port that is jammed."""
        free = walked.filter(pl.col("clear") == 1).with_columns(grade=pl.lit(0, pl.Int64()))
        jammed = with_link(walked.filter(pl.col("jammed") == 1), context.topology).sort("time")
        jammed = jammed.with_columns(far_entity=pl.format("{}:{}", "peer", "peer_port"))
        words = words_of(jammed["far_entity"], before, walked, ("damaged",))
        far = words.select("time", far_entity="entity", far_damaged="damaged")
        tolerance = round(self.tolerance_intervals * context.intervals_seconds.get("fabric_port", 30.0) * 1000)
        told = jammed.join_asof(far, on="time", by="far_entity", tolerance=f"{tolerance}ms", check_sortedness=False)
        well = (pl.col("damaged") == 0) & (pl.col("far_damaged").fill_null(0.0) == 0)
        return interleaved(free, told.with_columns(grade=well.cast(pl.Int64())))

    def _findings(self, changes: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
        if changes.is_empty():
            return NO_FINDINGS
        drops = (pl.col("discards_per_second") >= self.discards).fill_null(value=False)
        paused = (pl.col("pauses_per_second") >= self.pauses).fill_null(value=False)
        rows = of_links(changes, before, context.topology).with_columns(
            code=pl.when(drops).then(pl.lit("discards")).when(paused).then(pl.lit("pause")).otherwise(pl.lit("credit")),
            severity=pl.lit("info"),
            score=pl.when(drops).then("discards_per_second").when(paused).then("pauses_per_second")
            .otherwise("wait_ticks_per_second"),
            threshold=pl.when(drops).then(self.discards).when(paused).then(self.pauses)
            .otherwise(pl.max_horizontal(self.times * pl.col("normal_wait"), pl.lit(self.wait_ticks))),
            normal_wait_ticks_per_second="normal_wait",
        ).with_columns(evidence("part", *RATES, "normal_wait_ticks_per_second"))  # fmt: skip
        return ordered(findings_frame(rows, self.name, "link_congested", "link"))
