"""A GPU that logs a fatal error, and a node that fails again and again."""

from dataclasses import dataclass
from typing import ClassVar

from replay.conditions import Conditions, DriverEvent
from replay.fault import Throttling, Timed, Truth, gpu_index, no_gpus, not_among
from replay.faults_gpu import OneGpu
from replay.gpu_tables import pci_address
from replay.layout import Layout
from replay.randomness import Integers

GSP_TIMEOUT = 119


@dataclass(frozen=True, kw_only=True)
class FatalXid(OneGpu):
    """The GPU's system processor does not answer (XID 119)."""

    name: ClassVar[str] = "fatal_xid"

    def bend(self, conditions: Conditions) -> None:
        _log(conditions, self.entity, self.at_seconds)

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_fatal_error", self.at_seconds)


@dataclass(frozen=True, kw_only=True)
class LemonNode(Timed):
    """A node that has failed before fails `times` more, every_seconds apart: its GPU in `slot` logs XID 119.

    Days, accelerated. The truth begins with the last failure.
    """

    name: ClassVar[str] = "lemon_node"
    entity: str
    slot: int = 0
    times: int = 2
    every_seconds: int = 360

    def bend(self, conditions: Conditions) -> None:
        for number in range(self.times):
            _log(conditions, f"{self.entity}/{self.slot}", self.at_seconds + number * self.every_seconds)

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        begins = self.at_seconds + (self.times - 1) * self.every_seconds
        return Truth("lemon_node", "node", (self.entity,), (), begins, self.end)

    def unknown(self, layout: Layout) -> str | None:
        if not 0 <= self.slot < layout.slots:
            return f"slot must be 0 to {layout.slots - 1}, not {self.slot}"
        return not_among("node", self.entity, layout.node_index)


def _log(conditions: Conditions, entity: str, second: int) -> None:
    """One line of the driver, when the second is in the block."""
    if second not in conditions.seconds:
        return
    gpu = gpu_index(conditions.layout, entity)
    text = (
        f"NVRM: Xid (PCI:{pci_address(gpu % conditions.layout.slots)}): {GSP_TIMEOUT}, pid=1184, name=nvidia-smi, "
        "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) "
        "(0x20802a02 0x8)."
    )
    conditions.driver_events.append(DriverEvent(second, gpu, "xid", GSP_TIMEOUT, text))
