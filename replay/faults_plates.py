"""Faults of the branch of one GPU's cold plate: the plate itself, and its valve."""

from dataclasses import dataclass
from typing import ClassVar

from replay.conditions import Conditions
from replay.disturbances import NothingWrong
from replay.fault import Throttling, Truth, gpu_index
from replay.faults_gpu import OneGpu
from replay.layout import Layout


@dataclass(frozen=True, kw_only=True)
class ColdPlateClogged(OneGpu):
    """A plate clogs: less flow through it and worse conduction, not so much that its GPU must slow down.

    It grows over ramp_seconds: weeks, accelerated. flow_share 1: the thermal paste pumps out, flow stays.
    """

    name: ClassVar[str] = "cold_plate_clogged"
    flow_share: float = 0.75
    resistance_factor: float = 1.1
    ramp_seconds: float = 120.0

    def bend(self, conditions: Conditions) -> None:
        clog = self.ramp(conditions.seconds, self.ramp_seconds)
        if clog.any():
            gpu = gpu_index(conditions.layout, self.entity)
            conditions.bend("plate_flow_share")[:, gpu] *= 1 - clog * (1 - self.flow_share)
            conditions.bend("plate_resistance_factor")[:, gpu] *= 1 + clog * (self.resistance_factor - 1)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("cold_plate_clogged", self.at_seconds)


@dataclass(frozen=True, kw_only=True)
class ValveStuck(OneGpu):
    """The valve of one branch stands still at opening_share, whatever its GPU draws.

    Where valves are controlled, one that sticks where it stands is seen when the load changes. seen_seconds: when the
    truth begins, after at_seconds.
    """

    name: ClassVar[str] = "valve_stuck"
    opening_share: float = 0.5
    seen_seconds: int = 0

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            gpu = gpu_index(conditions.layout, self.entity)
            conditions.bend("valve_stuck_at")[active, gpu] = self.opening_share

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("valve_stuck", self.at_seconds + self.seen_seconds)


@dataclass(frozen=True, kw_only=True)
class ControlledValves(NothingWrong):
    """The plant has branch valves that follow the power of their GPU."""

    name: ClassVar[str] = "controlled_valves"

    def bend(self, conditions: Conditions) -> None:
        conditions.bend("valve_controlled")[self.active(conditions.seconds)] = True

    def unknown(self, layout: Layout) -> str | None:  # noqa: ARG002  # it has no place
        return None
