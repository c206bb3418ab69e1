"""A fibre that loses more light at one place than it did when it was accepted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.fiber.advice import ACTION, advised
from detectors.fiber.comparison import DISTANCE_ACCURACY, compared, exploded
from detectors.fiber.resolution import SPEED_OF_LIGHT_METERS_PER_NANOSECOND
from detectors.fiber.shot_rows import FIBER, SHOT_COLUMNS, shots_of
from detectors.stats.grades import GRADE_COLUMNS, fold, graded_levels
from schemas.fiber import OtdrEvent, OtdrTrace

CAUSES = ("fiber_loss", "fiber_reflectance", "fiber_length")


@dataclass(frozen=True, kw_only=True)
class EventLoss:
    """An event's loss or reflectance has grown since the fibre's baseline, an event is new, or the fibre ends early.

    What fails: a connector or splice opens, a fibre is bent or crushed (loss), an end face gets dirty or an air gap
    opens (reflectance). Like is compared with like: fibre, direction and wavelength are one key, and only growth
    counts, so that a gainer (negative loss where fibres of unlike mode field meet; it shows in one direction only)
    is as good a baseline as any. The baseline is the latest shot marked as one, else the first shot seen.

    Formula: events are the same place when their distances differ by at most
    max(pulse * c / 2n, 2 * sample spacing, distance_meters_minimum). The loss is bad when it grew by loss_growth_db
    (or the whole span's by that plus what its events explain: code total_loss), or a new event loses more than
    loss_growth_db, or the end of fibre is nearer than that distance (code break, a page). Reflectance is bad when it
    grew by reflectance_growth_db, or a new event reflects above reflectance_limit_db. One shot decides: the onset
    is the shot that shows it, and a shot without it ends it. Fibres fold into their cable. What lies behind the end of
    fibre is never judged. A fibre that ends farther away than in its baseline is another fibre (fiber_length): its
    losses are not compared.

    The evidence names the signature, the action follows from it (detectors.fiber.advice): dirty_connector (clean),
    open_connector and misaligned_connector (reseat), bend, crack, break and attenuation (replace).

    loss_growth_db 0.3: the limit of a whole splice (TIA-568), several times the repeatability of a reading.
    reflectance_growth_db 6: three times the repeatability of a reading (2 dB, an assumption). reflectance_limit_db
    -45: single mode, TIA-568. distance_meters_minimum 1: the accuracy data sheets give at zero range (domain.md 4.5).

    Cannot see: whether a loss without reflection is a bend, a crush or a splice, which takes a second wavelength
    (detectors.fiber.bend); what lies inside a dead zone without launch and tail cords; a fault older than the
    baseline; the loss of the end of fibre itself, which is no loss of the link.
    """

    loss_growth_db: float = 0.3
    reflectance_growth_db: float = 6.0
    reflectance_limit_db: float = -45.0
    distance_meters_minimum: float = 1.0
    group_index: float = 1.468

    name: ClassVar[str] = "fiber.event_loss"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (OtdrTrace, OtdrEvent)
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            **{name: pl.Float64() if name == "wavelength_nanometers" else pl.String() for name in FIBER},
            "cause": pl.String(), **GRADE_COLUMNS, **SHOT_COLUMNS,
        }
    )  # fmt: skip

    def detect(
        self,
        tables: Mapping[type[dy.Schema], pl.DataFrame],
        state: pl.DataFrame,
        context: Context,  # noqa: ARG002  # the protocol's
    ) -> Detection:
        """Findings on cables: fiber_loss, fiber_reflectance, fiber_length."""
        shots = shots_of(tables[OtdrTrace], tables[OtdrEvent])
        before = state.filter(cause="fiber_loss").select("entity", *FIBER, *SHOT_COLUMNS, baseline=True, carried=True)
        rows = pl.concat([before, shots.with_columns(carried=False)], how="diagonal").sort(
            "entity", "carried", "time", descending=[False, True, False]
        )
        picked = pl.int_range(pl.len()).over("entity")
        marked = (
            pl.when(pl.col("baseline").fill_null(value=False)).then(picked).forward_fill().over("entity").fill_null(0)
        )
        rows = rows.with_columns(place=picked, base_place=marked)
        bases_at = rows.select("entity", base_place="place", base=pl.struct(*SHOT_COLUMNS))
        rows = rows.join(bases_at, on=["entity", "base_place"], how="left", maintain_order="left")
        judged = self._judge(rows.filter(~pl.col("carried")))
        kept, findings = [], []
        bases = rows.group_by("entity").agg(pl.col(FIBER).last(), pl.col("base").last()).unnest("base")
        for cause in CAUSES:
            mine = state.filter(cause=cause)
            samples = judged.rename({f"{cause}_grade": "grade"})
            changes, level = graded_levels(samples, mine.select(GRADE_COLUMNS.names()))
            wholes = fold(changes.with_columns(whole="cable"), mine.with_columns(whole="cable"))
            findings.append(self._findings(wholes, cause))
            kept.append(bases.join(level, on="entity", how="left").with_columns(cause=pl.lit(cause)))
        after = pl.concat(kept).select(self.keeps.names()).sort("entity", "cause")
        return Detection(ordered(*findings), after)

    def _judge(self, shots: pl.DataFrame) -> pl.DataFrame:
        """Shots with fiber_loss_grade, fiber_reflectance_grade and the event that is worst for each."""
        shots = shots.with_row_index("shot")
        length = SPEED_OF_LIGHT_METERS_PER_NANOSECOND / 2
        pulse = pl.col("pulse_nanoseconds") * length / pl.col("group_index").fill_null(self.group_index)
        near = pl.max_horizontal(pulse, 2 * pl.col("sample_spacing_meters"), pl.lit(self.distance_meters_minimum))
        now, base = (exploded(shots, events) for events in (pl.col("events"), pl.col("base").struct.field("events")))
        comparable = compared(
            now, base, shots.select("shot", near=near), reflectance_growth_db=self.reflectance_growth_db,
            reflectance_limit_db=self.reflectance_limit_db,
        )  # fmt: skip
        brightest = pl.col("reflects"), pl.col("reflectance_db").fill_null(float("-inf"))
        worst = comparable.group_by("shot").agg(
            pl.col("loss_grown_db").max(),
            explained_db=pl.col("loss_grown_db").clip(lower_bound=0.0).sum(),
            loss_meters=pl.col("distance_meters").sort_by("loss_grown_db", nulls_last=False).last(),
            loss_known=pl.col("known").sort_by("loss_grown_db", nulls_last=False).last(),
            loss_signature=pl.col("signature").sort_by("loss_grown_db", nulls_last=False).last(),
            reflects=pl.col("reflects").any(),
            reflectance_grown_db=pl.col("reflectance_grown_db").max(),
            reflectance_db=pl.col("reflectance_db").filter(pl.col("reflects")).max(),
            reflectance_meters=pl.col("distance_meters").sort_by(*brightest).last(),
            reflectance_signature=pl.col("signature").sort_by(*brightest).last(),
        )  # fmt: skip
        ends = [each.filter("end").group_by("shot").agg(pl.col("distance_meters").min()) for each in (now, base)]
        judged = (
            shots.with_columns(near=near)
            .join(worst, on="shot", how="left")
            .join(ends[0].rename({"distance_meters": "end_event_meters"}), on="shot", how="left")
            .join(ends[1].rename({"distance_meters": "base_end_event_meters"}), on="shot", how="left")
        )
        return self._graded(judged).sort("entity", "time")

    def _graded(self, judged: pl.DataFrame) -> pl.DataFrame:
        base = pl.col("base").struct
        judged = judged.with_columns(
            end_meters=pl.coalesce("end_event_meters", "length_meters"),
            base_end_meters=pl.coalesce("base_end_event_meters", base.field("length_meters")),
            total_grown_db=pl.col("total_loss_db") - base.field("total_loss_db"),
            baseline_at=base.field("time").dt.to_string("iso:strict"),
        )
        slack = pl.col("near") + DISTANCE_ACCURACY * pl.col("base_end_meters")
        broken = pl.col("base_end_meters") - pl.col("end_meters") > slack
        longer = pl.col("end_meters") - pl.col("base_end_meters") > slack
        event = pl.col("loss_grown_db") >= self.loss_growth_db
        span = pl.col("total_grown_db") - pl.col("explained_db").fill_null(0.0) >= self.loss_growth_db
        broken, longer, event, span = (verdict.fill_null(value=False) for verdict in (broken, longer, event, span))
        both_ends = pl.all_horizontal(pl.col("base_end_meters", "end_meters").is_not_null())
        comparable = both_ends | pl.any_horizontal(pl.col("loss_grown_db", "total_grown_db").is_not_null())
        return judged.with_columns(
            fiber_length_grade=pl.when(both_ends).then(longer.cast(pl.Int64())),
            fiber_loss_grade=pl.when(longer).then(None)
            .when(broken).then(2).when(event | span).then(1).when(comparable).then(0),
            fiber_reflectance_grade=pl.when(~longer).then(pl.col("reflects").cast(pl.Int64())),
            loss_code=pl.when(broken).then(pl.lit("break"))
            .when(event & pl.col("loss_known").is_null()).then(pl.lit("new_event"))
            .when(event).then(pl.lit("event"))
            .when(span).then(pl.lit("total_loss")),
            loss_signature=pl.when(broken).then(pl.lit("break")).when(event).then("loss_signature")
            .when(span).then(pl.lit("attenuation")),
        )  # fmt: skip

    def _findings(self, changes: pl.DataFrame, cause: str) -> pl.DataFrame:
        about = ["fiber", "direction", "wavelength_nanometers", "baseline_at"]
        match cause:
            case "fiber_loss":
                broken = (pl.col("loss_code") == "break").fill_null(value=False)
                about += ["loss_grown_db", "loss_meters", "total_grown_db", "end_meters", "base_end_meters"]
                rows = changes.with_columns(
                    code=pl.col("loss_code"), signature="loss_signature",
                    score=pl.when(broken).then(pl.col("base_end_meters") - pl.col("end_meters"))
                    .otherwise(pl.max_horizontal("loss_grown_db", "total_grown_db")),
                    threshold=pl.when(broken).then("near").otherwise(self.loss_growth_db),
                )  # fmt: skip
            case "fiber_reflectance":
                about += ["reflectance_grown_db", "reflectance_db", "reflectance_meters"]
                rows = changes.with_columns(
                    code=pl.lit("reflectance"), score=pl.col("reflectance_grown_db"),
                    threshold=pl.lit(self.reflectance_growth_db), signature="reflectance_signature",
                )  # fmt: skip
            case _:
                about += ["end_meters", "base_end_meters"]
                return findings_frame(
                    changes.with_columns(
                        code=pl.lit("longer"), score=pl.col("end_meters") - pl.col("base_end_meters"), threshold="near",
                        action=pl.lit("open_ticket"),
                    ).with_columns(evidence(*about)),
                    self.name, cause, "cable",
                )  # fmt: skip
        action = advised(pl.col("signature")).replace_strict(ACTION, default=None, return_dtype=pl.String)
        return findings_frame(
            rows.with_columns(action=action).with_columns(evidence(*about, "signature")), self.name, cause, "cable"
        )
