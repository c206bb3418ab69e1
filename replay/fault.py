"""What a fault is: a small record that bends the conditions of each block it reaches, and says what the truth is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from replay.conditions import Conditions
from replay.layout import Layout
from replay.randomness import Flags, Floats, Integers


@dataclass(frozen=True)
class Truth:
    """One label before its times are made absolute: seconds of the scenario, None = to the end of the recording."""

    cause: str
    root_kind: str
    roots: tuple[str, ...]
    members: tuple[str, ...]
    starts: float
    ends: float | None


@dataclass(frozen=True, eq=False)
class Throttling:
    """What the physics did, by GPU: first and last second with a throttled clock or a thermal shutdown; NaN = never.

    Counted only from the second `since` on and among the `watched` GPUs of one fault.
    """

    first: Floats
    last: Floats

    def members(self) -> Integers:
        return np.flatnonzero(~np.isnan(self.first))


class Fault(Protocol):
    """A frozen dataclass whose fields are the [[fault]] keys of a scenario and its parameters, units last."""

    name: ClassVar[str]

    @property
    def at_seconds(self) -> int: ...

    @property
    def lasts_seconds(self) -> int | None: ...

    def bend(self, conditions: Conditions) -> None:
        """Change the conditions of one block. Its place is known: `unknown` has been asked before."""

    def watched(self, layout: Layout) -> Integers:
        """GPUs whose throttling this fault causes; empty for one that throttles none."""

    def truth(self, layout: Layout, throttling: Throttling) -> Truth | None:
        """The label; None for what is odd but not wrong."""

    def unknown(self, layout: Layout) -> str | None:
        """What is wrong with where it strikes, in a few words; None when the topology has that place."""


@dataclass(frozen=True, kw_only=True)
class Timed:
    """When a fault strikes and how long it lasts (None: to the end)."""

    at_seconds: int
    lasts_seconds: int | None = None

    @property
    def end(self) -> float | None:
        return None if self.lasts_seconds is None else float(self.at_seconds + self.lasts_seconds)

    def active(self, seconds: Floats) -> Flags:
        """(t,) where the fault is on."""
        on: Flags = seconds >= self.at_seconds
        return on if self.end is None else on & (seconds < self.end)

    def ramp(self, seconds: Floats, ramp_seconds: float, delay_seconds: float = 0.0) -> Floats:
        """(t,) 0 before, rising to 1 over ramp_seconds, 0 again after the end."""
        risen = np.clip((seconds - self.at_seconds - delay_seconds) / max(ramp_seconds, 1e-9), 0.0, 1.0)
        return np.where(self.active(seconds), risen, 0.0)


def no_gpus() -> Integers:
    return np.zeros(0, dtype=np.int64)


def gpu_index(layout: Layout, gpu: str) -> int:
    node, _, slot = gpu.partition("/")
    return layout.node_index[node] * layout.slots + int(slot)


def no_such_gpu(layout: Layout, gpu: str) -> str | None:
    node, _, slot = gpu.partition("/")
    if node in layout.node_index and slot.isdigit() and int(slot) < layout.slots:
        return None
    return f"there is no GPU {gpu!r} in the topology (ids are such as {layout.gpu_name(0)})"


def not_among(what: str, entity: str, known: Mapping[str, int]) -> str | None:
    if entity in known:
        return None
    return f"there is no {what} {entity!r} in the topology (ids are such as {next(iter(known), 'none')})"
