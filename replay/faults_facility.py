"""Faults of cooling and power."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.conditions import PUMPS_PER_CDU, Conditions
from replay.fault import Throttling, Timed, Truth, no_gpus, not_among
from replay.layout import Layout
from replay.randomness import Integers


@dataclass(frozen=True, kw_only=True)
class PumpFailure(Timed):
    """Pumps of a CDU stop: by the affinity laws one of two leaves 60 % of the flow, none leaves next to nothing."""

    name: ClassVar[str] = "pump_failure"
    entity: str
    pumps_stopped: int = 1

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            cdu = conditions.layout.cdu_index[self.entity]
            conditions.bend("pump_target")[active, cdu, : self.pumps_stopped] = 0.0

    def watched(self, layout: Layout) -> Integers:
        return np.flatnonzero(layout.gpu_cdu == layout.cdu_index[self.entity])

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:
        members = layout.gpu_names(throttling.members())
        return Truth("coolant_pump_failure", "cdu", (self.entity,), tuple(members), self.at_seconds, self.end)

    def unknown(self, layout: Layout) -> str | None:
        if not 1 <= self.pumps_stopped <= PUMPS_PER_CDU:
            return f"pumps_stopped must be 1 to {PUMPS_PER_CDU}, not {self.pumps_stopped}"
        return not_among("CDU", self.entity, layout.cdu_index)


@dataclass(frozen=True, kw_only=True)
class CoolantLeak(Timed):
    """The loop loses coolant: level and static pressure fall while temperatures stay; the leak rope warns, then cries.

    warning_seconds, critical_seconds: after at_seconds.
    """

    name: ClassVar[str] = "coolant_leak"
    entity: str
    percent_per_minute: float = 2.0
    warning_seconds: int = 20
    critical_seconds: int = 90

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if not active.any():
            return
        cdu = conditions.layout.cdu_index[self.entity]
        since = np.where(active, conditions.seconds - self.at_seconds, 0.0)
        conditions.bend("level_lost_percent")[:, cdu] += np.minimum(since * self.percent_per_minute / 60, 75.0)
        severity = (active & (since >= self.warning_seconds)).astype(np.int64) + (since >= self.critical_seconds)
        conditions.bend("leak_severity")[:, cdu] = np.where(active, severity, 0)

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("coolant_leak", "cdu", (self.entity,), (), self.at_seconds, self.end)

    def unknown(self, layout: Layout) -> str | None:
        return not_among("CDU", self.entity, layout.cdu_index)


@dataclass(frozen=True, kw_only=True)
class PduCascade(Timed):
    """PDUs trip, one after the other stagger_seconds apart (0: at once), and take their nodes with them.

    meter: last_gasp = each meter sends one sample of 0 V with its breaker tripped, then nothing; silent = nothing.
    A node with a second feed that lives goes on.
    """

    name: ClassVar[str] = "pdu_cascade"
    roots: tuple[str, ...]
    stagger_seconds: int = 0
    meter: str = "last_gasp"

    def bend(self, conditions: Conditions) -> None:
        seconds = conditions.seconds
        for number, pdu in enumerate(self.roots):
            trips = self.at_seconds + number * self.stagger_seconds
            tripped = self.active(seconds) & (seconds >= trips)
            if tripped.any():
                index = conditions.layout.pdu_index[pdu]
                conditions.bend("feed_on")[tripped, index] = False
                gasps = self.meter == "last_gasp"
                conditions.bend("meter_on")[tripped & (seconds > trips if gasps else tripped), index] = False

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        dead = [layout.pdu_index[pdu] for pdu in self.roots]
        dark = np.isin(layout.node_feeds, dead).all(axis=1)
        members = layout.gpu_names(layout.gpus_of_nodes(np.flatnonzero(dark)))
        return Truth("power_domain_lost", "pdu", self.roots, tuple(members), self.at_seconds, self.end)

    def unknown(self, layout: Layout) -> str | None:
        if self.meter not in {"last_gasp", "silent"}:
            return f"meter must be last_gasp or silent, not {self.meter!r}"
        problems = (not_among("PDU", pdu, layout.pdu_index) for pdu in self.roots)
        return next((problem for problem in problems if problem), None)
