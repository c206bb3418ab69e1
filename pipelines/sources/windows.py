"""Sources whose rows come in windows of event time: a scenario being simulated, a recording, a window of the store."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pipelines.engine import Batch
from pipelines.intake import Piece, take_in
from pipelines.sources.contract import Arrival, Offsets
from replay.simulate import Window
from schemas.admission import Origin
from schemas.topology import Topology

PROGRESS = ("time", 0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class WindowSource:
    """windows: makes the iterator anew. lateness_seconds: how far the watermark stays behind a window's end; 0 where
    windows are cut by event time, so that everything older has come.
    """

    stream: str
    topology: Topology
    intervals_seconds: Mapping[str, float]
    span_seconds: float | None
    windows: Callable[[], Iterator[Window]]
    lateness_seconds: float = 0.0

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        """One arrival per window; those that end at or before the offset were taken already."""
        done = offsets.get(PROGRESS, 0)
        for window in self.windows():
            until = (window.ends_at - EPOCH) // timedelta(microseconds=1)
            if until <= done:
                continue
            pieces = [Piece(name, frame, Origin(topic=self.stream)) for name, frame in window.tables.items()]
            intake = take_in(pieces)
            now = window.ends_at - timedelta(seconds=self.lateness_seconds)
            yield Arrival(
                batch=Batch(tables=intake.tables, now=now, quarantined=intake.quarantined),
                offsets={PROGRESS: until}, ignored=intake.ignored,
            )  # fmt: skip
