"""Where the lanes meet: what they have read, in order, and one watermark over them.

The engine is the one of every other caller; a lane that is read faster only waits here. The watermark is the lowest of
the lanes that have something to give. A lane that has given nothing for `idle_seconds` and has nothing unread, as the
brokers say, holds nobody back; after a pause of all lanes each is waited for anew. When all are idle the highest
counts, and where the rows were of now it goes on with the clock, that much behind it: silence is judged although
nothing comes any more.
"""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pipelines.intake import Intake, joined
from pipelines.serve.lane import LaneArrival, Mark
from pipelines.sources.contract import Offsets


@dataclass(frozen=True)
class Taken:
    """What is to be judged next. numbers: of the last arrival of each lane. now: None while nothing can be said.
    polled: monotonic seconds when the first of its rows had been received; None without rows.
    """

    intake: Intake
    offsets: Offsets
    now: datetime | None
    numbers: Mapping[str, int]
    polled: float | None = None


@dataclass
class Inbox:
    """lanes: their names. rows_maximum: of one lane that wait, before it is told to hold back."""

    lanes: tuple[str, ...]
    rows_maximum: int
    idle_seconds: float
    _waiting: deque[LaneArrival] = field(default_factory=deque)
    _rows: dict[str, int] = field(default_factory=dict)
    _marks: dict[str, Mark] = field(default_factory=dict)
    _latest: dict[str, Mark] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _busy_at: dict[str, float] = field(default_factory=dict)
    _woke_at: float = 0.0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def put(self, arrival: LaneArrival) -> None:
        with self._changed:
            self._waiting.append(arrival)
            self._rows[arrival.lane] = self._rows.get(arrival.lane, 0) + arrival.rows
            self._latest[arrival.lane] = arrival.mark
            self._changed.notify()

    def can_begin(self) -> bool:
        """Whether every lane has said something of time, or that it has nothing; until then its rows wait here."""
        marks = [self._latest.get(lane, Mark()) for lane in self.lanes]
        return all(mark.quiet or mark.now is not None for mark in marks)

    def is_full(self, lane: str) -> bool:
        return self._rows.get(lane, 0) >= self.rows_maximum

    def rows(self) -> dict[str, int]:
        """Rows that wait, by lane."""
        return {lane: self._rows.get(lane, 0) for lane in self.lanes}

    def wait(self, seconds: float) -> None:
        """Until something has been put in, or for so long."""
        with self._changed:
            if not self._waiting:
                self._changed.wait(seconds)

    def take(self, rows_maximum: int) -> Taken:
        """The oldest arrivals, up to about so many rows, and the watermark after them."""
        chosen: list[LaneArrival] = []
        with self._changed:
            rows = 0
            while self._waiting and (not chosen or rows < rows_maximum):
                arrival = self._waiting.popleft()
                chosen.append(arrival)
                rows += arrival.rows
                self._rows[arrival.lane] -= arrival.rows
        for arrival in chosen:
            self._hear(arrival)
        offsets: dict[tuple[str, int], int] = {}
        for arrival in chosen:
            offsets.update(arrival.offsets)
        polled = min((one.polled for one in chosen if one.rows), default=None)
        return Taken(joined([one.intake for one in chosen]), offsets, self.now(), dict(self._numbers), polled)

    def _hear(self, arrival: LaneArrival) -> None:
        self._marks[arrival.lane] = arrival.mark
        self._numbers[arrival.lane] = arrival.number
        if arrival.rows or not arrival.mark.quiet or arrival.lane not in self._busy_at:
            if all(arrival.polled - at >= self.idle_seconds for at in self._busy_at.values()):
                self._woke_at = arrival.polled  # after a pause every lane is waited for anew
            self._busy_at[arrival.lane] = arrival.polled

    def now(self) -> datetime | None:
        """The watermark over all lanes; None until each has said something of itself."""
        marks = [self._marks.get(lane, Mark()) for lane in self.lanes]
        quiet_for = [
            mark.asked - max(self._busy_at.get(lane, mark.asked), self._woke_at)
            for lane, mark in zip(self.lanes, marks, strict=True)
        ]
        holding = [
            mark.now for mark, seconds in zip(marks, quiet_for, strict=True)
            if not mark.quiet or (mark.now is not None and seconds < self.idle_seconds)
        ]  # fmt: skip
        if holding:
            return None if None in holding else min(moment for moment in holding if moment is not None)
        newest = max((mark.now for mark in marks if mark.now is not None), default=None)
        if newest is None or not any(mark.live for mark in marks):
            return newest
        return newest + timedelta(seconds=max(0.0, min(quiet_for) - self.idle_seconds))
