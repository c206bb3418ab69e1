"""Sources whose rows come in windows of event time: a scenario being simulated, a recording, a window of the store."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import polars as pl

from pipelines.engine import ALLOWED_LATENESS_SECONDS, Batch
from pipelines.intake import Piece, take_in
from pipelines.sources.arrival_lags import DELAY_COLUMNS, MEASURED, LiveLags
from pipelines.sources.contract import Arrival, Offsets
from replay.simulate import Window
from schemas.admission import Origin
from schemas.topology import Topology

ALLOWED = timedelta(seconds=max(ALLOWED_LATENESS_SECONDS.values()))
PROGRESS = ("time", 0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class WindowSource:
    """windows: makes the iterator anew. delay_seconds: of windows cut by when rows arrived, how long rows are usually
    under way; the watermark stays that far behind a window's end. None: windows are cut by event time, and everything
    older than a window's end has come. After the last window nothing
    more is waited for than what is under way. lags: nodes whose rows come later than that, and by how much.
    """

    stream: str
    topology: Topology
    intervals_seconds: Mapping[str, float]
    span_seconds: float | None
    windows: Callable[[], Iterator[Window]]
    delay_seconds: float | None = None
    lags: Mapping[str, timedelta] = field(default_factory=dict)

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        """One arrival per window; those that end at or before the offset were taken already."""
        done, clocks = offsets.get(PROGRESS, 0), LiveLags()
        under_way = timedelta(seconds=self.delay_seconds or 0.0)
        held_back = under_way if self.delay_seconds is None else under_way + ALLOWED
        windows = self.windows()
        marked = ((window, False) for window in windows) if self.delay_seconds is None else _marking_last(windows)
        for window, is_last in marked:
            until = (window.ends_at - EPOCH) // timedelta(microseconds=1)
            if until <= done:
                continue
            lags = {**self.lags, **clocks.seen(_delays(window))} if window.arrived else self.lags
            pieces = [Piece(name, frame, Origin(topic=self.stream)) for name, frame in window.tables.items()]
            intake = take_in(pieces)
            now = window.ends_at - (under_way if is_last else held_back)
            yield Arrival(
                batch=Batch(tables=intake.tables, now=now, quarantined=intake.quarantined, lags=lags),
                offsets={PROGRESS: until}, ignored=intake.ignored,
            )  # fmt: skip


def _delays(window: Window) -> pl.DataFrame:
    """How long the rows of each node were under way, as DELAY_COLUMNS."""
    found = [
        rows.select(
            pl.lit(name).alias("table"), "node", window.arrived[name].alias("written"),
            took=(window.arrived[name] - rows["time"]).dt.total_microseconds(),
        )
        for name, rows in window.tables.items() if name in MEASURED and name in window.arrived
    ]  # fmt: skip
    return pl.concat([pl.DataFrame(schema=DELAY_COLUMNS), *found])


def _marking_last(windows: Iterator[Window]) -> Iterator[tuple[Window, bool]]:
    """Holds one window more in memory than is being judged."""
    held: Window | None = None
    for window in windows:
        if held is not None:
            yield held, False
        held = window
    if held is not None:
        yield held, True
