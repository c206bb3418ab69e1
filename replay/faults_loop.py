"""Faults of a loop that its pumps and filter have no part in: air in it, and meters that drift."""

from dataclasses import dataclass
from typing import ClassVar

from replay.conditions import Conditions
from replay.fault import Throttling, Truth
from replay.faults_plant import OfLoop
from replay.layout import Layout
from replay.randomness import generator


@dataclass(frozen=True, kw_only=True)
class CoolantAir(OfLoop):
    """Air goes round in the loop: a part of the flow is lost, and what is left trembles by noise_share."""

    name: ClassVar[str] = "coolant_air"
    lost_share: float = 0.05
    noise_share: float = 0.03

    def bend(self, conditions: Conditions) -> None:
        grown = self.ramp(conditions.seconds, self.ramp_seconds)
        if grown.any():
            noise = generator(self.at_seconds, f"air in {self.entity}", int(conditions.seconds[0])).standard_normal(
                len(grown)
            )
            share = 1 - grown * (self.lost_share + self.noise_share * noise)
            cdu = conditions.layout.cdu_index[self.entity]
            conditions.bend("loop_flow_share")[:, cdu] *= share.clip(0.2, 0.999)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("coolant_air")


@dataclass(frozen=True, kw_only=True)
class LoopMeterDrift(OfLoop):
    """Meters of a CDU drift: the flow meter shows flow_factor of the flow, the return sensor return_kelvin too much."""

    name: ClassVar[str] = "loop_meter_drift"
    flow_factor: float = 1.0
    return_kelvin: float = 0.0

    def bend(self, conditions: Conditions) -> None:
        grown = self.ramp(conditions.seconds, self.ramp_seconds)
        if grown.any():
            cdu = conditions.layout.cdu_index[self.entity]
            conditions.bend("flow_meter_factor")[:, cdu] *= 1 + grown * (self.flow_factor - 1)
            conditions.bend("return_sensor_kelvin")[:, cdu] += grown * self.return_kelvin

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        source = f"coolant_loop:{self.entity}"
        return Truth("telemetry_implausible", "source", (source,), (), self.at_seconds, self.end)
