"""Light lost on every lane, both ways: the cable itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.lanes import ordered_lanes, with_link, words_of
from detectors.fabric.module_normals import CHANGES, MEMORY, READINGS, from_normal, module_samples
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.stats.scan import scan
from detectors.stats.sorted_state import fitted, part, rows_of, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.fabric import Optic

LEVEL = {f"level_{name}": dtype for name, dtype in LEVEL_COLUMNS.items() if name != "entity"}


@dataclass(frozen=True, kw_only=True)
class FiberBend:
    """A cable is bent too tightly, pinched or pulled: all its fibres lose light, in both directions.

    What it looks like: Rx down on every lane at both ends while both senders shine as before. Dirt takes a lane or an
    end, an ageing laser one direction and its own Tx, a hot module neither.
    Formula: an end has lost light when its lanes' mean and their best are bend_db below what they were when first seen
    (detectors.fabric.module_normals). Bad when both ends have, each by its last words within five intervals, and
    neither has changed what it sends by transmit_db; good when an end has lost less than half of bend_db. Both ends
    are two witnesses, so one sample of each is enough.

    bend_db 0.8: a whole mated pair more (0.75 dB, TIA-568), on each of eight or more lanes whose readings repeat to
    some 0.03 dB and swing by 0.1 dB in a day (an assumption). transmit_db 0.5.

    Cannot see: a bend that was there from the first sample, one that darkens a lane wholly, one of a single direction
    (fabric.contaminated_connector says the end), and where it is: that takes an OTDR shot.
    """

    bend_db: float = 0.8
    transmit_db: float = 0.5
    tolerance_intervals: float = 5.0
    clear_seconds: float = 60.0

    name: ClassVar[str] = "fabric.fiber_bend"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (Optic,)
    # row = module (a port's normals and last changes) or level (of a link).
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            "row": pl.String(), "entity": pl.String(), "time": UTC_MICROSECONDS,
            **dict.fromkeys(MEMORY, pl.Float64()), **LEVEL,
        }
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on cables: fiber_loss."""
        known = part(state, "row", "module")
        lanes = context.once(ordered_lanes, tables[Optic])
        samples = context.once(module_samples, lanes)
        walked, memory = scan(
            samples, rows_of(known, samples["entity"]).select("entity", "time", *MEMORY),
            inputs=READINGS, memory=MEMORY, outputs=CHANGES, step=from_normal,
        )  # fmt: skip
        level = part(state, "row", "level").select("entity", *(pl.col(name).alias(name[6:]) for name in LEVEL))
        changes, after = levels(self._judged(walked, known, level, context), level, clear_seconds=self.clear_seconds)
        wholes = after.select("entity", pl.exclude("entity").name.prefix("level_"))
        modules = with_rows(known, self._kept("module", memory))
        return Detection(self._findings(changes), pl.concat([self._kept("level", wholes), modules]))

    def _kept(self, row: str, known: pl.DataFrame) -> pl.DataFrame:
        return fitted(known.with_columns(row=pl.lit(row)), self.keeps)

    def _judged(
        self, walked: pl.DataFrame, before: pl.DataFrame, level: pl.DataFrame, context: Context
    ) -> pl.DataFrame:
        """Samples of links that have lost light, and of those with a level; each beside the far end's last words."""
        lossy = with_link(walked.filter(pl.col("lost_mean_db") >= self.bend_db), context.topology)["whole"]
        watched = pl.concat([lossy, level["entity"]]).unique()
        linked = with_link(walked.clear() if watched.is_empty() else walked, context.topology)
        asked = linked.filter(pl.col("peer").is_not_null() & pl.col("whole").is_in(watched.implode())).sort(
            "time", "device"
        )
        asked = asked.with_columns(far_entity=pl.format("{}:{}", "peer", "peer_port"))
        words = words_of(asked["far_entity"], before, walked, CHANGES)
        far = words.select("time", far_entity="entity", **{f"far_{name}": pl.col(name) for name in CHANGES})
        tolerance = round(self.tolerance_intervals * context.intervals_seconds.get("optic", 60.0) * 1000)
        beside = asked.join_asof(far, on="time", by="far_entity", tolerance=f"{tolerance}ms", check_sortedness=False)
        bad = pl.all_horizontal(
            *(
                pl.col(f"{end}{name}") >= self.bend_db
                for end in ("", "far_")
                for name in ("lost_mean_db", "lost_best_db")
            ),
            *(pl.col(f"{end}transmit_fallen_db").abs().fill_null(0.0) < self.transmit_db for end in ("", "far_")),
        )
        good = pl.any_horizontal(pl.col(f"{end}lost_mean_db") < self.bend_db / 2 for end in ("", "far_"))
        verdict = pl.when(bad).then(pl.lit(True)).when(good).then(pl.lit(False))
        once = pl.col("bad").cum_max().over("entity").fill_null(value=False)
        judged = beside.with_columns(entity="whole", bad=verdict).sort("entity", "time", "device")
        # Two ends that speak at one instant are one sample, told by the end that finds it bad.
        told = pl.exclude("bad").sort_by(pl.col("bad").fill_null(value=False), maintain_order=True).last()
        judged = judged.group_by("entity", "time", maintain_order=True).agg(pl.col("bad").max(), told)
        seen = once | pl.col("entity").is_in(level["entity"].implode())
        return judged.filter(pl.col("bad").is_not_null()).filter(seen)

    def _findings(self, changes: pl.DataFrame) -> pl.DataFrame:
        rows = changes.with_columns(
            code=pl.lit("bend"),
            severity=pl.lit("ticket"),
            score=pl.min_horizontal("lost_mean_db", "far_lost_mean_db"),
            threshold=pl.lit(self.bend_db),
            action=pl.lit("open_ticket"),
            part=pl.format("{}:{}", "device", "port"),
        ).with_columns(
            evidence("part", "lost_mean_db", "far_lost_mean_db", "transmit_fallen_db", "far_transmit_fallen_db")
        )  # fmt: skip
        return ordered(findings_frame(rows, self.name, "fiber_loss", "cable"))
