"""Faults of links and modules. Each is named by its cable."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.conditions import Conditions, OpticShift
from replay.fault import Throttling, Timed, Truth, no_gpus, not_among
from replay.layout import Layout
from replay.randomness import Floats, Integers

# Light that a receiver can lose before its raw errors rise, and how fast they rise then: an assumption that reaches
# the 1e-6 gate after about 4 dB from a usual 10**-8.5.
MARGIN_DB, DECADES_PER_DB = 1.5, 1.0


def decades_of(lost_db: Floats) -> Floats:
    """Powers of ten by which raw errors rise when a receiver loses that much light."""
    return np.asarray(DECADES_PER_DB * np.maximum(lost_db - MARGIN_DB, 0.0), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class OneCable(Timed):
    """entity: the cable, which is also the link's name."""

    entity: str

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def unknown(self, layout: Layout) -> str | None:
        return not_among("cable", self.entity, layout.fabric.link_index)

    def ends(self, layout: Layout, first: str) -> tuple[int, int]:
        """The end called `first` (a or b), then the other one."""
        a, b = layout.fabric.link_ends[layout.fabric.link_index[self.entity]]
        return (int(a), int(b)) if first == "a" else (int(b), int(a))


@dataclass(frozen=True, kw_only=True)
class OpticDecay(OneCable):
    """A laser ages: bias rises, then its light falls, and the far receiver's errors rise.

    end: a or b, whose laser it is. bias_rise: share by which its bias grows. Light starts to fall at 30 % of the ramp.
    """

    name: ClassVar[str] = "optic_decay"
    end_of_link: str = "a"
    lane: int | None = None
    bias_rise: float = 0.35
    transmit_loss_db: float = 6.0
    ramp_seconds: float = 300.0

    def bend(self, conditions: Conditions) -> None:
        aged = self.ramp(conditions.seconds, self.ramp_seconds)
        if not aged.any():
            return
        laser, receiver = self.ends(conditions.layout, self.end_of_link)
        lost = self.transmit_loss_db * np.clip((aged - 0.3) / 0.7, 0.0, 1.0)
        none = np.zeros_like(aged)
        conditions.optic_shifts.append(OpticShift(laser, self.lane, none, lost, 1 + self.bias_rise * aged))
        conditions.bend("raw_error_decades")[:, receiver] += decades_of(lost)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("optic_degrading", "link", (self.entity,), (), self.at_seconds, self.end)


@dataclass(frozen=True, kw_only=True)
class DirtyConnector(OneCable):
    """Dirt on one fibre of one connector: one lane at one end receives less, from one sample to the next."""

    name: ClassVar[str] = "dirty_connector"
    end_of_link: str = "b"
    lane: int = 1
    loss_db: float = 4.5

    def bend(self, conditions: Conditions) -> None:
        lost = self.loss_db * self.active(conditions.seconds).astype(np.float64)
        if lost.any():
            receiver, _ = self.ends(conditions.layout, self.end_of_link)
            none = np.zeros_like(lost)
            conditions.optic_shifts.append(OpticShift(receiver, self.lane, lost, none, none + 1))
            conditions.bend("raw_error_decades")[:, receiver] += decades_of(lost)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("connector_contaminated", "link", (self.entity,), (), self.at_seconds, self.end)


@dataclass(frozen=True, kw_only=True)
class LinkFlap(OneCable):
    """The link goes down `times` times, for down_seconds each, every_seconds apart; between, its errors are up."""

    name: ClassVar[str] = "link_flap"
    times: int = 6
    down_seconds: int = 5
    every_seconds: int = 40
    error_decades: float = 2.5

    @property
    def end(self) -> float:
        """The last loss's end, if not told otherwise."""
        lasts = (self.times - 1) * self.every_seconds + self.down_seconds
        return float(self.at_seconds + (lasts if self.lasts_seconds is None else self.lasts_seconds))

    def bend(self, conditions: Conditions) -> None:
        seconds, active = conditions.seconds, self.active(conditions.seconds)
        if not active.any():
            return
        since = seconds - self.at_seconds
        down = active & (since % self.every_seconds < self.down_seconds) & (since < self.times * self.every_seconds)
        conditions.bend("link_on")[down, conditions.layout.fabric.link_index[self.entity]] = False
        for end in self.ends(conditions.layout, "a"):
            conditions.bend("raw_error_decades")[:, end] += self.error_decades * active

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("link_flap", "link", (self.entity,), (), self.at_seconds, self.end)
