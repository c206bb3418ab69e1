"""Dirt on an end face: light steps down at one receiver while its sender shines as before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.lanes import beside_far_end, beside_peers, of_links, ordered_lanes, with_link
from detectors.stats.adjacent import ends
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, scan
from detectors.stats.sorted_state import beside, in_order, interleaved, rows_of, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import Optic

MEMORY = (
    "receive_normal_dbm", "samples", "before_dbm", "before_that_dbm", "stepped", "transmit_normal_dbm",
    "transmit_fallen_db",
)  # fmt: skip
OUTPUTS = ("stepped", "lost_db", "transmit_fallen_db", "receive_normal_dbm")
PLACE = ("entity", "device", "port", "lane")
LINK = ("whole", "peer", "peer_port")
FAR = ("stepped", "transmit_fallen_db", "transmit_power_dbm")


@dataclass(frozen=True, kw_only=True)
class ContaminatedConnector:
    """Received light steps down on a lane while the far end sends what it always sent, and stays down.

    What fails: dirt or a scratch on a connector's end face, usually after somebody touched it. What it looks like:
    Rx down at once on one lane or one end; Tx at the far end unchanged (an ageing laser moves Tx or bias, and fades);
    the other direction unchanged (a bend or crush takes both).

    Formula, per lane: normal = mean of the last samples_kept samples, held still while stepped. A step is
    (one or two samples ago) - now >= step_db, from a value within steady_db of normal. Bad while normal - now >
    step_db / 2, unless the far end's Tx has fallen by transmit_db or its receiver has stepped too; a silent far end
    contradicts nothing. Two samples in a row must say so. Null light (a dark lane) says nothing.

    step_db 1.0: a mated pair may lose 0.75 dB (TIA-568), so a further 1 dB is none in its limits. steady_db 0.3: ten
    times the noise of a module's reading, and what keeps a fade out, since a mean lags behind it. transmit_db 0.5.
    samples 3 before a step can be told. samples_kept 20.

    Cannot see: dirt that was there from the first sample, that gathers slowly (fabric.optic_power), or that darkens
    the lane wholly.
    """

    step_db: float = 1.0
    steady_db: float = 0.3
    transmit_db: float = 0.5
    samples: float = 3.0
    samples_kept: float = 20.0
    for_seconds: float = 1.0
    clear_seconds: float = 60.0

    name: ClassVar[str] = "fabric.contaminated_connector"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (Optic,)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            "device": pl.String(), "port": pl.Int64(), "lane": pl.Int64(), **GRADE_COLUMNS, "time": UTC_MICROSECONDS,
            "transmit_power_dbm": pl.Float64(), **dict.fromkeys(MEMORY, pl.Float64()),
        }
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on links: connector_contaminated."""
        light = pl.col("receive_power_dbm", "transmit_power_dbm")
        told = context.once(ordered_lanes, tables[Optic]).filter(pl.any_horizontal(light.is_not_null()))
        known = in_order(state)
        few = rows_of(known, told["entity"])
        walked, memory = scan(
            told, few.select("entity", "time", *MEMORY),
            inputs=("receive_power_dbm", "transmit_power_dbm"), memory=MEMORY, outputs=OUTPUTS, step=self._step,
        )  # fmt: skip
        changes, after = graded_levels(
            self._judged(walked, known, context), few.select(GRADE_COLUMNS.names()),
            for_seconds=self.for_seconds, clear_seconds=self.clear_seconds,
        )  # fmt: skip
        findings = NO_FINDINGS
        if not changes.is_empty():
            findings = self._findings(beside_peers(of_links(changes, known, context.topology), walked))
        newest = walked.filter(ends())
        columns = (*PLACE, "transmit_power_dbm")
        kept = beside(beside(with_rows(few.select(columns), newest.select(columns)), memory), after)
        return Detection(findings, with_rows(known, kept.select(self.keeps.names())))

    def _judged(self, walked: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Lit samples with their grade. Only where light has stepped down does the far end have to be asked."""
        lit = walked.filter(pl.col("receive_power_dbm").is_not_null())
        down = with_link(lit.filter(pl.col("stepped") == 1), context.topology)
        asked = beside_far_end(down, before, walked, FAR, 5 * context.intervals_seconds.get("optic", 60.0))
        elsewhere = (pl.col("far_transmit_fallen_db") > self.transmit_db) | (pl.col("far_stepped") == 1)
        grade = (~elsewhere.fill_null(value=False)).cast(pl.Int64())
        up = lit.filter(pl.col("stepped") != 1).with_columns(grade=pl.lit(0, pl.Int64()))
        return interleaved(up, asked.with_columns(grade=grade))

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        light, normal, before = sample["receive_power_dbm"], memory["receive_normal_dbm"], memory["before_dbm"]
        count = np.nan_to_num(memory["samples"])
        lit, was_stepped = ~np.isnan(light), memory["stepped"] == 1
        fell = np.zeros(len(light), dtype=np.bool_)
        for earlier in (before, memory["before_that_dbm"]):
            fell |= (np.abs(normal - earlier) < self.steady_db) & (earlier - light >= self.step_db)
        starts = fell & (count >= self.samples)
        stepped = np.where(lit, starts | (was_stepped & (normal - light > self.step_db / 2)), was_stepped)
        learns = lit & ~stepped
        share = 1 / np.minimum(count + 1, self.samples_kept)
        learned = np.where(np.isnan(normal), light, normal + share * (light - normal))
        sent, sent_normal = sample["transmit_power_dbm"], memory["transmit_normal_dbm"]
        fallen = np.where(np.isnan(sent_normal), 0.0, sent_normal - sent)
        sent_learned = np.where(np.isnan(sent_normal), sent, sent_normal + (sent - sent_normal) / self.samples_kept)
        keep = np.isnan(sent) | (np.abs(fallen) > self.transmit_db)
        after = {
            "receive_normal_dbm": np.where(learns, learned, normal),
            "samples": np.where(learns, count + 1, count),
            "before_dbm": np.where(lit, light, before),
            "before_that_dbm": np.where(lit, before, memory["before_that_dbm"]),
            "stepped": stepped.astype(np.float64),
            "transmit_normal_dbm": np.where(keep, sent_normal, sent_learned),
            "transmit_fallen_db": fallen,
        }
        said = {name: after[name] for name in OUTPUTS if name != "lost_db"}
        return after, {**said, "lost_db": normal - light}

    def _findings(self, changes: pl.DataFrame) -> pl.DataFrame:
        rows = changes.with_columns(
            code=pl.when(pl.col("far_transmit_power_dbm").is_null()).then(pl.lit("step_far_end_unknown")).otherwise(pl.lit("step")),
            score=pl.col("lost_db"),
            threshold=pl.lit(self.step_db),
            action=pl.lit("clean_connector"),
        ).with_columns(
            evidence(
                "part", "receive_power_dbm", "receive_normal_dbm", "lost_db", "peers_receive_power_dbm",
                "far_transmit_power_dbm", "far_transmit_fallen_db",
            )
        )  # fmt: skip
        return ordered(findings_frame(rows, self.name, "connector_contaminated", "link"))
