"""OTDR shots into a few long cables: otdr_trace and otdr_event rows. Single mode at 1310 nm, behind a launch cord."""

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
WAVELENGTH_NANOMETERS, PULSE_NANOSECONDS, PULSE_METERS = 1310.0, 5.0, 0.51
SPACING_METERS, LAUNCH_METERS, TAIL_METERS = 0.1, 20.0, 15.0
NOISE_FLOOR_DB = -22.0
DEFAULT_LENGTH_METERS = 50.0


class FiberTables:
    """Each cable has a connector at 0 m, one in a panel on the way, and its end, at places that stay."""

    def __init__(self, seed: int, layout: Layout, starts_at: int, plan: OtdrPlan, faulted: tuple[str, ...]) -> None:
        self.seed, self.layout, self.starts_at, self.plan = seed, layout, starts_at, plan
        lengths = np.array([length or 0.0 for length in layout.link_lengths])
        longest = np.argsort(-lengths, kind="stable")[: plan.cables].tolist()
        self.measured = sorted({*longest, *(layout.link_index[cable] for cable in faulted)})

    def shots(self, block: Block, conditions: Conditions) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Traces and events of the shots taken in this block."""
        traces: list[dict[str, Any]] = []
        events: list[dict[str, Any]] = []
        first, interval = self.plan.first_shot_seconds, self.plan.shot_interval_seconds
        for second in block.seconds.astype(np.int64).tolist():
            if second >= first and (second - first) % interval == 0:
                for link in self.measured:
                    bend = conditions.fiber_losses_db.get(link, (float("inf"), 0.0))
                    self._shot(second, link, bend[1] if second >= bend[0] else 0.0, traces, events)
        return event_rows("otdr_trace", traces), event_rows("otdr_event", events)

    def _shot(self, second: int, link: int, bend_db: float, traces: list[dict[str, Any]], events: list[dict[str, Any]]) -> None:  # fmt: skip
        place = generator(self.seed, "fiber", link)
        noise = generator(self.seed, f"shot {second}", link)
        length = self.layout.link_lengths[link] or DEFAULT_LENGTH_METERS
        panel = length * float(place.uniform(0.35, 0.65))
        near_db, panel_db = place.uniform(0.12, 0.3, 2)
        near_reflectance, panel_reflectance, end_reflectance = place.normal((-54.0, -53.0, -45.0), 1.0)
        # A shot repeats a loss to about 0.02 dB and a distance to a few centimetres.
        found = [
            (0.0, near_db + noise.normal(0, 0.015), near_reflectance, "1F9999LS"),
            (panel, panel_db + bend_db + noise.normal(0, 0.015), panel_reflectance, "1F9999LS"),
            (length, None, end_reflectance, "1E9999LS"),
        ]
        total = near_db + panel_db + bend_db + DB_PER_METER * length + noise.normal(0, 0.02)
        told = {
            "time": self.starts_at + second * 1_000_000,
            "cable": self.layout.cables[link],
            "fiber": "1",
            "direction": "AB",
        }
        traces.append(
            {
                **told,
                "wavelength_nanometers": WAVELENGTH_NANOMETERS,
                "pulse_nanoseconds": PULSE_NANOSECONDS,
                "group_index": GROUP_INDEX,
                "length_meters": round(length + noise.normal(0, 0.02), 3),
                "total_loss_db": round(float(total), 3),
                "return_loss_db": round(44.0 + noise.normal(0, 0.2), 2),
                "baseline": second == self.plan.first_shot_seconds,
                "first_sample_meters": -LAUNCH_METERS,
                "sample_spacing_meters": SPACING_METERS,
                "samples_db": _backscatter(length, panel, near_db, panel_db + bend_db, noise).tolist(),
            }
        )
        for number, (distance, loss, reflectance, code) in enumerate(found, start=1):
            events.append(
                {
                    **told,
                    "number": number,
                    "distance_meters": round(distance + noise.normal(0, 0.02), 3),
                    "loss_db": None if loss is None else round(float(loss), 3),
                    "reflectance_db": round(float(reflectance) + noise.normal(0, 0.2), 2),
                    "code": code,
                }
            )


def _backscatter(length: float, panel: float, near_db: float, panel_db: float, noise: np.random.Generator) -> Floats:
    """Level relative to the first sample: slope, steps and spikes at the connectors, then the noise floor."""
    distance = np.arange(-LAUNCH_METERS, length + TAIL_METERS, SPACING_METERS)
    level = -DB_PER_METER * (distance + LAUNCH_METERS)
    for at, loss, spike in ((0.0, near_db, 4.0), (panel, panel_db, 3.5), (length, 30.0, 9.0)):
        level = level - np.where(distance > at + PULSE_METERS, loss, 0.0)
        level = level + np.where((distance >= at) & (distance <= at + PULSE_METERS), spike, 0.0)
    level = np.maximum(level, NOISE_FLOOR_DB + noise.normal(0, 1.0, len(level)))
    level = level + noise.normal(0, 0.01, len(level))
    return np.asarray(np.round(level - level[0], 3))
