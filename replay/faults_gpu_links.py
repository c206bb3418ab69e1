"""Faults of what connects a GPU: NVLink to its neighbours, PCIe to its host, and the power of its board."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from replay.conditions import Conditions, DriverEvent
from replay.fault import Throttling, Truth, gpu_index
from replay.faults_gpu import OneGpu
from replay.gpu_tables import pci_address
from replay.layout import Layout


@dataclass(frozen=True, kw_only=True)
class NvlinkErrors(OneGpu):
    """A lane of an NVLink is noisy: CRC errors, replays of what they hit, and now and then the link trains anew."""

    name: ClassVar[str] = "nvlink_errors"
    crc_per_second: float = 5.0
    replay_per_second: float = 1.0
    recovery_per_second: float = 0.02
    ramp_seconds: float = 0.0

    def bend(self, conditions: Conditions) -> None:
        grown = self.ramp(conditions.seconds, self.ramp_seconds)
        if grown.any():
            gpu = gpu_index(conditions.layout, self.entity)
            conditions.bend("nvlink_crc_per_second")[:, gpu] += self.crc_per_second * grown
            conditions.bend("nvlink_replay_per_second")[:, gpu] += self.replay_per_second * grown
            conditions.bend("nvlink_recovery_per_second")[:, gpu] += self.recovery_per_second * grown

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_nvlink", self.at_seconds)


@dataclass(frozen=True, kw_only=True)
class PcieDowntrain(OneGpu):
    """A PCIe link trains to fewer lanes or a lower generation, and replays what its bad lane spoils."""

    name: ClassVar[str] = "pcie_downtrain"
    width: int = 8
    generation: int = 5
    replay_per_second: float = 0.0

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            gpu = gpu_index(conditions.layout, self.entity)
            conditions.bend("pcie_width")[active, gpu] = self.width
            conditions.bend("pcie_generation")[active, gpu] = self.generation
            conditions.bend("pcie_replay_per_second")[active, gpu] += self.replay_per_second

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_pcie", self.at_seconds)


@dataclass(frozen=True, kw_only=True)
class ClockLoss(OneGpu):
    """A GPU runs below its peers' clock and gives no reason, as after a firmware fault or a forgotten clock lock."""

    name: ClassVar[str] = "clock_loss"
    clock_share: float = 0.8

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            gpu = gpu_index(conditions.layout, self.entity)
            conditions.bend("clock_limit_share")[active, gpu] *= self.clock_share

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_straggler", self.at_seconds)


@dataclass(frozen=True, kw_only=True)
class PowerBrake(OneGpu):
    """A power supply pulls the board's power-brake line: bits 0x80 and 0x8, and a fraction of the clock."""

    name: ClassVar[str] = "power_brake"
    clock_share: float = 0.5

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            gpu = gpu_index(conditions.layout, self.entity)
            conditions.bend("power_braked")[active, gpu] = True
            conditions.bend("clock_limit_share")[active, gpu] *= self.clock_share

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_power_brake", self.at_seconds)


@dataclass(frozen=True, kw_only=True)
class UncorrectableEcc(OneGpu):
    """A word of HBM cannot be corrected; newer drivers contain it and log nothing that all agree to be fatal.

    logged: an older driver's XID 48.
    """

    name: ClassVar[str] = "uncorrectable_ecc"
    errors: int = 1
    logged: bool = False

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            gpu = gpu_index(conditions.layout, self.entity)
            conditions.bend("ecc_uncorrectable")[:, gpu] += self.errors * active.astype(np.int64)
            if self.logged and self.at_seconds in conditions.seconds:
                pci = pci_address(gpu % conditions.layout.slots)
                text = f"NVRM: Xid (PCI:{pci}): 48, pid='<unknown>', name=<unknown>, DBE (double bit error)"
                conditions.driver_events.append(DriverEvent(self.at_seconds, gpu, "xid", 48, text))

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_memory", self.at_seconds)
