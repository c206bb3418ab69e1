"""A whole switch that is gone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.conditions import Conditions
from replay.fault import Throttling, Timed, Truth, no_gpus, not_among
from replay.layout import Layout
from replay.randomness import Integers


@dataclass(frozen=True, kw_only=True)
class SwitchLost(Timed):
    """A switch dies: all its links go down at once and it says nothing any more.

    silent: false for one whose ports are all down while its management lives on.
    """

    name: ClassVar[str] = "switch_lost"
    entity: str
    silent: bool = True

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if not active.any():
            return
        fabric = conditions.layout.fabric
        own = np.array([device == self.entity for device in fabric.end_device])
        conditions.bend("link_on")[np.ix_(active, np.unique(fabric.end_link[own]))] = False
        if self.silent:
            conditions.bend("end_silent")[np.ix_(active, own)] = True

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("switch_lost", "switch", (self.entity,), (), self.at_seconds, self.end)

    def unknown(self, layout: Layout) -> str | None:
        switches = (name for name in layout.fabric.end_device if "/" not in name)
        return not_among("switch", self.entity, dict.fromkeys(switches, 0))
