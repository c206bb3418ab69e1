"""Faults of GPUs, hosts and their exporters."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.conditions import Conditions, DriverEvent
from replay.fault import Throttling, Timed, Truth, gpu_index, no_gpus, no_such_gpu, not_among
from replay.gpu_tables import pci_address
from replay.layout import Layout
from replay.randomness import Integers


@dataclass(frozen=True, kw_only=True)
class OneGpu(Timed):
    """A fault whose root and only member is one GPU."""

    entity: str

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def unknown(self, layout: Layout) -> str | None:
        return no_such_gpu(layout, self.entity)

    def is_it(self, cause: str, starts: float) -> Truth:
        return Truth(cause, "gpu", (self.entity,), (self.entity,), starts, self.end)


@dataclass(frozen=True, kw_only=True)
class GpuFallenOffBus(OneGpu):
    """XID 79: the GPU stops answering. Its rows and its rank's beats end; the host and the other GPUs live on."""

    name: ClassVar[str] = "gpu_fallen_off_bus"

    def bend(self, conditions: Conditions) -> None:
        gpu = gpu_index(conditions.layout, self.entity)
        active = self.active(conditions.seconds)
        if not active.any():
            return
        conditions.bend("gpu_on")[active, gpu] = False
        if self.at_seconds in conditions.seconds:
            pci = pci_address(gpu % conditions.layout.slots)
            text = f"NVRM: Xid (PCI:{pci}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
            conditions.driver_events.append(DriverEvent(self.at_seconds, gpu, "xid", 79, text))
            text = f"NVRM: GPU {pci}.0: GPU has fallen off the bus."
            conditions.driver_events.append(DriverEvent(self.at_seconds, gpu, "fallen_off_bus", None, text))

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_fallen_off_bus", self.at_seconds)


@dataclass(frozen=True, kw_only=True)
class MemoryDecay(OneGpu):
    """HBM wears out: corrected errors grow, rows are remapped (XID 63), then one cannot be (XID 64).

    corrected_per_second: reached after ramp_seconds. first_remap_seconds, remap_failure_seconds: after at_seconds.
    The truth begins with the first remap: until then the GPU corrects what happens.
    """

    name: ClassVar[str] = "memory_decay"
    corrected_per_second: float = 3.0
    ramp_seconds: float = 60.0
    first_remap_seconds: int = 60
    remap_failure_seconds: int = 100

    def bend(self, conditions: Conditions) -> None:
        seconds = conditions.seconds
        if not self.active(seconds).any():
            return
        gpu = gpu_index(conditions.layout, self.entity)
        growth = self.corrected_per_second * self.ramp(seconds, self.ramp_seconds)
        conditions.bend("ecc_correctable_per_second")[:, gpu] += growth
        pci = pci_address(gpu % conditions.layout.slots)
        pending = self.active(seconds) & (seconds >= self.at_seconds + self.first_remap_seconds)
        failed = self.active(seconds) & (seconds >= self.at_seconds + self.remap_failure_seconds)
        for quantity in ("ecc_uncorrectable", "rows_remapped_uncorrectable"):
            conditions.bend(quantity)[:, gpu] += pending.astype(np.int64)
        conditions.bend("ecc_uncorrectable")[:, gpu] += failed.astype(np.int64)
        conditions.bend("row_remap_pending")[:, gpu] |= pending
        conditions.bend("row_remap_failure")[:, gpu] |= failed
        told = (
            (self.first_remap_seconds, 63, "Row Remapper: New row (0x4d1a7f) marked for remapping."),
            (self.remap_failure_seconds, 64, "Row Remapper: Failed to remap row (0x4d1a80)."),
        )  # fmt: skip
        for after, code, text in told:
            if self.at_seconds + after in seconds:
                message = f"NVRM: Xid (PCI:{pci}): {code}, pid='<unknown>', name=<unknown>, {text}"
                conditions.driver_events.append(DriverEvent(self.at_seconds + after, gpu, "xid", code, message))

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_memory", self.at_seconds + self.first_remap_seconds)


@dataclass(frozen=True, kw_only=True)
class ThermalThrottle(OneGpu):
    """A cold plate clogs: its flow falls to flow_share and conduction worsens until the GPU must slow down.

    The truth begins with the first second the GPU is slowed; raises ValueError when it never is.
    """

    name: ClassVar[str] = "thermal_throttle"
    flow_share: float = 0.25
    resistance_factor: float = 1.1
    ramp_seconds: float = 20.0

    def bend(self, conditions: Conditions) -> None:
        clog = self.ramp(conditions.seconds, self.ramp_seconds)
        if clog.any():
            gpu = gpu_index(conditions.layout, self.entity)
            conditions.bend("plate_flow_share")[:, gpu] *= 1 - clog * (1 - self.flow_share)
            conditions.bend("plate_resistance_factor")[:, gpu] *= 1 + clog * (self.resistance_factor - 1)

    def watched(self, layout: Layout) -> Integers:
        return np.array([gpu_index(layout, self.entity)])

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:
        first = float(throttling.first[gpu_index(layout, self.entity)])
        if np.isnan(first):
            raise ValueError(f"fault {self.name} of {self.entity} never throttles it: lower flow_share or last longer")
        return self.is_it("gpu_thermal_throttle", first)


@dataclass(frozen=True, kw_only=True)
class Straggler(OneGpu):
    """One rank computes slowly for no reason that its own telemetry shows; the whole job waits for it."""

    name: ClassVar[str] = "straggler"
    slowdown: float = 1.3
    ramp_seconds: float = 0.0

    def bend(self, conditions: Conditions) -> None:
        slow = self.ramp(conditions.seconds, self.ramp_seconds)
        if slow.any():
            gpu = gpu_index(conditions.layout, self.entity)
            conditions.bend("compute_factor")[:, gpu] *= 1 + slow * (self.slowdown - 1)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_straggler", self.at_seconds)


@dataclass(frozen=True, kw_only=True)
class NodeLost(Timed):
    """A host dies: every table that it sends falls silent, and the far ends of its links go down."""

    name: ClassVar[str] = "node_lost"
    entity: str

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            conditions.bend("node_on")[active, conditions.layout.node_index[self.entity]] = False

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        members = layout.gpu_names(layout.gpus_of_nodes([layout.node_index[self.entity]]))
        return Truth("node_lost", "node", (self.entity,), tuple(members), self.at_seconds, self.end)

    def unknown(self, layout: Layout) -> str | None:
        return not_among("node", self.entity, layout.node_index)


@dataclass(frozen=True, kw_only=True)
class TelemetryStall(Timed):
    """The exporter of one table of one node says nothing; all else, heartbeats included, goes on."""

    name: ClassVar[str] = "telemetry_stall"
    entity: str
    table: str = "gpu"

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            conditions.silence(self.table)[active, conditions.layout.node_index[self.entity]] = True

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("telemetry_stale", "source", (f"{self.table}:{self.entity}",), (), self.at_seconds, self.end)

    def unknown(self, layout: Layout) -> str | None:
        if self.table not in {"gpu", "cold_plate", "heartbeat"}:
            return f"table {self.table!r} is not sent by nodes: choose gpu, cold_plate or heartbeat"
        return not_among("node", self.entity, layout.node_index)
