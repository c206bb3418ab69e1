"""The events of shots beside those of their baselines: what is the same place, and what has grown there."""

import polars as pl

from detectors.fiber.advice import signature
from detectors.fiber.shot import is_end, reflects

DISTANCE_ACCURACY = 1e-4  # of the distance (E6000C data sheet, domain.md 4.5)


def exploded(shots: pl.DataFrame, events: pl.Expr) -> pl.DataFrame:
    """Events of the shots, one row each: shot, the event's fields, end (of the fibre) and reflective.

    What lies behind the end of the fibre is left out: light that goes to and fro, and no event of the fibre.
    """
    rows = (
        shots.select("shot", event=events)
        .explode("event", empty_as_null=False)
        .filter(pl.col("event").is_not_null())
        .unnest("event")
        .with_columns(end=is_end(), reflective=reflects())
    )
    first_end = pl.col("distance_meters").filter(pl.col("end")).min().over("shot")
    return rows.filter(first_end.is_null() | (pl.col("distance_meters") <= first_end))


def compared(
    now: pl.DataFrame,
    base: pl.DataFrame,
    near: pl.DataFrame,
    *,
    reflectance_growth_db: float,
    reflectance_limit_db: float,
) -> pl.DataFrame:
    """Events of now (without ends) with what the same place was in base.

    now, base: of `exploded`. near: shot, near (metres within which two events are the same place). Adds known (null
    where the event is new), loss_db_base, reflectance_db_base, loss_grown_db (a new event: its loss),
    reflectance_grown_db (null when new), reflects (its reflection is bad) and signature.
    """
    known = (
        now.join(base.filter(~pl.col("end")), on="shot", suffix="_base")
        .join(near, on="shot")
        .with_columns(apart=(pl.col("distance_meters") - pl.col("distance_meters_base")).abs())
        .filter(pl.col("apart") <= pl.col("near") + DISTANCE_ACCURACY * pl.col("distance_meters").abs())
        .sort("shot", "distance_meters", "apart")
        .unique(["shot", "distance_meters"], keep="first", maintain_order=True)
        .select(
            "shot", "distance_meters", "loss_db_base", "reflectance_db_base", was_reflective="reflective_base",
            known=pl.lit(value=True),
        )
    )  # fmt: skip
    events = now.filter(~pl.col("end")).join(known, on=["shot", "distance_meters"], how="left", maintain_order="left")
    events = events.join(base.select("shot").unique(), on="shot", how="semi", maintain_order="left").with_columns(
        loss_grown_db=pl.when("known").then(pl.col("loss_db") - pl.col("loss_db_base")).otherwise("loss_db"),
        reflectance_grown_db=pl.when("known").then(pl.col("reflectance_db") - pl.col("reflectance_db_base")),
    )
    # What did not reflect and now does has grown from nothing that can be measured: it is judged like a new one.
    grown, lit_up = pl.col("reflectance_grown_db"), pl.col("reflectance_db") > reflectance_limit_db
    bad = pl.when(grown.is_not_null()).then(grown >= reflectance_growth_db).otherwise(lit_up)
    return events.with_columns(reflects=bad.fill_null(value=False)).with_columns(signature=signature())
