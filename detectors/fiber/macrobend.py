"""A fibre that is bent: it loses more at a longer wavelength."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.fiber.bend import DELTA_DB
from detectors.fiber.comparison import DISTANCE_ACCURACY, exploded
from detectors.fiber.limits import MULTIMODE_BELOW_NANOMETERS, MULTIMODE_NANOMETERS
from detectors.fiber.resolution import SPEED_OF_LIGHT_METERS_PER_NANOSECOND
from detectors.fiber.shot_rows import FIBER, SHOT_COLUMNS, shots_of
from detectors.stats.grades import GRADE_COLUMNS, fold, graded_levels
from schemas.fiber import OtdrEvent, OtdrTrace

WAY = ("cable", "fiber", "direction")
KEPT = ("wavelength_nanometers", *SHOT_COLUMNS)


@dataclass(frozen=True, kw_only=True)
class Macrobend:
    """A place in a single-mode fibre loses clearly more at a longer wavelength than at the shortest one measured.

    What fails: a cable is pulled over an edge or coiled too tightly; the longer the wavelength, the less of the light
    the bent core guides, while connectors and splices lose about the same at 1310, 1550 and 1625 nm. It needs no
    baseline, so it also finds the bend that was there from the first day.

    Formula: of the latest shots of one fibre and direction, one per wavelength and none older than together_seconds,
    loss at a longer wavelength minus loss at the shortest, at the same place (distances within the pulse * c / 2n, two
    samples or 1 m, plus 1e-4 of the distance), is at least delta_db. A place that the shortest does not list loses
    0 dB there. What lies behind the end of fibre is not an event. Multimode shots (below 1000 nm, and 1300 nm) say
    nothing. Fibres and directions fold into their cable.

    delta_db 0.5: the default of EXFO's macrobend search (FTB-7000 manual). together_seconds 3600: an assumption, one
    visit of a technician.

    Cannot see: a bend inside a dead zone; one so sharp that it loses as much at every wavelength (then the fibre is all
    but broken, which fiber.event_loss says); anything where only one wavelength is measured.
    """

    delta_db: float = DELTA_DB
    together_seconds: float = 3600.0
    distance_meters_minimum: float = 1.0
    group_index: float = 1.468

    name: ClassVar[str] = "fiber.macrobend"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (OtdrTrace, OtdrEvent)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            **{name: pl.Float64() if name == "wavelength_nanometers" else pl.String() for name in FIBER},
            **GRADE_COLUMNS, **SHOT_COLUMNS,
        }
    )  # fmt: skip

    def detect(
        self,
        tables: Mapping[type[dy.Schema], pl.DataFrame],
        state: pl.DataFrame,
        context: Context,  # noqa: ARG002  # the protocol's
    ) -> Detection:
        """Findings on cables: fiber_loss."""
        named = pl.concat_str(pl.col(WAY).fill_null(""), separator="\x1f")
        nanometers = pl.col("wavelength_nanometers")
        single_mode = (nanometers >= MULTIMODE_BELOW_NANOMETERS) & ~nanometers.is_in(MULTIMODE_NANOMETERS)
        told = shots_of(tables[OtdrTrace], tables[OtdrEvent]).filter(single_mode).with_columns(entity=named)
        before = state.select("entity", *WAY, *KEPT)
        rows = pl.concat(
            [before.with_columns(carried=True), told.select(before.columns).with_columns(carried=False)]
        ).sort("entity", "time", "wavelength_nanometers")
        samples = self._judged(rows)
        grades = state.select(GRADE_COLUMNS.names()).unique("entity", keep="first", maintain_order=True)
        changes, level = graded_levels(samples, grades)
        wholes = state.unique("entity", keep="first", maintain_order=True).with_columns(whole="cable")
        changed = fold(changes.with_columns(whole="cable"), wholes)
        latest = rows.group_by("entity", "wavelength_nanometers", maintain_order=True).last()
        after = latest.join(level, on="entity", how="left").select(self.keeps.names())
        return Detection(
            ordered(self._findings(changed)), after.sort("entity", "wavelength_nanometers", maintain_order=True)
        )

    def _judged(self, rows: pl.DataFrame) -> pl.DataFrame:
        """One row per entity and time of a new shot: grade (null: nothing to compare with) and the worst place."""
        asked = rows.filter(~pl.col("carried")).select("entity", *WAY, "time").unique(maintain_order=True)
        asked = asked.sort("time").with_row_index("asked")
        shots = pl.concat(
            [
                asked.select("asked", "entity", "time").join_asof(
                    each.sort("time").select("entity", *KEPT).with_columns(shot_at="time"),
                    on="time", by="entity", tolerance=timedelta(seconds=self.together_seconds), check_sortedness=False,
                )
                for _, each in rows.group_by("wavelength_nanometers", maintain_order=True)
            ]
            or [pl.DataFrame(schema={"asked": pl.UInt32, **{name: self.keeps[name] for name in KEPT}})]
        ).filter(pl.col("wavelength_nanometers").is_not_null())  # fmt: skip
        shots = shots.sort("asked", "wavelength_nanometers").with_row_index("shot")
        length = pl.col("pulse_nanoseconds") * SPEED_OF_LIGHT_METERS_PER_NANOSECOND / 2
        near = pl.max_horizontal(
            length / pl.col("group_index").fill_null(self.group_index), 2 * pl.col("sample_spacing_meters"),
            self.distance_meters_minimum,
        ).max().over("asked")  # fmt: skip
        first = pl.col("shot").min().over("asked")
        shots = shots.with_columns(near=near, base=first)
        events = exploded(shots, pl.col("events")).filter(~pl.col("end")).join(
            shots.select("shot", "asked", "base", "near", "wavelength_nanometers"), on="shot", maintain_order="left"
        )  # fmt: skip
        longer = events.filter(pl.col("shot") != pl.col("base"))
        shortest = events.filter(pl.col("shot") == pl.col("base")).select(
            "base", shortest_meters="distance_meters", shortest_loss_db="loss_db",
            shortest_nanometers="wavelength_nanometers",
        )  # fmt: skip
        place = ["shot", "distance_meters"]
        paired = (
            longer.join(shortest, on="base")
            .with_columns(apart=(pl.col("distance_meters") - pl.col("shortest_meters")).abs())
            .filter(pl.col("apart") <= pl.col("near") + DISTANCE_ACCURACY * pl.col("distance_meters").abs())
            .sort(*place, "apart", "shortest_meters")
            .unique(place, keep="first", maintain_order=True)
            .select(*place, "shortest_loss_db")
        )
        differs = pl.col("loss_db") - pl.col("shortest_loss_db").fill_null(0.0)
        worst = (
            longer.join(paired, on=place, how="left", maintain_order="left")
            .with_columns(delta_db=differs)
            .filter(pl.col("delta_db").is_not_null())
            .sort("asked", "delta_db", "distance_meters", "wavelength_nanometers")
            .group_by("asked", maintain_order=True)
            .last()
            .select("asked", "delta_db", "distance_meters", "loss_db", "shortest_loss_db", "wavelength_nanometers")
        )
        compared = shots.filter(pl.col("shot") != pl.col("base")).select("asked").unique().with_columns(compared=True)
        judged = asked.join(worst, on="asked", how="left").join(compared, on="asked", how="left")
        bad = (pl.col("delta_db") >= self.delta_db).fill_null(value=False)
        return judged.with_columns(grade=pl.when("compared").then(bad.cast(pl.Int64()))).sort("entity", "time")

    def _findings(self, changes: pl.DataFrame) -> pl.DataFrame:
        rows = changes.with_columns(
            code=pl.lit("macrobend"), score="delta_db", threshold=pl.lit(self.delta_db),
            action=pl.lit("open_ticket"), signature=pl.lit("bend"),
        ).with_columns(
            evidence(
                "fiber", "direction", "wavelength_nanometers", "distance_meters", "loss_db", "shortest_loss_db",
                "delta_db", "signature",
            )
        )  # fmt: skip
        return findings_frame(rows, self.name, "fiber_loss", "cable")
