"""Faults of a box beside its GPUs."""

from dataclasses import dataclass
from typing import ClassVar

from replay.conditions import Conditions
from replay.fault import Throttling, Timed, Truth, no_gpus, not_among
from replay.layout import Layout
from replay.randomness import Integers


@dataclass(frozen=True, kw_only=True)
class SupplyFailed(Timed):
    """One of a node's two power supplies gives out; the other carries the load, and the node goes on."""

    name: ClassVar[str] = "supply_failed"
    entity: str
    supply: int = 1

    def bend(self, conditions: Conditions) -> None:
        broken = self.active(conditions.seconds)
        if broken.any():
            conditions.bend("supply_broken")[broken, conditions.layout.node_index[self.entity]] = self.supply

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("hardware_degraded", "node", (self.entity,), (), self.at_seconds, self.end)

    def unknown(self, layout: Layout) -> str | None:
        if self.supply not in {1, 2}:
            return f"supply must be 1 or 2, not {self.supply!r}"
        return not_among("node", self.entity, layout.node_index)
