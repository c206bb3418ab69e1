"""The events of a span against their limits."""

import polars as pl

from detectors.fiber.limits import Limits
from detectors.fiber.reason import Reason
from detectors.fiber.resolution import Resolution
from detectors.fiber.shot import SATURATED
from detectors.fiber.span import Span

OPEN = ("FAIL", "UNRESOLVABLE")


def judged_events(span: Span, limits: Limits, resolution: Resolution, *, gainer_db: float) -> pl.DataFrame:
    """The span's events with limit_db, verdict (- where not judged), reason, and for loss and reflectance each their
    own verdict, name and text. The rules are those of detectors.fiber.acceptance.
    """
    loss, reflectance, measured = pl.col("loss_db"), pl.col("reflectance_db"), pl.col("measured")
    limit = pl.when("reflective").then(limits.connector_loss_db).otherwise(limits.splice_loss_db)
    brightest = limits.reflectance_at(span.shot.wavelength_nanometers)
    merged = {
        "merged": pl.len(), "merged_db": loss.sum(), "unread": loss.is_null().any(),
        "hidden": pl.col("blocked").any() | loss.is_null().any(), "connector": pl.col("reflective").any(),
        "least_db": pl.col("limit_db").min(), "most_db": pl.col("limit_db").sum(),
    }  # fmt: skip
    events = _chained(span, resolution).with_columns(limit_db=pl.when(measured).then(limit))
    events = events.with_columns(**{name: value.over("chain") for name, value in merged.items()})
    gains, bright = pl.col("merged_db") < -gainer_db, reflectance > brightest
    fails = ~pl.col("hidden") & (pl.col("merged_db") > pl.col("most_db"))
    unsure = pl.col("hidden") | gains | (pl.col("merged_db") > pl.col("least_db"))
    events = events.with_columns(
        loss_verdict=_verdict(fails, unsure),
        reflectance_verdict=_verdict(bright, pl.col("code").str.starts_with(SATURATED)),
    )
    limit_of = pl.when("connector").then(pl.lit("connector_loss")).otherwise(pl.lit("splice_loss"))
    events = events.with_columns(
        loss_name=pl.when(pl.col("loss_verdict") == "FAIL").then(limit_of)
        .when(gains & ~pl.col("hidden")).then(pl.lit("gainer")).otherwise(pl.lit("dead_zone")),
        reflectance_name=pl.when(pl.col("reflectance_verdict") == "FAIL").then(pl.lit("reflectance"))
        .otherwise(pl.lit("saturated")),
        loss_text=_loss_text(gains),
        reflectance_text=pl.when(bright).then(pl.format("reflects {} dB, limit {}", reflectance.round(3), brightest))
        .otherwise(pl.format("saturated: reflects {} dB or more", reflectance.round(3))),
    )  # fmt: skip
    verdicts = pl.concat_list("loss_verdict", "reflectance_verdict")
    texts = [pl.when(pl.col(f"{what}_verdict").is_in(OPEN)).then(f"{what}_text") for what in ("loss", "reflectance")]
    return events.with_columns(
        verdict=pl.when(~measured).then(pl.lit("-")).when(verdicts.list.contains("FAIL")).then(pl.lit("FAIL"))
        .when(verdicts.list.contains("UNRESOLVABLE")).then(pl.lit("UNRESOLVABLE")).otherwise(pl.lit("PASS")),
        reason=pl.when(measured).then(pl.concat_str(texts, separator="; ", ignore_nulls=True))
        .otherwise(pl.format("{}, not judged", "role")),
    )  # fmt: skip


def event_reasons(events: pl.DataFrame) -> list[Reason]:
    """What judged_events found, in order of distance. A chain of merged events speaks once."""
    reasons = [
        Reason(row[f"{what}_name"], row[f"{what}_verdict"], f"{row['position_meters']:.1f} m: {row[f'{what}_text']}")
        for what, rows in (("loss", events.unique("chain", keep="first", maintain_order=True)), ("reflectance", events))
        for row in rows.iter_rows(named=True)
        if row[f"{what}_verdict"] in OPEN
    ]
    return sorted(reasons, key=lambda reason: float(reason.text.partition(" ")[0]))


def _loss_text(gains: pl.Expr) -> pl.Expr:
    loss, merged = pl.col("loss_db").round(3), pl.col("merged_db").round(3)
    return (
        pl.when("unread").then(pl.lit("its loss was not measured"))
        .when("hidden").then(pl.lit("in the dead zone of the front panel or of the end: no loss can be measured"))
        .when(gains & (pl.col("directions") > 1))
        .then(pl.format("{} dB in the mean of both directions: not two shots of one fibre", loss))
        .when(gains).then(pl.format("gains {} dB: unlike fibres; average both directions", -loss))
        .when(pl.col("merged") > 1).then(pl.format("{} events in one dead zone lose {} dB together", "merged", merged))
        .otherwise(pl.format("loses {} dB, limit {}", loss, "limit_db"))
    )  # fmt: skip


def _chained(span: Span, resolution: Resolution) -> pl.DataFrame:
    """Events with chain: measured events closer than the dead zone of the one before are of one chain."""
    bright, dark = (resolution.dead_zone_meters(span.shot, reflective=reflective) for reflective in (True, False))
    events = span.events.sort("position_meters", "number").with_row_index("place")
    zone = pl.when("reflective").then(bright).otherwise(dark)
    measured = events.filter("measured").with_columns(
        apart=(pl.col("position_meters").diff() >= zone.shift(1)).fill_null(value=True)
    )
    chains = measured.select("place", chain=pl.col("apart").cum_sum().cast(pl.Int64))
    # What is not measured is a chain of its own and speaks for nothing else.
    return events.join(chains, on="place", how="left", maintain_order="left").with_columns(
        chain=pl.coalesce("chain", -1 - pl.col("place").cast(pl.Int64))
    ).drop("place")  # fmt: skip


def _verdict(fails: pl.Expr, unsure: pl.Expr) -> pl.Expr:
    return (
        pl.when(~pl.col("measured")).then(pl.lit("-"))
        .when(fails.fill_null(value=False)).then(pl.lit("FAIL"))
        .when(unsure.fill_null(value=False)).then(pl.lit("UNRESOLVABLE"))
        .otherwise(pl.lit("PASS"))
    )  # fmt: skip
