"""One OTDR shot as the acceptance sees it, and the level of its backscatter."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

EVENT_COLUMNS = pl.Schema(
    {
        "number": pl.Int64(), "distance_meters": pl.Float64(), "loss_db": pl.Float64(),
        "reflectance_db": pl.Float64(), "code": pl.String(),
    }
)  # fmt: skip
# SR-4731, second character of an event's code: E end of fibre, D end moved by the user, O out of range.
END_CODES, OUT_OF_RANGE = ("E", "D"), "O"
REFLECTIVE_CODES, SATURATED = ("1", "2"), "2"
FIT_POINTS_MINIMUM = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Shot:
    """Trace and events (EVENT_COLUMNS, in order of distance). Distances from the user's offset; None where untold."""

    cable: str
    fiber: str
    direction: str | None = None
    time: datetime | None = None
    wavelength_nanometers: float | None = None
    pulse_nanoseconds: float | None = None
    group_index: float | None = None
    total_loss_db: float | None = None
    return_loss_db: float | None = None
    first_sample_meters: float | None = None
    sample_spacing_meters: float | None = None
    samples_db: pl.Series | None = None
    events: pl.DataFrame

    def level_db(self, at_meters: float, from_meters: float, to_meters: float) -> float | None:
        """Level at a place on the straight line through the samples of a stretch; None where there are too few."""
        if self.samples_db is None or self.first_sample_meters is None or not self.sample_spacing_meters:
            return None
        first, last = (
            max(0, int(np.ceil((meters - self.first_sample_meters) / self.sample_spacing_meters)))
            for meters in (from_meters, to_meters)
        )
        levels = self.samples_db[first:last].cast(pl.Float64).to_numpy()
        if len(levels) < FIT_POINTS_MINIMUM or not np.isfinite(levels).all():
            return None
        places = self.first_sample_meters + (first + np.arange(len(levels))) * self.sample_spacing_meters - at_meters
        slope, level = np.polyfit(places, levels, 1)
        return float(level) if np.isfinite(slope) else None


def shot_of(trace: dict[str, Any], events: pl.DataFrame) -> Shot:
    """From a row of otdr_trace and its rows of otdr_event."""
    samples = trace.get("samples_db")
    names = (
        "direction", "time", "wavelength_nanometers", "pulse_nanoseconds", "group_index", "total_loss_db",
        "return_loss_db", "first_sample_meters", "sample_spacing_meters",
    )  # fmt: skip
    kept = events.select(pl.col(name).cast(dtype) for name, dtype in EVENT_COLUMNS.items())
    return Shot(
        cable=trace["cable"], fiber=trace["fiber"],
        samples_db=None if samples is None else pl.Series(samples, dtype=pl.Float64),
        events=kept.filter(pl.col("distance_meters").is_not_null()).sort("distance_meters", "number"),
        **{name: trace.get(name) for name in names},
    )  # fmt: skip


def reflects() -> pl.Expr:
    """An event that shows a reflection, by its code or because it has a value. Some instruments code neither."""
    by_code = pl.col("code").str.slice(0, 1).is_in(REFLECTIVE_CODES)
    return by_code.fill_null(value=False) | pl.col("reflectance_db").is_not_null()


def is_end() -> pl.Expr:
    return pl.col("code").str.slice(1, 1).is_in(END_CODES).fill_null(value=False)
