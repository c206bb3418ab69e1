"""Faults that show as bit errors or as waiting: of a port's SerDes, a module's heat or supply, a queue, a slow hop."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.conditions import Conditions
from replay.fault import Throttling, Truth
from replay.faults_fabric import OneCable
from replay.layout import Layout


@dataclass(frozen=True, kw_only=True)
class LinkErrors(OneCable):
    """One receiver's bit errors rise by so many powers of ten, its light as before: the SerDes behind the module."""

    name: ClassVar[str] = "link_errors"
    end_of_link: str = "b"
    error_decades: float = 3.5

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            receiver, _ = self.ends(conditions.layout, self.end_of_link)
            conditions.bend("raw_error_decades")[:, receiver] += self.error_decades * active

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("link_degraded", "link", (self.entity,), (), self.at_seconds, self.end)


@dataclass(frozen=True, kw_only=True)
class FecTail(OneCable):
    """Errors come in bursts at one receiver: few codewords, many wrong symbols in each, still all repaired."""

    name: ClassVar[str] = "fec_tail"
    end_of_link: str = "b"
    burst_share: float = 1e-7

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            receiver, _ = self.ends(conditions.layout, self.end_of_link)
            conditions.bend("fec_burst_share")[:, receiver] += self.burst_share * active

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("link_degraded", "link", (self.entity,), (), self.at_seconds, self.end)


@dataclass(frozen=True, kw_only=True)
class ModuleUnwell(OneCable):
    """A module too hot (its cage is blocked) or short of volts: errors of its receiver rise in proportion.

    kelvin_per_decade, volts_per_decade: what makes ten times the errors; an assumption.
    """

    name: ClassVar[str] = "module_unwell"
    end_of_link: str = "a"
    rise_kelvin: float = 0.0
    sag_volts: float = 0.0
    ramp_seconds: float = 60.0
    kelvin_per_decade: float = 8.0
    volts_per_decade: float = 0.12

    def bend(self, conditions: Conditions) -> None:
        grown = self.ramp(conditions.seconds, self.ramp_seconds)
        if not grown.any():
            return
        module, _ = self.ends(conditions.layout, self.end_of_link)
        conditions.bend("module_rise_kelvin")[:, module] += self.rise_kelvin * grown
        conditions.bend("module_volts_shift")[:, module] -= self.sag_volts * grown
        decades = self.rise_kelvin / self.kelvin_per_decade + self.sag_volts / self.volts_per_decade
        conditions.bend("raw_error_decades")[:, module] += decades * grown

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("link_degraded", "link", (self.entity,), (), self.at_seconds, self.end)


@dataclass(frozen=True, kw_only=True)
class CongestedLink(OneCable):
    """More traffic than the far side takes: the sender waits for credit and drops, and no bit is wrong.

    Nothing is broken, so it has no label.
    """

    name: ClassVar[str] = "congested_link"
    end_of_link: str = "b"
    wait_ticks_per_second: float = 5e7
    discards_per_second: float = 0.0

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            sender, _ = self.ends(conditions.layout, self.end_of_link)
            conditions.bend("wait_ticks_per_second")[:, sender] += self.wait_ticks_per_second * active
            conditions.bend("discards_per_second")[:, sender] += self.discards_per_second * active

    def truth(self, layout: Layout, throttling: Throttling) -> None:  # noqa: ARG002  # the protocol's arguments
        return None


@dataclass(frozen=True, kw_only=True)
class SlowHop(OneCable):
    """A link retrains to a share of its rate. Every ring through it waits, so each step's collectives take longer."""

    name: ClassVar[str] = "slow_hop"
    rate_share: float = 0.5

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if not active.any():
            return
        link = conditions.layout.fabric.link_index[self.entity]
        conditions.bend("rate_share")[active, link] = self.rate_share
        factor = conditions.bend("communication_factor")
        np.maximum(factor, np.where(active, 1 / self.rate_share, 1.0), out=factor)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("link_degraded", "link", (self.entity,), (), self.at_seconds, self.end)
