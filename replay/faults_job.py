"""Faults of the training job as a whole, and errors that only its repetition makes a fault."""

from dataclasses import dataclass
from typing import ClassVar

from replay.conditions import Conditions, DriverEvent
from replay.fault import Throttling, Timed, Truth, gpu_index, no_gpus, no_such_gpu
from replay.faults_gpu import OneGpu
from replay.gpu_tables import pci_address
from replay.layout import Layout
from replay.randomness import Integers


@dataclass(frozen=True, kw_only=True)
class OfTheJob(Timed):
    """entity: the GPU of the rank with which it begins. job: the job's name, as in [job]."""

    entity: str
    job: str = "train-1"

    def watched(self, layout: Layout) -> Integers:  # noqa: ARG002  # the protocol's argument
        return no_gpus()

    def unknown(self, layout: Layout) -> str | None:
        return no_such_gpu(layout, self.entity)


@dataclass(frozen=True, kw_only=True)
class JobHang(OfTheJob):
    """One rank never enters a collective. Its process beats on; all others spin in it, busy, and no step ends."""

    name: ClassVar[str] = "job_hang"

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            conditions.bend("rank_stuck")[active, gpu_index(conditions.layout, self.entity)] = True

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        ranks = [gpu for gpu in range(layout.gpus) if layout.in_job[gpu]]
        members = tuple(layout.gpu_name(gpu) for gpu in ranks)
        return Truth("job_hang", "job", (self.job,), members, self.at_seconds, self.end)


@dataclass(frozen=True, kw_only=True)
class CheckpointsFail(OfTheJob):
    """The store refuses one shard: the job trains on, and its newest checkpoint grows old."""

    name: ClassVar[str] = "checkpoints_fail"

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            conditions.bend("saves_fail")[active, gpu_index(conditions.layout, self.entity)] = True

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return Truth("checkpoint_stale", "job", (self.job,), (), self.at_seconds, self.end)


@dataclass(frozen=True, kw_only=True)
class RepeatedXid(OneGpu):
    """The same error of the application again and again, on one GPU only: its hardware is at fault after all.

    The truth begins with the second time.
    """

    name: ClassVar[str] = "repeated_xid"
    every_seconds: int = 120
    times: int = 2

    def bend(self, conditions: Conditions) -> None:
        gpu = gpu_index(conditions.layout, self.entity)
        pci = pci_address(gpu % conditions.layout.slots)
        text = (
            f"NVRM: Xid (PCI:{pci}): 31, pid=775230, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE "
            "GRAPHICS GPCCLIENT_T1_8 faulted @ 0x73ac_1c000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"
        )
        for number in range(self.times):
            second = self.at_seconds + number * self.every_seconds
            if second in conditions.seconds:
                conditions.driver_events.append(DriverEvent(second, gpu, "xid", 31, text))

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_fatal_error", self.at_seconds + self.every_seconds)
