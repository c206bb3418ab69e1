"""Faults of the training job as a whole, and errors that only its repetition makes a fault."""

from dataclasses import dataclass
from typing import ClassVar

from replay.conditions import Conditions, DriverEvent
from replay.fault import Throttling, Timed, Truth, gpu_index, no_gpus, no_such_gpu
from replay.faults_gpu import OneGpu
from replay.gpu_tables import pci_address
from replay.layout import Layout
from replay.randomness import Integers

REMOVED = 45  # "preemptive removal": what a process leaves behind is taken away
FIRST_PROCESS = 775230


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
        members = tuple(layout.gpu_name(gpu) for gpu in _ranks(layout))
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
class JobCrash(OfTheJob):
    """The program of one rank aborts, and the launcher ends all others: every GPU of the job logs XID 45.

    The driver removes what each process has left, `channels` times, the first a second after the crash and the last
    teardown_seconds later. page_fault: the first rank read where nothing is, XID 31. The scheduler tells the end, and
    after lasts_seconds (never without) the start from the newest checkpoint. Nothing is broken, so it has no label.
    """

    name: ClassVar[str] = "job_crash"
    channels: int = 7
    teardown_seconds: int = 3
    page_fault: bool = True

    def bend(self, conditions: Conditions) -> None:
        active = self.active(conditions.seconds)
        if active.any():
            conditions.bend("job_down")[active] = True
        layout = conditions.layout
        first = gpu_index(layout, self.entity)
        if self.page_fault and self.at_seconds in conditions.seconds:
            text = _page_fault(pci_address(first % layout.slots))
            conditions.driver_events.append(DriverEvent(self.at_seconds, first, "xid", 31, text))
        for channel in range(1, self.channels + 1):
            second = self.at_seconds + 1 + (channel - 1) * self.teardown_seconds // self.channels
            if second in conditions.seconds:
                conditions.driver_events += [self._removed(layout, gpu, channel, second) for gpu in _ranks(layout)]

    def truth(self, layout: Layout, throttling: Throttling) -> None:  # noqa: ARG002  # the protocol's arguments
        return None

    def _removed(self, layout: Layout, gpu: int, channel: int, second: int) -> DriverEvent:
        pci, process = pci_address(gpu % layout.slots), FIRST_PROCESS + self.at_seconds * layout.slots + gpu
        text = f"NVRM: Xid (PCI:{pci}): {REMOVED}, pid={process}, name=python3, Ch {channel:08x}"
        return DriverEvent(second, gpu, "xid", REMOVED, text)


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
        text = _page_fault(pci)
        for number in range(self.times):
            second = self.at_seconds + number * self.every_seconds
            if second in conditions.seconds:
                conditions.driver_events.append(DriverEvent(second, gpu, "xid", 31, text))

    def truth(self, layout: Layout, throttling: Throttling) -> Truth:  # noqa: ARG002  # known without the physics
        return self.is_it("gpu_fatal_error", self.at_seconds + self.every_seconds)


def _ranks(layout: Layout) -> list[int]:
    return [gpu for gpu in range(layout.gpus) if layout.in_job[gpu]]


def _page_fault(pci: str) -> str:
    return (
        f"NVRM: Xid (PCI:{pci}): 31, pid={FIRST_PROCESS}, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE "
        "GRAPHICS GPCCLIENT_T1_8 faulted @ 0x73ac_1c000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"
    )
