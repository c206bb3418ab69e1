"""Replay at a chosen speed: the same arrivals, each held back until its time has come."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pipelines.sources.contract import Arrival, Offsets, Source, SourceError
from schemas.topology import Topology

WINDOW_SECONDS = 120
GPU_SECONDS_MAXIMUM = 24_576 * 40  # in one arrival: some 3 million rows at the usual intervals


def speed_of(text: str) -> float | None:
    """Times faster than it happened; None for as fast as it goes."""
    if text == "max":
        return None
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not 0.001 <= speed <= 1e6:
        raise SourceError(f"--speed {text}: write max, or a number from 0.001 to 1000000")
    return speed


def window_seconds(speed: float | None, topology: Topology | None = None) -> int:
    """How much event time goes into one arrival: so much that about one comes each second, and of a large cluster no
    more than memory is meant to hold.
    """
    wanted = WINDOW_SECONDS if speed is None else max(1, min(60, round(speed)))
    gpus = 0 if topology is None else topology.nodes.height * topology.gpus_per_node
    return wanted if not gpus else max(1, min(wanted, GPU_SECONDS_MAXIMUM // gpus))


@dataclass(frozen=True, kw_only=True)
class PacedSource:
    """source, with each arrival held back until event time since the first, divided by speed, has gone by."""

    source: Source
    speed: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]

    @property
    def stream(self) -> str:
        return self.source.stream

    @property
    def topology(self) -> Topology:
        return self.source.topology

    @property
    def intervals_seconds(self) -> Mapping[str, float]:
        return self.source.intervals_seconds

    @property
    def span_seconds(self) -> float | None:
        return self.source.span_seconds

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        started, began = self.clock(), None
        for arrival in self.source.arrivals(offsets):
            began = arrival.batch.now if began is None else began
            due = (arrival.batch.now - began).total_seconds() / self.speed
            self.sleep(max(0.0, due - (self.clock() - started)))
            yield arrival


def paced(source: Source, speed: float | None, clock: Callable[[], float], sleep: Callable[[float], None]) -> Source:
    return source if speed is None else PacedSource(source=source, speed=speed, clock=clock, sleep=sleep)
