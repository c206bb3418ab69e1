"""Shots by hand, as spans and as .sor files: 10 ns pulse (1.02 m at n = 1.468), samples every 8 cm, 0.35 dB/km."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from detectors.fiber.shot import EVENT_COLUMNS, Shot
from schemas.columns import UTC_MICROSECONDS

INDEX, PULSE_METERS, SPACING_METERS, DB_PER_METER = 1.468, 10 * 0.299792458 / 2 / 1.468, 0.08, 0.35e-3
CONNECTOR, SPLICE, END = "1F9999LS", "0F9999LS", "1E9999LS"
NAMES = ("distance_meters", "loss_db", "reflectance_db", "code")


def events_of(*events: tuple[float, float | None, float | None, str]) -> pl.DataFrame:
    rows = [{"number": number, **dict(zip(NAMES, each, strict=True))} for number, each in enumerate(events, 1)]
    return pl.DataFrame(rows, schema=EVENT_COLUMNS)


def shot(*events: tuple[float, float | None, float | None, str], **facts: Any) -> Shot:
    """Without samples, so that there is nothing but the events."""
    given = {"wavelength_nanometers": 1310.0, "pulse_nanoseconds": 10.0, **facts}
    return Shot(
        cable="c1",
        fiber="1",
        group_index=INDEX,
        sample_spacing_meters=SPACING_METERS,
        events=events_of(*events),
        **given,
    )


def behind_reels(
    *events: tuple[float, float | None, float | None, str], launch: float, tail: float, cut_off: bool = False,
    nanometers: float = 1310.0,
) -> Shot:  # fmt: skip
    """The cable whose events are given from its near end to its far connector, with samples as physics has them.

    cut_off: the instrument counts distances from the end of the launch reel, else from its front panel.
    """
    zero = 0.0 if cut_off else launch
    placed = [(at + zero, loss, reflectance, code) for at, loss, reflectance, code in events]
    placed.append((placed[-1][0] + tail, None, -30.0, END))
    first = zero - launch
    places = np.arange(first, placed[-1][0] + 30, SPACING_METERS)
    levels = -DB_PER_METER * (places - first)
    for at, loss, reflectance, code in placed:
        width = 0.0 if reflectance is None else PULSE_METERS
        levels = levels - np.where(places > at + width, 25.0 if code == END else loss or 0.0, 0.0)
        levels = levels + np.where((places >= at) & (places <= at + width), 6.0 if width else 0.0, 0.0)
    samples = pl.Series(np.round(np.maximum(levels, -23.0), 3))
    return shot(*placed, first_sample_meters=first, samples_db=samples, wavelength_nanometers=nanometers)


def as_rows(one: Shot, *, cable: str, fiber: str = "1", hour: int = 8) -> tuple[pl.DataFrame, pl.DataFrame]:
    """otdr_trace and otdr_event, to be written as a .sor file."""
    assert one.samples_db is not None
    trace = pl.DataFrame(
        {
            "time": [datetime(2026, 7, 14, hour, tzinfo=UTC)], "cable": [cable], "fiber": [fiber],
            "wavelength_nanometers": [one.wavelength_nanometers], "pulse_nanoseconds": [one.pulse_nanoseconds],
            "group_index": [one.group_index], "length_meters": [one.events["distance_meters"].max()],
            "first_sample_meters": [one.first_sample_meters], "sample_spacing_meters": [SPACING_METERS],
            "samples_db": [one.samples_db.to_list()],
        },
        schema_overrides={"time": UTC_MICROSECONDS},
    )  # fmt: skip
    return trace, one.events
