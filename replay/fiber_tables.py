"""OTDR shots into a few long cables: otdr_trace and otdr_event rows. Single mode, behind a launch cord."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from replay.cluster import Block
from replay.conditions import Conditions
from replay.layout import Layout
from replay.randomness import Floats, generator
from replay.rows import event_rows
from replay.scenario import OtdrPlan

PULSE_NANOSECONDS, PULSE_METERS = 3.0, 0.31
SPACING_METERS, LAUNCH_METERS, TAIL_METERS = 0.1, 20.0, 15.0
NOISE_FLOOR_DB = -22.0
DEFAULT_LENGTH_METERS = 50.0
NEXT_WAVELENGTH_SECONDS = 10
AIR_REFLECTANCE_DB = -14.4  # glass to air at that index: ((n - 1) / (n + 1))^2


@dataclass(frozen=True)
class _Light:
    """One wavelength in G.652 fibre (domain.md 4.5). bend_factor: loss of a bend over that at 1310 nm, an assumption
    of the right order; it depends on the radius.
    """

    nanometers: float
    group_index: float
    db_per_meter: float
    bend_factor: float


LIGHTS = (
    _Light(1310.0, 1.4676, 0.35e-3, 1.0),
    _Light(1550.0, 1.4682, 0.22e-3, 4.0),
    _Light(1625.0, 1.4685, 0.24e-3, 7.0),
)


class FiberTables:
    """Each cable has a connector at 0 m, one in a panel on the way, and its end, at places that stay."""

    def __init__(self, seed: int, layout: Layout, starts_at: int, plan: OtdrPlan, faulted: tuple[str, ...]) -> None:
        self.seed, self.layout, self.starts_at, self.plan = seed, layout, starts_at, plan
        self.lights = tuple(light for light in LIGHTS if light.nanometers in plan.wavelengths_nanometers)
        lengths = np.array([length or 0.0 for length in layout.fabric.link_lengths])
        longest = np.argsort(-lengths, kind="stable")[: plan.cables].tolist()
        self.measured = sorted({*longest, *(layout.fabric.link_index[cable] for cable in faulted)})

    def traces(self, block: Block, conditions: Conditions) -> pl.DataFrame:
        return event_rows("otdr_trace", [self._trace(*shot, conditions) for shot in self._shots(block)])

    def events(self, block: Block, conditions: Conditions) -> pl.DataFrame:
        rows = [row for shot in self._shots(block) for row in self._events(*shot, conditions)]
        return event_rows("otdr_event", rows)

    def _shots(self, block: Block) -> list[tuple[int, int, _Light]]:
        """(second, link, light) of the shots taken in this block; one wavelength is shot after the other."""
        first, interval = self.plan.first_shot_seconds, self.plan.shot_interval_seconds
        return [
            (second, link, light)
            for second in block.seconds.astype(np.int64).tolist()
            for turn, light in enumerate(self.lights)
            if (since := second - first - turn * NEXT_WAVELENGTH_SECONDS) >= 0 and since % interval == 0
            for link in self.measured
        ]

    def _span(self, second: int, link: int, light: _Light, conditions: Conditions) -> "_Span":
        place = generator(self.seed, "fiber", link)
        length = self.layout.fabric.link_lengths[link] or DEFAULT_LENGTH_METERS
        panel = length * float(place.uniform(0.35, 0.65))
        near_db, panel_db = place.uniform(0.12, 0.3, 2).tolist()
        near, middle, end = place.normal((-54.0, -53.0, -45.0), 1.0).tolist()
        changed = conditions.fiber_changes.get(link)
        if changed is None or not changed.begins <= second < changed.ends:
            return _Span(length, end, (_Place(0.0, near_db, near), _Place(panel, panel_db, middle)))
        middle = min(middle + changed.panel_reflectance_db, AIR_REFLECTANCE_DB)
        bend_db, panel_db = changed.bend_db * light.bend_factor, panel_db + changed.panel_loss_db
        if changed.bend_share is None:
            bend_db, panel_db = 0.0, panel_db + bend_db
        places = [_Place(0.0, near_db, near), _Place(panel, panel_db, middle)]
        if changed.bend_share is not None:
            places.append(_Place(length * changed.bend_share, bend_db, None))
        if changed.cut_share is not None:
            length, end = length * changed.cut_share, AIR_REFLECTANCE_DB
        inside = sorted((one for one in places if one.meters < length), key=lambda one: one.meters)
        return _Span(length, end, tuple(inside))

    def _told(self, second: int, link: int) -> dict[str, Any]:
        cable = self.layout.fabric.cables[link]
        return {"time": self.starts_at + second * 1_000_000, "cable": cable, "fiber": "1", "direction": "AB"}

    def _trace(self, second: int, link: int, light: _Light, conditions: Conditions) -> dict[str, Any]:
        span, noise = self._span(second, link, light, conditions), generator(self.seed, f"trace {second}", link)
        total = sum(place.loss_db or 0.0 for place in span.places) + light.db_per_meter * span.length
        return {
            **self._told(second, link),
            "wavelength_nanometers": light.nanometers,
            "pulse_nanoseconds": PULSE_NANOSECONDS,
            "group_index": light.group_index,
            "length_meters": round(span.length + noise.normal(0, 0.02), 3),
            "total_loss_db": round(total + noise.normal(0, 0.02), 3),
            "return_loss_db": round(44.0 + noise.normal(0, 0.2), 2),
            "baseline": second - self.plan.first_shot_seconds < self.plan.shot_interval_seconds,
            "first_sample_meters": -LAUNCH_METERS,
            "sample_spacing_meters": SPACING_METERS,
            "samples_db": _backscatter(span, light, noise).tolist(),
        }

    def _events(self, second: int, link: int, light: _Light, conditions: Conditions) -> list[dict[str, Any]]:
        """A shot repeats a loss to about 0.015 dB and a distance to a few centimetres."""
        span, noise = self._span(second, link, light, conditions), generator(self.seed, f"events {second}", link)
        places = (*span.places, _Place(span.length, None, span.end_reflectance_db))
        return [
            {
                **self._told(second, link),
                "number": number,
                "distance_meters": round(place.meters + noise.normal(0, 0.02), 3),
                "loss_db": None if place.loss_db is None else round(place.loss_db + noise.normal(0, 0.015), 3),
                "reflectance_db": _noisy(place.reflectance_db, noise),
                "code": _code(place, last=number == len(places)),
            }
            for number, place in enumerate(places, start=1)
        ]


@dataclass(frozen=True)
class _Place:
    """Where something is lost, how much (None: not read, at the end), and what it reflects (None: nothing)."""

    meters: float
    loss_db: float | None
    reflectance_db: float | None


@dataclass(frozen=True)
class _Span:
    """One fibre as it is: its length, what its end reflects, and what lies before the end, in order of distance."""

    length: float
    end_reflectance_db: float
    places: tuple[_Place, ...]


def _noisy(reflectance_db: float | None, noise: np.random.Generator) -> float | None:
    """A shot repeats a reflectance to about 0.2 dB."""
    return None if reflectance_db is None else round(reflectance_db + noise.normal(0, 0.2), 2)


def _code(place: _Place, *, last: bool) -> str:
    if last:
        return "1E9999LS"
    return "0F9999LS" if place.reflectance_db is None else "1F9999LS"


def _backscatter(span: _Span, light: _Light, noise: np.random.Generator) -> Floats:
    """Level relative to the first sample: slope, steps and spikes at the connectors, then the noise floor."""
    distance = np.arange(-LAUNCH_METERS, span.length + TAIL_METERS, SPACING_METERS)
    level = -light.db_per_meter * (distance + LAUNCH_METERS)
    spikes = [
        (place.meters, place.loss_db or 0.0, 4.0 if place.reflectance_db is not None else 0.0) for place in span.places
    ]
    for at, loss, spike in (*spikes, (span.length, 30.0, 9.0)):
        level = level - np.where(distance > at + PULSE_METERS, loss, 0.0)
        level = level + np.where((distance >= at) & (distance <= at + PULSE_METERS), spike, 0.0)
    level = np.maximum(level, NOISE_FLOOR_DB + noise.normal(0, 1.0, len(level)))
    level = level + noise.normal(0, 0.01, len(level))
    return np.asarray(np.round(level - level[0], 3))
