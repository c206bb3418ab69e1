"""Slow or partial faults of cooling and power: a filter, a heat exchanger, the coolant itself, the line voltage."""

from dataclasses import dataclass
from typing import ClassVar

from replay.conditions import Conditions
from replay.fault import Throttling, Timed, Truth, no_gpus, not_among
from replay.layout import Layout
from replay.randomness import Integers


@dataclass(frozen=True, kw_only=True)
class OfLoop(Timed):
    """A fault whose root is one CDU and that throttles nobody. It grows over ramp_seconds: months, accelerated."""

    entity: str
    ramp_seconds: float = 60.0

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def unknown(self, layout: Layout) -> str | None:
        return not_among("CDU", self.entity, layout.cdu_index)

    def is_it(self, cause: str) -> Truth:
        return Truth(cause, "cdu", (self.entity,), (), self.at_seconds, self.end)


@dataclass(frozen=True, kw_only=True)
class FilterClogged(OfLoop):
    """The loop's filter clogs: flow falls to flow_share at steady pumps, which climb their curve."""

    name: ClassVar[str] = "filter_clogged"
    flow_share: float = 0.7

    def bend(self, conditions: Conditions) -> None:
        grown = self.ramp(conditions.seconds, self.ramp_seconds)
        if grown.any():
            cdu = conditions.layout.cdu_index[self.entity]
            conditions.bend("loop_flow_share")[:, cdu] *= 1 - grown * (1 - self.flow_share)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("coolant_flow_restricted")


@dataclass(frozen=True, kw_only=True)
class ExchangerFouled(OfLoop):
    """The heat exchanger fouls: its conductance falls to share, and the coolant stands higher above facility water."""

    name: ClassVar[str] = "exchanger_fouled"
    share: float = 0.6

    def bend(self, conditions: Conditions) -> None:
        grown = self.ramp(conditions.seconds, self.ramp_seconds)
        if grown.any():
            cdu = conditions.layout.cdu_index[self.entity]
            conditions.bend("exchanger_share")[:, cdu] *= 1 - grown * (1 - self.share)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("heat_exchanger_fouled")


@dataclass(frozen=True, kw_only=True)
class CoolantSpoiled(OfLoop):
    """The coolant turns: pH falls by ph_drop and conductivity grows by conductivity_factor."""

    name: ClassVar[str] = "coolant_spoiled"
    ph_drop: float = 1.8
    conductivity_factor: float = 1.3

    def bend(self, conditions: Conditions) -> None:
        grown = self.ramp(conditions.seconds, self.ramp_seconds)
        if grown.any():
            cdu = conditions.layout.cdu_index[self.entity]
            conditions.bend("ph_shift")[:, cdu] -= grown * self.ph_drop
            conditions.bend("conductivity_factor")[:, cdu] *= 1 + grown * (self.conductivity_factor - 1)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("coolant_chemistry")


@dataclass(frozen=True, kw_only=True)
class PowerSag(Timed):
    """The line voltage of a PDU falls to volts_share: supplies ride it through, nothing goes dark."""

    name: ClassVar[str] = "power_sag"
    entity: str
    volts_share: float = 0.85
    lasts_seconds: int | None = 5

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            conditions.bend("volts_share")[active, conditions.layout.pdu_index[self.entity]] *= self.volts_share

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("power_sag", "pdu", (self.entity,), (), self.at_seconds, self.end)

    def unknown(self, layout: Layout) -> str | None:
        return not_among("PDU", self.entity, layout.pdu_index)


@dataclass(frozen=True, kw_only=True)
class BreakerOverload(Timed):
    """Somebody plugs more into a PDU: load_share of what its circuit is rated for, on top of its nodes."""

    name: ClassVar[str] = "breaker_overload"
    entity: str
    load_share: float = 0.6

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            conditions.bend("extra_load_share")[active, conditions.layout.pdu_index[self.entity]] += self.load_share

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("breaker_overloaded", "pdu", (self.entity,), (), self.at_seconds, self.end)

    def unknown(self, layout: Layout) -> str | None:
        return not_among("PDU", self.entity, layout.pdu_index)
