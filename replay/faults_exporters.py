"""Faults of telemetry itself: exporters that repeat themselves, speak nonsense, or have run out of digits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from replay.conditions import Conditions, Lie
from replay.exporters import counters_of
from replay.fault import Throttling, Timed, Truth, no_gpus, not_among
from replay.layout import Layout
from replay.randomness import Integers
from schemas.fabric import CLASSIC_COUNTER_BITS
from schemas.tables import TABLE_BY_NAME

# Values seen in the wild, far outside of what the table allows (dcgm-exporter issues 312 and 418).
NONSENSE = {
    "gpu": {"temperature_celsius": 644_245_923.0},
    "cold_plate": {"flow_liters_per_minute": 4_294_967_295.0},
    "coolant_loop": {"supply_celsius": 3276.7},
    "coolant_pump": {"speed_rpm": 65_535.0},
    "power": {"volts": 65_535.0},
}
HOST_TABLES = ("gpu", "cold_plate", "heartbeat", "gpu_event")
COUNTING = {name: counters_of(TABLE_BY_NAME[name]) for name in ("gpu", "fabric_port")}


@dataclass(frozen=True, kw_only=True)
class OneSource(Timed):
    """A fault whose root is one source: what `entity` (a node, device, CDU or PDU) sends of `table`."""

    entity: str
    table: str = "gpu"

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def unknown(self, layout: Layout) -> str | None:
        places = {
            "node": layout.node_index, "cdu": layout.cdu_index, "pdu": layout.pdu_index,
            "device": dict.fromkeys(layout.fabric.end_device, 0),
        }  # fmt: skip
        table = TABLE_BY_NAME.get(self.table)
        if table is None or table.source not in places or table.interval_seconds is None:
            return f"table {self.table!r} is not sampled"
        return not_among(table.source, self.entity, places[table.source])

    def is_it(self, cause: str) -> Truth:
        return Truth(cause, "source", (f"{self.table}:{self.entity}",), (), self.at_seconds, self.end)

    def lie(self, conditions: Conditions, readings: Mapping[str, float | str], **how: Any) -> None:
        """how: the other fields of Lie, of different types."""
        lie = Lie(table=self.table, source=self.entity, begins=self.at_seconds, ends=self.end, readings=readings, **how)
        conditions.lies.append(lie)


@dataclass(frozen=True, kw_only=True)
class TelemetryFrozen(OneSource):
    """An exporter serves its cache: rows come in time, their values stand still."""

    name: ClassVar[str] = "telemetry_frozen"

    def bend(self, conditions: Conditions) -> None:
        self.lie(conditions, {})

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("telemetry_frozen")


@dataclass(frozen=True, kw_only=True)
class ImplausibleReadings(OneSource):
    """One of `every` rows carries a number that no hardware can show; the door refuses it."""

    name: ClassVar[str] = "implausible_readings"
    every: int = 8

    def bend(self, conditions: Conditions) -> None:
        self.lie(conditions, NONSENSE[self.table], every=self.every)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("telemetry_implausible")

    def unknown(self, layout: Layout) -> str | None:
        if self.table not in NONSENSE:
            return f"nothing implausible is known of table {self.table!r}: choose from {', '.join(NONSENSE)}"
        return OneSource.unknown(self, layout)


@dataclass(frozen=True, kw_only=True)
class SaturatedCounter(OneSource):
    """A classic counter of every port of a device has reached its top and stands there."""

    name: ClassVar[str] = "saturated_counter"
    table: str = "fabric_port"
    counter: str = "transmit_wait_total"

    def bend(self, conditions: Conditions) -> None:
        top = 2 ** CLASSIC_COUNTER_BITS[self.counter] - 1
        self.lie(conditions, {self.counter: top, "counter_width": "classic"})

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("counter_saturated")

    def unknown(self, layout: Layout) -> str | None:
        if self.counter not in CLASSIC_COUNTER_BITS:
            return f"counter {self.counter!r} is not a classic one: choose from {', '.join(CLASSIC_COUNTER_BITS)}"
        return OneSource.unknown(self, layout)


@dataclass(frozen=True, kw_only=True)
class SourceRestarts(OneSource):
    """The source restarts again and again: each time a short silence, then all its counters count from zero."""

    name: ClassVar[str] = "source_restarts"
    every_seconds: int = 100
    gap_seconds: int = 5

    def bend(self, conditions: Conditions) -> None:
        self.lie(conditions, {}, restarts_seconds=self.every_seconds, gap_seconds=self.gap_seconds)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("source_restarted")

    def unknown(self, layout: Layout) -> str | None:
        if self.table not in COUNTING:
            return f"table {self.table!r} has no counters: choose from {', '.join(COUNTING)}"
        if not 0 <= self.gap_seconds < self.every_seconds:
            return "gap_seconds must be below every_seconds"
        return OneSource.unknown(self, layout)


@dataclass(frozen=True, kw_only=True)
class CounterStuck(OneSource):
    """One counter of every entity of the source stands still while everything else of it goes on."""

    name: ClassVar[str] = "counter_stuck"
    counter: str = "energy_joules_total"

    def bend(self, conditions: Conditions) -> None:
        self.lie(conditions, {}, stuck=self.counter)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("counter_stuck")

    def unknown(self, layout: Layout) -> str | None:
        if self.table not in COUNTING or self.counter not in COUNTING[self.table]:
            return f"table {self.table!r} has no counter {self.counter!r}"
        return OneSource.unknown(self, layout)


@dataclass(frozen=True, kw_only=True)
class ClockOff(Timed):
    """The clock of a host is ahead by some seconds, or behind where that is below zero: all that it sends says so."""

    name: ClassVar[str] = "clock_off"
    entity: str
    ahead_seconds: float = -30.0

    def bend(self, conditions: Conditions) -> None:
        for table in HOST_TABLES:
            conditions.lies.append(
                Lie(table=table, source=self.entity, begins=self.at_seconds, ends=self.end, readings={},
                    clock_seconds=self.ahead_seconds)
            )  # fmt: skip

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        roots = tuple(f"{table}:{self.entity}" for table in ("gpu", "heartbeat"))
        return Truth("clock_skew", "source", roots, (), self.at_seconds, self.end)

    def unknown(self, layout: Layout) -> str | None:
        return not_among("node", self.entity, layout.node_index)
