"""What happens on healthy days and must not be taken for a fault: drains, restarts, lost samples, warm water, caps.

They are written as [[fault]] in a scenario and have no label.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.conditions import Conditions, PlannedTime
from replay.fault import Throttling, Timed, no_gpus, not_among
from replay.layout import Layout
from replay.randomness import Integers, generator

SAMPLED_BY_NODES = ("gpu", "cold_plate", "heartbeat")


@dataclass(frozen=True, kw_only=True)
class NothingWrong(Timed):
    """A disturbance has no label and throttles nobody."""

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> None:  # noqa: ARG002  # the protocol's arguments
        return None


@dataclass(frozen=True, kw_only=True)
class PlannedDrain(NothingWrong):
    """A host is taken out as announced: the job restarts without it grace_seconds into the maintenance window."""

    name: ClassVar[str] = "planned_drain"
    entity: str
    announced_seconds_before: int = 60
    grace_seconds: int = 5
    reason: str = "firmware update"

    def bend(self, conditions: Conditions) -> None:
        off = self.active(conditions.seconds) & (conditions.seconds >= self.at_seconds + self.grace_seconds)
        if off.any():
            conditions.bend("node_on")[off, conditions.layout.node_index[self.entity]] = False
        conditions.planned.append(
            PlannedTime(
                announced=self.at_seconds - self.announced_seconds_before,
                starts=self.at_seconds,
                ends=self.at_seconds + (3600 if self.lasts_seconds is None else self.lasts_seconds),
                node=self.entity,
                reason=self.reason,
                restarts=self.at_seconds + self.grace_seconds,
            )
        )

    def unknown(self, layout: Layout) -> str | None:
        return not_among("node", self.entity, layout.node_index)


@dataclass(frozen=True, kw_only=True)
class ExporterRestart(NothingWrong):
    """The exporter of one table of one host is restarted: a gap of lasts_seconds, too short to be called stale."""

    name: ClassVar[str] = "exporter_restart"
    entity: str
    table: str = "gpu"
    lasts_seconds: int | None = 20

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            conditions.silence(self.table)[active, conditions.layout.node_index[self.entity]] = True

    def unknown(self, layout: Layout) -> str | None:
        if self.lasts_seconds is None or self.lasts_seconds >= 60:
            return "lasts_seconds must be below 60: a longer silence is a fault, telemetry_stall"
        return _not_sampled(self.table) or not_among("node", self.entity, layout.node_index)


@dataclass(frozen=True, kw_only=True)
class LostSamples(NothingWrong):
    """Each sample of a table is lost with some probability, host by host and independently."""

    name: ClassVar[str] = "lost_samples"
    table: str = "heartbeat"
    probability: float = 1e-4

    def bend(self, conditions: Conditions) -> None:
        shape = (len(conditions.seconds), len(conditions.layout.nodes))
        drawn = generator(self.at_seconds, f"lost {self.table}", int(conditions.seconds[0])).random(shape)
        lost = (drawn < self.probability) & self.active(conditions.seconds)[:, None]
        if lost.any():
            conditions.silence(self.table)[lost] = True

    def unknown(self, layout: Layout) -> str | None:  # noqa: ARG002  # it has no place
        return _not_sampled(self.table)


@dataclass(frozen=True, kw_only=True)
class FacilityStep(NothingWrong):
    """Facility water gets warmer, for one CDU or, without entity, for all: everything behind it follows."""

    name: ClassVar[str] = "facility_step"
    entity: str | None = None
    rise_kelvin: float = 3.0
    ramp_seconds: float = 60.0

    def bend(self, conditions: Conditions) -> None:
        rise = self.rise_kelvin * self.ramp(conditions.seconds, self.ramp_seconds)
        if rise.any():
            loops = slice(None) if self.entity is None else conditions.layout.cdu_index[self.entity]
            bent = conditions.bend("facility_rise_kelvin")
            bent[:, loops] += rise[:, None] if self.entity is None else rise

    def unknown(self, layout: Layout) -> str | None:
        return None if self.entity is None else not_among("CDU", self.entity, layout.cdu_index)


@dataclass(frozen=True, kw_only=True)
class PowerCap(NothingWrong):
    """An operator lowers the power limit of every GPU: clocks, power and temperature fall, steps get longer."""

    name: ClassVar[str] = "power_cap"
    limit_watts: float = 600.0

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            bent = conditions.bend("board_limit_watts")
            bent[active] = np.minimum(bent[active], self.limit_watts)

    def unknown(self, layout: Layout) -> str | None:  # noqa: ARG002  # it has no place
        return None if 200 <= self.limit_watts <= 700 else f"limit_watts must be 200 to 700, not {self.limit_watts}"


def _not_sampled(table: str) -> str | None:
    if table in SAMPLED_BY_NODES:
        return None
    return f"table {table!r} is not sampled by nodes: choose from {', '.join(SAMPLED_BY_NODES)}"
