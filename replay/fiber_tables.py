"""OTDR shots into a few long cables: otdr_trace and otdr_event rows. Single mode at 1310 nm, behind a launch cord."""

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

# G.652 at 1310 nm (domain.md 4.5).
GROUP_INDEX = 1.4676
DB_PER_METER = 0.35e-3
WAVELENGTH_NANOMETERS, PULSE_NANOSECONDS, PULSE_METERS = 1310.0, 3.0, 0.31
SPACING_METERS, LAUNCH_METERS, TAIL_METERS = 0.1, 20.0, 15.0
NOISE_FLOOR_DB = -22.0
DEFAULT_LENGTH_METERS = 50.0


class FiberTables:
    """Each cable has a connector at 0 m, one in a panel on the way, and its end, at places that stay."""

    def __init__(self, seed: int, layout: Layout, starts_at: int, plan: OtdrPlan, faulted: tuple[str, ...]) -> None:
        self.seed, self.layout, self.starts_at, self.plan = seed, layout, starts_at, plan
        lengths = np.array([length or 0.0 for length in layout.fabric.link_lengths])
        longest = np.argsort(-lengths, kind="stable")[: plan.cables].tolist()
        self.measured = sorted({*longest, *(layout.fabric.link_index[cable] for cable in faulted)})

    def traces(self, block: Block, conditions: Conditions) -> pl.DataFrame:
        return event_rows("otdr_trace", [self._trace(second, link, conditions) for second, link in self._shots(block)])

    def events(self, block: Block, conditions: Conditions) -> pl.DataFrame:
        shots = self._shots(block)
        rows = [row for second, link in shots for row in self._events(second, link, conditions)]
        return event_rows("otdr_event", rows)

    def _shots(self, block: Block) -> list[tuple[int, int]]:
        """(second, link) of the shots taken in this block."""
        first, interval = self.plan.first_shot_seconds, self.plan.shot_interval_seconds
        seconds = block.seconds.astype(np.int64).tolist()
        taken = [second for second in seconds if second >= first and (second - first) % interval == 0]
        return [(second, link) for second in taken for link in self.measured]

    def _span(self, second: int, link: int, conditions: Conditions) -> "_Span":
        place = generator(self.seed, "fiber", link)
        length = self.layout.fabric.link_lengths[link] or DEFAULT_LENGTH_METERS
        since, until, bend_db = conditions.fiber_losses_db.get(link, (0.0, 0.0, 0.0))
        panel = length * float(place.uniform(0.35, 0.65))
        near_db, panel_db = place.uniform(0.12, 0.3, 2).tolist()
        reflectances = place.normal((-54.0, -53.0, -45.0), 1.0).tolist()
        return _Span(
            length, panel, near_db, panel_db + (bend_db if since <= second < until else 0.0), tuple(reflectances)
        )

    def _told(self, second: int, link: int) -> dict[str, Any]:
        cable = self.layout.fabric.cables[link]
        return {"time": self.starts_at + second * 1_000_000, "cable": cable, "fiber": "1", "direction": "AB"}

    def _trace(self, second: int, link: int, conditions: Conditions) -> dict[str, Any]:
        span, noise = self._span(second, link, conditions), generator(self.seed, f"trace {second}", link)
        total = span.near_db + span.panel_db + DB_PER_METER * span.length
        return {
            **self._told(second, link),
            "wavelength_nanometers": WAVELENGTH_NANOMETERS,
            "pulse_nanoseconds": PULSE_NANOSECONDS,
            "group_index": GROUP_INDEX,
            "length_meters": round(span.length + noise.normal(0, 0.02), 3),
            "total_loss_db": round(total + noise.normal(0, 0.02), 3),
            "return_loss_db": round(44.0 + noise.normal(0, 0.2), 2),
            "baseline": second == self.plan.first_shot_seconds,
            "first_sample_meters": -LAUNCH_METERS,
            "sample_spacing_meters": SPACING_METERS,
            "samples_db": _backscatter(span, noise).tolist(),
        }

    def _events(self, second: int, link: int, conditions: Conditions) -> list[dict[str, Any]]:
        """A shot repeats a loss to about 0.015 dB and a distance to a few centimetres."""
        span, noise = self._span(second, link, conditions), generator(self.seed, f"events {second}", link)
        places = (
            (0.0, span.near_db, "1F9999LS"),
            (span.panel, span.panel_db, "1F9999LS"),
            (span.length, None, "1E9999LS"),
        )
        return [
            {
                **self._told(second, link),
                "number": number,
                "distance_meters": round(distance + noise.normal(0, 0.02), 3),
                "loss_db": None if loss is None else round(loss + noise.normal(0, 0.015), 3),
                "reflectance_db": round(reflectance + noise.normal(0, 0.2), 2),
                "code": code,
            }
            for number, ((distance, loss, code), reflectance) in enumerate(
                zip(places, span.reflectances, strict=True), start=1
            )
        ]


@dataclass(frozen=True)
class _Span:
    """One fibre as it is: its length, where its panel is, and what its connectors lose and reflect."""

    length: float
    panel: float
    near_db: float
    panel_db: float
    reflectances: tuple[float, ...]


def _backscatter(span: _Span, noise: np.random.Generator) -> Floats:
    """Level relative to the first sample: slope, steps and spikes at the connectors, then the noise floor."""
    distance = np.arange(-LAUNCH_METERS, span.length + TAIL_METERS, SPACING_METERS)
    level = -DB_PER_METER * (distance + LAUNCH_METERS)
    for at, loss, spike in ((0.0, span.near_db, 4.0), (span.panel, span.panel_db, 3.5), (span.length, 30.0, 9.0)):
        level = level - np.where(distance > at + PULSE_METERS, loss, 0.0)
        level = level + np.where((distance >= at) & (distance <= at + PULSE_METERS), spike, 0.0)
    level = np.maximum(level, NOISE_FLOOR_DB + noise.normal(0, 1.0, len(level)))
    level = level + noise.normal(0, 0.01, len(level))
    return np.asarray(np.round(level - level[0], 3))
