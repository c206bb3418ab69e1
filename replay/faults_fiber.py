"""Faults of fibres, as the next OTDR shot shows them. Each is named by its cable."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.conditions import Conditions, FiberChange, OpticShift
from replay.fault import Throttling, Truth
from replay.faults_fabric import OneCable
from replay.layout import Layout


@dataclass(frozen=True, kw_only=True)
class OneFiber(OneCable):
    """The truth begins with shot_seconds, the first OTDR shot that can show it, which must be given when it is not the
    fault's own second. OTDR measures the cables of these faults besides the longest ones.
    """

    shot_seconds: int | None = None

    @property
    def shown_at(self) -> int:
        return self.at_seconds if self.shot_seconds is None else self.shot_seconds

    @property
    def until(self) -> float:
        return float("inf") if self.end is None else float(self.end)

    def note(self, conditions: Conditions, change: FiberChange) -> bool:
        """What the fibre is from now on; False while nothing has happened yet."""
        active = bool(self.active(conditions.seconds).any())
        if active:
            conditions.fiber_changes[conditions.layout.fabric.link_index[self.entity]] = change
        return active


@dataclass(frozen=True, kw_only=True)
class FiberBend(OneFiber):
    """A cable is bent too tightly: light is lost there, for every lane both ways, and nothing is reflected.

    loss_db: at 1310 nm, where the link works; longer wavelengths lose more (replay.fiber_tables). place_share: where
    along the cable; None: inside its panel, where the connector hides it.
    """

    name: ClassVar[str] = "fiber_bend"
    loss_db: float = 1.2
    place_share: float | None = None

    def bend(self, conditions: Conditions) -> None:
        bent = FiberChange(self.at_seconds, self.until, bend_db=self.loss_db, bend_share=self.place_share)
        if not self.note(conditions, bent):
            return
        lost = self.loss_db * self.active(conditions.seconds).astype(np.float64)
        none = np.zeros_like(lost)
        for end in self.ends(conditions.layout, "a"):
            conditions.optic_shifts.append(OpticShift(end, None, lost, none, none + 1))

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("fiber_loss", "cable", (self.entity,), (), self.shown_at, self.end)


@dataclass(frozen=True, kw_only=True)
class FiberDirt(OneFiber):
    """Dirt on the end face in the panel: it scatters light back, and as yet the link loses little."""

    name: ClassVar[str] = "fiber_dirt"
    reflectance_db: float = 20.0
    loss_db: float = 0.05

    def bend(self, conditions: Conditions) -> None:
        dirt = FiberChange(
            self.at_seconds, self.until, panel_loss_db=self.loss_db, panel_reflectance_db=self.reflectance_db
        )
        self.note(conditions, dirt)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("fiber_reflectance", "cable", (self.entity,), (), self.shown_at, self.end)


@dataclass(frozen=True, kw_only=True)
class FiberBreak(OneFiber):
    """The cable is cut at place_share of its length: the link is dead, and the fibre ends there."""

    name: ClassVar[str] = "fiber_break"
    place_share: float = 0.25

    def bend(self, conditions: Conditions) -> None:
        if self.note(conditions, FiberChange(self.at_seconds, self.until, cut_share=self.place_share)):
            link = conditions.layout.fabric.link_index[self.entity]
            conditions.bend("link_on")[self.active(conditions.seconds), link] = False

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("fiber_loss", "cable", (self.entity,), (), self.shown_at, self.end)
