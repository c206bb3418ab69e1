"""Two shots of one fibre, from its two ends, as one: true losses, and no gainers."""

from dataclasses import replace

import polars as pl

from detectors.fiber.comparison import DISTANCE_ACCURACY
from detectors.fiber.pairing import paired
from detectors.fiber.reason import Reason
from detectors.fiber.resolution import Resolution
from detectors.fiber.span import Span

NEAR_END, FAR_END = "near end", "far end"
OUTSIDE = ("launch reel", "tail reel", "end", "beyond")
READING = ("number", "position_meters", "loss_db", "reflectance_db", "code", "role", "reflective", "blocked")


def average(one: Span, other: Span, resolution: Resolution) -> Span:
    """The span as `one` sees it, each event the mean of both readings.

    A one-way reading is the true loss plus or minus what the unlike backscatter of two fibres feigns, with opposite
    signs from the two ends; the mean is the true loss. An event listed in one direction only is a loss of 0 dB in the
    other, as test sets reckon it (AFL manuals), unless the other shot is blind there. Of the reflectances the worse
    counts. Not averaged (problem "pair"): other wavelengths or pulses, lengths that differ by more than their
    uncertainties, or two shots whose events lie alike unmirrored, so that both come from one end.
    """
    for span in (one, other):
        if span.problem is not None or span.length_meters is None:
            return replace(one, problem=span.problem, length_meters=None, total_loss_db=None)
    problem = _mismatch(one, other, resolution)
    if problem is not None:
        return replace(one, problem=problem, length_meters=None, total_loss_db=None)
    length = ((one.length_meters or 0.0) + (other.length_meters or 0.0)) / 2
    merged = _merged(one, other, _mirrored(other, length), length, resolution)
    outside = one.events.filter(pl.col("role").is_in(OUTSIDE))
    totals = [span.total_loss_db for span in (one, other) if span.total_loss_db is not None]
    return Span(
        shot=one.shot, length_meters=length, near_seen=one.near_seen or other.far_seen,
        far_seen=one.far_seen or other.near_seen, total_loss_db=sum(totals) / len(totals) if totals else None,
        events=pl.concat([merged, outside.select(merged.columns)], how="vertical_relaxed").sort("position_meters"),
    )  # fmt: skip


def _mismatch(one: Span, other: Span, resolution: Resolution) -> Reason | None:
    for what, values in (
        ("wavelengths", (one.shot.wavelength_nanometers, other.shot.wavelength_nanometers)),
        ("pulse widths", (one.shot.pulse_nanoseconds, other.shot.pulse_nanoseconds)),
    ):
        if None not in values and values[0] != values[1]:
            text = f"two directions need one setting; {what} are {values[0]:g} and {values[1]:g}"
            return Reason("pair", "UNRESOLVABLE", text)
    lengths = [span.length_meters or 0.0 for span in (one, other)]
    allowed = sum(resolution.length_uncertainty_meters(span.shot, span.length_meters or 0.0) for span in (one, other))
    if abs(lengths[0] - lengths[1]) > allowed:
        text = f"not two directions of one fibre: {lengths[0]:.1f} and {lengths[1]:.1f} m"
        return Reason("pair", "UNRESOLVABLE", text)
    if _pairs(one, other, resolution, turned=False) > _pairs(one, other, resolution, turned=True):
        return Reason("pair", "UNRESOLVABLE", "both shots look taken from the same end: their events lie alike")
    return None


def from_other_end(one: Span, other: Span, resolution: Resolution) -> bool:
    """More of the events inside the fibre are at one place when one of the two is turned round."""
    return _pairs(one, other, resolution, turned=True) > _pairs(one, other, resolution, turned=False)


def _pairs(one: Span, other: Span, resolution: Resolution, *, turned: bool) -> int:
    length = ((one.length_meters or 0.0) + (other.length_meters or 0.0)) / 2
    inner, theirs = (
        events.filter(pl.col("role") == "fibre").select(at="position_meters")
        for events in (one.events, _mirrored(other, length) if turned else other.events)
    )
    return paired(inner, theirs, resolution.same_place_meters(one.shot), of_distance=DISTANCE_ACCURACY).height


def _mirrored(span: Span, length: float) -> pl.DataFrame:
    """Events as seen from the other end."""
    turned = {NEAR_END: FAR_END, FAR_END: NEAR_END}
    return span.events.with_columns(
        position_meters=length - pl.col("position_meters"), role=pl.col("role").replace(turned)
    )


def _merged(one: Span, other: Span, mirrored: pl.DataFrame, length: float, resolution: Resolution) -> pl.DataFrame:
    """The measured events of both, from one's near end."""
    ours, theirs = (events.filter("measured").select(READING) for events in (one.events, mirrored))
    pairs = paired(
        ours.select(at="position_meters"), theirs.select(at="position_meters"), resolution.same_place_meters(one.shot),
        of_distance=DISTANCE_ACCURACY,
    )  # fmt: skip
    ours = ours.with_columns(at="position_meters").join(pairs, on="at", how="left")
    both = ours.join(
        theirs.with_columns(at_right="position_meters"), on="at_right", how="full", coalesce=True, suffix="_other"
    )
    zone, place = resolution.dead_zone_meters(one.shot), pl.coalesce("position_meters", "position_meters_other")
    reels = {"": (one.near_seen, one.far_seen), "_other": (other.far_seen, other.near_seen)}
    readings = []
    for suffix, (near_seen, far_seen) in reels.items():
        blind = ((place < zone) & (not near_seen)) | ((length - place < zone) & (not far_seen))
        unlisted = pl.when(blind).then(None).otherwise(0.0)
        hidden = pl.col(f"blocked{suffix}")
        readings.append(pl.when(hidden.is_null()).then(unlisted).when(~hidden).then(f"loss_db{suffix}"))
    seen = pl.sum_horizontal(reading.is_not_null().cast(pl.Int32) for reading in readings)
    position = pl.mean_horizontal("position_meters", "position_meters_other")
    return both.select(
        number=pl.coalesce("number", "number_other"), distance_meters=position, position_meters=position,
        loss_db=pl.mean_horizontal(readings),
        reflectance_db=pl.max_horizontal("reflectance_db", "reflectance_db_other"),
        code=pl.max_horizontal("code", "code_other"),  # 2 saturated before 1 reflective before 0
        role=pl.coalesce("role", "role_other"),
        reflective=pl.any_horizontal("reflective", "reflective_other").fill_null(value=False),
        measured=pl.lit(value=True), blocked=seen == 0, directions=seen,
    )  # fmt: skip
