"""Rows of otdr_trace and otdr_event as shots, for the detectors of the stream."""

import polars as pl

from schemas.columns import UTC_MICROSECONDS

FIBER = ("cable", "fiber", "direction", "wavelength_nanometers")
EVENT = pl.Struct(
    {"distance_meters": pl.Float64(), "loss_db": pl.Float64(), "reflectance_db": pl.Float64(), "code": pl.String()}
)
SHOT_COLUMNS = pl.Schema(
    {
        "time": UTC_MICROSECONDS, "pulse_nanoseconds": pl.Float64(), "group_index": pl.Float64(),
        "sample_spacing_meters": pl.Float64(), "total_loss_db": pl.Float64(), "length_meters": pl.Float64(),
        "events": pl.List(EVENT),
    }
)  # fmt: skip


def shots_of(traces: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """One row per shot, its events in order of distance: FIBER, entity (FIBER as one name), baseline, SHOT_COLUMNS.

    A shot may come as a trace, as events, or both.
    """
    key = ["cable", "fiber", "direction", "time"]
    listed = events.filter(pl.col("distance_meters").is_not_null()).sort("distance_meters", "number").group_by(key).agg(
        events=pl.struct("distance_meters", "loss_db", "reflectance_db", "code")
    )  # fmt: skip
    shots = traces.select(*FIBER, "baseline", *(name for name in SHOT_COLUMNS if name != "events")).unique(
        [*FIBER, "time"], keep="first", maintain_order=True
    )
    shots = shots.join(listed, on=key, how="full", nulls_equal=True, coalesce=True)
    named = pl.concat_str(pl.col(FIBER).cast(pl.String()).fill_null(""), separator="\x1f")
    return shots.with_columns(entity=named).sort("entity", "time")
