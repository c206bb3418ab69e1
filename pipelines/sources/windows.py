"""Sources whose rows come in windows of event time: a scenario being simulated, a recording, a window of the store."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

from pipelines.engine import ALLOWED_LATENESS_SECONDS, SOURCE_COLUMNS, Batch, newest_of_sources
from pipelines.intake import Piece, take_in
from pipelines.sources.contract import Arrival, Offsets
from pipelines.sources.watermark import watermark_of_sources
from replay.simulate import Window
from schemas.admission import Origin
from schemas.topology import Topology

ALLOWED = timedelta(seconds=max(ALLOWED_LATENESS_SECONDS.values()))
PROGRESS = ("time", 0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class WindowSource:
    """windows: makes the iterator anew. by_arrival: windows are cut by when rows arrived, and the watermark is what the
    rows tell; otherwise they are cut by event time, and everything older than a window's end has come.
    """

    stream: str
    topology: Topology
    intervals_seconds: Mapping[str, float]
    span_seconds: float | None
    windows: Callable[[], Iterator[Window]]
    by_arrival: bool = False

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        """One arrival per window; those that end at or before the offset were taken already."""
        done = offsets.get(PROGRESS, 0)
        newest = pl.DataFrame(schema=SOURCE_COLUMNS)
        for window in self.windows():
            until = (window.ends_at - EPOCH) // timedelta(microseconds=1)
            if until <= done:
                continue
            pieces = [Piece(name, frame, Origin(topic=self.stream)) for name, frame in window.tables.items()]
            intake = take_in(pieces)
            now = window.ends_at
            if self.by_arrival:
                newest = newest_of_sources(newest, intake.tables)
                now = min(watermark_of_sources(newest, self.intervals_seconds, ALLOWED) or EPOCH, now)
            yield Arrival(
                batch=Batch(tables=intake.tables, now=now, quarantined=intake.quarantined),
                offsets={PROGRESS: until}, ignored=intake.ignored,
            )  # fmt: skip
