"""Both lanes as one source for the shared loop, which knows nothing of lanes."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

from pipelines.engine import Batch
from pipelines.intake import joined
from pipelines.serve.inbox import Inbox, Taken
from pipelines.serve.lane import Lane, LaneArrival, is_event_topic
from pipelines.settings import KafkaSettings, LimitSettings
from pipelines.sources.arrival_lags import LiveLags
from pipelines.sources.contract import Arrival, Offsets
from pipelines.sources.kafka_messages import TopicReader
from pipelines.topics import Format
from schemas.tables import TABLES
from schemas.topology import Topology

LANES = ("events", "metrics")
STEP_SECONDS = 0.25  # a step costs much the same however little it holds
STEP_ROWS_MAXIMUM = 400_000  # so that a stop does not wait long for the step under way
WAITING_ROWS_MAXIMUM = 1_000_000  # of one lane
TICK_SECONDS = 1.0
JOIN_SECONDS = 2.0


@dataclass
class LanesSource:
    """heard: given what the events lane has read, in its own thread and at once. stopping: ends the arrivals.
    unwritten: whether rows wait for a flush; then an empty arrival comes after tick_seconds without another. judged,
    polled: numbers of the arrivals up to which the last batch reaches, and when the first of its rows was received.
    """

    settings: KafkaSettings
    limits: LimitSettings
    formats: Mapping[str, str | Format]
    topology: Topology
    stopping: threading.Event
    heard: Callable[[LaneArrival], None] = lambda _: None
    unwritten: Callable[[], bool] = lambda: False
    tick_seconds: float = TICK_SECONDS
    step_seconds: float = STEP_SECONDS
    lanes: dict[str, Lane] = field(default_factory=dict)
    inbox: Inbox = field(init=False)
    judged: Mapping[str, int] = field(default_factory=dict)
    polled: float | None = None

    def __post_init__(self) -> None:
        self.inbox = self._inbox()

    def _inbox(self) -> Inbox:
        return Inbox(LANES, WAITING_ROWS_MAXIMUM, self.settings.idle_seconds)

    @property
    def stream(self) -> str:
        return "kafka"

    @property
    def intervals_seconds(self) -> Mapping[str, float]:
        return {table.name: table.interval_seconds for table in TABLES if table.interval_seconds}

    @property
    def span_seconds(self) -> None:
        return None

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        """Until stopping is set. Raises what a lane failed of; a broker that is away is no failure."""
        ended = threading.Event()
        self.inbox = self._inbox()
        self.judged = {}
        self.lanes = {name: self._lane(name, offsets, ended, self.inbox) for name in LANES}
        threads = [threading.Thread(target=lane.run, name=name, daemon=True) for name, lane in self.lanes.items()]
        for thread in threads:
            thread.start()
        try:
            yield from self._batches()
        finally:
            ended.set()
            for thread in threads:
                thread.join(JOIN_SECONDS)

    def _lane(self, name: str, offsets: Offsets, ended: threading.Event, inbox: Inbox) -> Lane:
        def takes(reader: TopicReader) -> bool:
            return is_event_topic(reader) == (name == "events")

        def hand_on(arrival: LaneArrival) -> None:
            inbox.put(arrival)
            if name == "events" and not ended.is_set():
                self.heard(arrival)

        return Lane(
            name=name, settings=self.settings, limits=self.limits, formats=self.formats, takes=takes, offsets=offsets,
            stopping=ended, full=lambda: inbox.is_full(name), hand_on=hand_on,
        )  # fmt: skip

    def _batches(self) -> Iterator[Arrival]:
        kept: list[Taken] = []
        said: datetime | None = None
        clocks = LiveLags()
        began = monotonic()
        while not self.stopping.is_set():
            for lane in self.lanes.values():
                if lane.failure is not None:
                    raise lane.failure
            self.inbox.wait(self.step_seconds)
            if not self.inbox.can_begin():
                self.stopping.wait(0.02)
                continue
            taken = self.inbox.take(STEP_ROWS_MAXIMUM)
            kept.append(taken)
            ticks = monotonic() - began > self.tick_seconds and self.unwritten()
            if taken.now is None or not (ticks or taken.now != said or any(_rows(one) for one in kept)):
                continue
            began = monotonic()
            said, self.judged = taken.now, taken.numbers
            self.polled = min((one.polled for one in kept if one.polled is not None), default=None)
            yield _arrival(kept, taken.now, clocks)
            kept = []
            if _rows(taken) < STEP_ROWS_MAXIMUM:
                self.stopping.wait(max(0.0, self.step_seconds - (monotonic() - began)))


def _rows(taken: Taken) -> int:
    return sum(rows.height for rows in taken.intake.tables.values()) + taken.intake.quarantined.height


def _arrival(kept: list[Taken], now: datetime, clocks: LiveLags) -> Arrival:
    intake = joined([one.intake for one in kept])
    offsets: dict[tuple[str, int], int] = {}
    for one in kept:
        offsets.update(one.offsets)
    return Arrival(
        batch=Batch(
            tables=intake.tables, now=now, quarantined=intake.quarantined, lags=clocks.seen(intake.notes.delays)
        ),
        offsets=offsets, ignored=intake.ignored, notes=intake.notes,
    )  # fmt: skip
