"""A macrobend: a place that loses more at a longer wavelength."""

from collections.abc import Sequence

import polars as pl

from detectors.fiber.bidirectional import from_other_end
from detectors.fiber.comparison import DISTANCE_ACCURACY
from detectors.fiber.limits import is_multimode
from detectors.fiber.pairing import paired
from detectors.fiber.reason import Reason
from detectors.fiber.resolution import Resolution
from detectors.fiber.span import Span

DELTA_DB = 0.5


def bends(spans: Sequence[Span], resolution: Resolution, *, delta_db: float = DELTA_DB) -> list[tuple[Span, Reason]]:
    """Macrobends of one fibre, each with the span of the longer wavelength, which shows it.

    A bent single-mode fibre guides a longer wavelength less well, a splice or a connector loses about the same at
    1310, 1550 and 1625 nm, so each is compared with the shortest. delta_db 0.5: the difference at which EXFO's
    instruments call it a macrobend by default (FTB-7000 manual). An event that one wavelength does not list loses 0 dB
    there. Not told for multimode fibre, of shots from opposite ends or of unlike lengths.
    """
    known = [
        span for span in spans
        if span.length_meters is not None and span.shot.wavelength_nanometers is not None
        and not is_multimode(span.shot.wavelength_nanometers)
    ]  # fmt: skip
    ranked = sorted(known, key=lambda span: span.shot.wavelength_nanometers or 0.0)
    return [
        (longer, reason)
        for longer in ranked[1:]
        if longer.shot.wavelength_nanometers != ranked[0].shot.wavelength_nanometers
        for reason in _between(ranked[0], longer, resolution, delta_db)
    ]


def _between(shorter: Span, longer: Span, resolution: Resolution, delta_db: float) -> list[Reason]:
    allowed = sum(
        resolution.length_uncertainty_meters(span.shot, span.length_meters or 0.0) for span in (shorter, longer)
    )
    alike = abs((shorter.length_meters or 0.0) - (longer.length_meters or 0.0)) <= allowed
    if not alike or from_other_end(shorter, longer, resolution):
        return []
    below, above = (
        span.events.filter(pl.col("measured") & ~pl.col("blocked")).select(at="position_meters", loss="loss_db")
        for span in (shorter, longer)
    )
    within = max(resolution.same_place_meters(span.shot) for span in (shorter, longer))
    pairs = paired(above.select("at"), below.select(at="at"), within, of_distance=DISTANCE_ACCURACY)
    both = above.join(pairs, on="at", how="left").join(
        below.rename({"at": "at_right", "loss": "less"}), on="at_right", how="left"
    )
    found = (
        both.with_columns(pl.col("less").fill_null(0.0)).filter(pl.col("loss") - pl.col("less") >= delta_db).sort("at")
    )
    nanometers = [span.shot.wavelength_nanometers for span in (longer, shorter)]
    return [
        Reason(
            "macrobend",
            "FAIL",
            f"{at:.1f} m: a bend, {loss:g} dB at {nanometers[0]:g} nm and {less:g} at {nanometers[1]:g}",
        )
        for at, loss, less in found.select("at", "loss", "less").iter_rows()
    ]
