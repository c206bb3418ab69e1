"""Where in a trace the cable lies: between its reels, before the end of the fibre; and what the whole of it loses."""

from dataclasses import dataclass, replace

import polars as pl

from detectors.fiber.reason import Reason
from detectors.fiber.resolution import Resolution
from detectors.fiber.shot import OUT_OF_RANGE, Shot, is_end, reflects

REEL_TOLERANCE = 0.05  # of a reel's stated length; reels sold as 150 and 500 m measure 151.6 and 503.4 m
NOISE_DROP_DB = 3.0


@dataclass(frozen=True, kw_only=True)
class Reels:
    """Lengths of launch and receive (tail) reel as they were used; None where there was none, or it was not told."""

    launch_meters: float | None = None
    tail_meters: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Span:
    """The fibre under test. near_seen, far_seen: whether its end connectors can be measured (a reel beyond them).

    events: those of the shot with position_meters (from the near end); role: near end, fibre, far end; launch reel,
    tail reel, end, beyond (what lies past the end of fibre is a ghost); measured: whether it is the cable's and can be
    judged; reflective; blocked: so near to the front panel or to the end of fibre that its loss cannot be measured;
    directions: how many saw it. total_measured: the loss is from the samples, not the file's own. problem: why there
    is nothing to judge.
    """

    shot: Shot
    length_meters: float | None
    near_seen: bool = False
    far_seen: bool = False
    total_loss_db: float | None = None
    total_measured: bool = False
    events: pl.DataFrame
    problem: Reason | None = None


def locate(shot: Shot, reels: Reels, resolution: Resolution) -> Span:
    """The span of one shot. A launch reel that the instrument has already cut off, or that was not told but is seen
    before the zero of distance, is respected too.
    """
    end = shot.events.filter(is_end())["distance_meters"].min()
    if not isinstance(end, float):
        ran_out = OUT_OF_RANGE in shot.events["code"].str.slice(1, 1)
        text = "the trace runs out before the fibre ends" if ran_out else "no event is marked as the end of the fibre"
        return _nothing(shot, Reason("no_end", "UNRESOLVABLE", text))
    near_at, slack, launch = _near(shot, reels, resolution, end)
    near = _nearest(shot, near_at, slack, before=end)
    if end <= near_at + slack and (near is None or end <= near):
        where = "with the launch reel" if launch else "where the shot begins"
        return _nothing(shot, Reason("no_end", "UNRESOLVABLE", f"the fibre ends {where}: no light got in, shoot again"))
    if near is None and reels.launch_meters is not None:
        text = f"no event where the launch reel should end ({near_at:.1f} m)"
        return _nothing(shot, Reason("reel", "UNRESOLVABLE", text))
    far: float | None = None
    if reels.tail_meters is not None:
        about = max(REEL_TOLERANCE * reels.tail_meters, resolution.same_place_meters(shot))
        far = _nearest(shot, end - reels.tail_meters, about, before=end, after=near_at if near is None else near)
        if far is None:
            text = f"no event where the tail reel should begin ({end - reels.tail_meters:.1f} m)"
            return _nothing(shot, Reason("reel", "UNRESOLVABLE", text))
    start, stop = near_at if near is None else near, end if far is None else far
    zones = resolution.dead_zone_meters(shot), resolution.dead_zone_meters(shot, reflective=False)
    first = shot.first_sample_meters
    front = None if not launch else float("-inf") if first is None else first
    roles = _roles(shot.events, near=near, start=start, far=far, end=end)
    span = Span(
        shot=shot, length_meters=stop - start, near_seen=launch, far_seen=far is not None,
        events=_measured(roles, start, end, front, zones),
    )  # fmt: skip
    cut_off = shot.total_loss_db is not None and far is None and start <= slack
    total = shot.total_loss_db if cut_off else _loss_db(span, start, stop, end, resolution)
    return replace(span, total_loss_db=total, total_measured=not cut_off)


def _nothing(shot: Shot, reason: Reason) -> Span:
    events = shot.events.with_columns(
        position_meters=pl.col("distance_meters"), role=pl.lit("fibre"), measured=pl.lit(value=False),
        reflective=reflects(), blocked=pl.lit(value=True), directions=pl.lit(1),
    )  # fmt: skip
    return Span(shot=shot, length_meters=None, events=events, problem=reason)


def _near(shot: Shot, reels: Reels, resolution: Resolution, end: float) -> tuple[float, float, bool]:
    """Where the near end should be, how far from there it may be, and whether a reel lies before it.

    An instrument that has cut off the reel put its zero there, as closely as it samples; a reel's stated length is
    only about what it is.
    """
    zero = max(2 * (shot.sample_spacing_meters or 0.0), resolution.same_place_meters_minimum)
    if reels.launch_meters is None:
        return 0.0, zero, _lit_before_zero(shot, resolution, end)
    about = max(REEL_TOLERANCE * reels.launch_meters, zero)
    cut_off = -(shot.first_sample_meters or 0.0) >= reels.launch_meters - about
    return (0.0, zero, True) if cut_off else (reels.launch_meters, about, True)


def _lit_before_zero(shot: Shot, resolution: Resolution, end: float) -> bool:
    """A launch reel was cut off: longer than a dead zone, and backscattering. Before the pulse there is only noise."""
    zone, spacing = resolution.dead_zone_meters(shot), shot.sample_spacing_meters
    if shot.samples_db is None or shot.first_sample_meters is None or not spacing or -shot.first_sample_meters < zone:
        return False
    zero = round(-shot.first_sample_meters / spacing)
    reach, pulse = (max(1, int(meters / spacing)) for meters in (min(5 * zone, end), resolution.pulse_meters(shot)))
    before = shot.samples_db[max(0, zero - reach) : max(0, zero - pulse)].median()
    after = shot.samples_db[zero + 1 : zero + reach].quantile(0.1)
    return isinstance(before, float) and isinstance(after, float) and before >= after - NOISE_DROP_DB


def _nearest(shot: Shot, at: float, within: float, *, before: float, after: float = float("-inf")) -> float | None:
    places = shot.events.filter((pl.col("distance_meters") < before) & (pl.col("distance_meters") > after))
    apart = (pl.col("distance_meters") - at).abs()
    found = places.filter(apart <= within).sort(apart)["distance_meters"]
    return float(found[0]) if len(found) else None


def _roles(events: pl.DataFrame, *, near: float | None, start: float, far: float | None, end: float) -> pl.DataFrame:
    at = pl.col("distance_meters")
    role = (
        pl.when(at > end).then(pl.lit("beyond"))
        .when(at == end).then(pl.lit("end"))
        .when(at == pl.lit(near, pl.Float64)).then(pl.lit("near end"))
        .when(at < start).then(pl.lit("launch reel"))
        .when(at == pl.lit(far, pl.Float64)).then(pl.lit("far end"))
        .when(at > pl.lit(far, pl.Float64)).then(pl.lit("tail reel"))
        .otherwise(pl.lit("fibre"))
    )  # fmt: skip
    return events.with_columns(role=role)


def _measured(
    events: pl.DataFrame, start: float, end: float, front: float | None, zones: tuple[float, float]
) -> pl.DataFrame:
    """Position, and what of the events can be judged. front: place of the front panel, a reflection like any other,
    where a launch reel follows it; zones: dead zones behind a reflection and behind none.
    """
    at, role, (bright, dark) = pl.col("distance_meters"), pl.col("role"), zones
    return events.with_columns(
        position_meters=at - start,
        reflective=reflects(),
        measured=role.is_in(["fibre", "far end"]) | ((role == "near end") & (front is not None)),
        blocked=(at - (0.0 if front is None else front) < bright)
        | (end - at < pl.when(reflects()).then(bright).otherwise(dark)),
        directions=pl.lit(1),
    )


def _loss_db(span: Span, start: float, stop: float, end: float, resolution: Resolution) -> float | None:
    """From the backscatter before the near end to that behind the far end, by straight lines through both.

    Without a reel the line through the fibre's own first or last stretch is drawn to its end, so that the connector
    there is not in the sum.
    """
    shot, zone, margin = span.shot, resolution.dead_zone_meters(span.shot), 2 * (span.shot.sample_spacing_meters or 0)
    places = span.events["distance_meters"]
    if span.near_seen:
        earlier = [float(place) for place in places if place < start]
        front = max([*earlier, shot.first_sample_meters or 0.0]) + zone
        before = shot.level_db(start, front, start - margin)
    else:
        following = min(float(place) for place in places if place > start)
        before = shot.level_db(start, start + zone, following - margin)
    if span.far_seen:
        after = shot.level_db(stop, stop + zone, min(float(place) for place in places if place > stop) - margin)
    else:
        last = max((float(place) for place in places if start < place < end), default=start)
        after = shot.level_db(stop, last + zone, stop - margin)
    return None if before is None or after is None else before - after
