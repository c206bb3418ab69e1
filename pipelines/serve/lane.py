"""One lane of `hotspare serve`: a Kafka consumer of its own, in a thread of its own, from messages to admitted rows.

Lanes share nothing but the inbox, so that events never queue behind metrics. A broker that is away is tried again with
growing pauses; what was handed on before is not read again.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from pipelines.intake import Intake, joined
from pipelines.settings import KafkaSettings, LimitSettings
from pipelines.sources.contract import Offsets, SourceError
from pipelines.sources.kafka import ALLOWED, NEWEST, microseconds, not_ahead, partitions_of, read, remembered
from pipelines.sources.kafka_client import consumer
from pipelines.sources.kafka_messages import TopicReader, reader_of, written_at
from pipelines.sources.kafka_positions import Ends, behind, ends_of, go_on, poll
from pipelines.sources.watermark import Partition, Watermark
from pipelines.topics import Format
from schemas.tables import Table

log = structlog.get_logger()
POLL_MILLISECONDS = 100
ENDS_SECONDS = 0.5  # so often the brokers are asked where partitions end; poll alone is silent when none answers
TOPICS_SECONDS = 30.0
BACKOFF_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
LIVE = timedelta(seconds=60)
# Few rows, and what they tell cannot wait: a leak is read from its loop.
EVENT_TABLES = ("coolant_loop",)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What a lane says of time. now: its watermark; None until something can be said. quiet: nothing was unread when
    the brokers last said so, at `asked` (monotonic seconds). live: the newest rows were sent within LIVE of the clock,
    so that silence means something.
    """

    now: datetime | None = None
    quiet: bool = False
    live: bool = False
    asked: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LaneArrival:
    """One poll's worth. number: counts up within a lane. until: what the lane itself may judge up to. polled: monotonic
    seconds when the last message had been received.
    """

    lane: str
    number: int
    intake: Intake
    offsets: Offsets
    mark: Mark
    until: datetime | None
    polled: float

    @property
    def rows(self) -> int:
        return sum(rows.height for rows in self.intake.tables.values()) + self.intake.quarantined.height


@dataclass(frozen=True, kw_only=True)
class LaneFigures:
    """How a lane does. trouble: why it does not read. lag: messages that wait on the brokers. topics: how many."""

    trouble: str | None = "has not reached a broker yet"
    caught_up: bool = False
    paused: bool = False
    lag: int = 0
    topics: int = 0
    messages: int = 0
    reconnects: int = 0
    mark: Mark = field(default_factory=Mark)


def is_event_topic(reader: TopicReader) -> bool:
    """Other producers' formats hold tables of both kinds, and go with the metrics."""
    table: Table | None = reader.table
    return table is not None and (table.lane == "events" or table.name in EVENT_TABLES)


@dataclass
class Lane:
    """takes: whether a topic is this lane's. full: asked before each poll; while it says so every partition is paused.
    hand_on: given each arrival, in order; also empty ones, when the mark has changed.
    """

    name: str
    settings: KafkaSettings
    limits: LimitSettings
    formats: Mapping[str, str | Format]
    takes: Callable[[TopicReader], bool]
    offsets: Offsets
    stopping: threading.Event
    full: Callable[[], bool]
    hand_on: Callable[[LaneArrival], None]
    figures: LaneFigures = field(default_factory=LaneFigures)
    failure: BaseException | None = None
    _number: int = 0
    _failures: int = 0
    _live: bool = False
    _asked: float = 0.0
    _told: Mark = field(default_factory=Mark)

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    self._connected()
                except SourceError as error:
                    self._away(str(error))
        except BaseException as error:  # noqa: BLE001  kept, and raised again by whoever waits for arrivals
            self.failure = error

    def _away(self, reason: str) -> None:
        pause = BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        self._failures += 1
        self._note(trouble=reason, caught_up=False, reconnects=self.figures.reconnects + 1)
        log.warning("source_away", lane=self.name, reason=reason, again_in_seconds=pause)
        self.stopping.wait(pause)

    def _connected(self) -> None:
        with consumer(self.settings, max_poll_records=self.limits.batch_messages_maximum) as client:
            readers = self._readers(client)
            if readers:
                self._follow(client, readers)
                return
            self._answered()
            mark = Mark(quiet=True, asked=monotonic())
            self._note(trouble=None, caught_up=True, topics=0, mark=mark)
            self._hand_on(joined([]), {}, mark, None)
        self.stopping.wait(ENDS_SECONDS)

    def _readers(self, client: KafkaConsumer) -> dict[str, TopicReader]:
        bytes_maximum = self.limits.message_bytes_maximum
        found = {
            topic: reader_of(topic, self.settings.topic_prefix, self.formats, bytes_maximum)
            for topic in sorted(client.topics())
        }
        return {topic: reader for topic, reader in found.items() if reader is not None and self.takes(reader)}

    def _follow(self, client: KafkaConsumer, readers: Mapping[str, TopicReader]) -> None:
        """Until told to stop, or topics or partitions have come or gone."""
        partitions = partitions_of(client, readers)
        client.assign(partitions)
        ends, gaps = go_on(client, partitions, self.offsets)
        watermark = Watermark(ALLOWED, remembered(self._own(self.offsets, readers))).seen({}, behind(client, ends))
        waiting = [Intake({}, gaps, {})] if gaps.height else []
        topics_asked = self._asked = monotonic()
        self._answered()
        while not self.stopping.is_set():
            self._hold_back(client, partitions, watermark)
            polled, gaps = poll(client, POLL_MILLISECONDS)
            received = monotonic()
            intakes, newest = read(readers, polled)
            waiting += [*intakes, Intake({}, gaps, {})] if intakes or gaps.height else []
            if received - self._asked > ENDS_SECONDS:
                ends = ends_of(client, partitions)
                self._asked = monotonic()
                self._answered()
            ends = _known_ends(client, ends)
            watermark = watermark.seen(not_ahead(newest, polled), behind(client, ends))
            self._live = self._live if not newest else _is_live(newest, polled)
            self._see(client, ends, watermark, polled, topics=len(readers))
            if waiting or self.figures.mark != self._told:
                self._hand_on(joined(waiting), self._positions(client, partitions, watermark), self.figures.mark,
                              _until(watermark), received)  # fmt: skip
                waiting = []
            if received - topics_asked > TOPICS_SECONDS:
                topics_asked = received
                if partitions_of(client, self._readers(client)) != partitions:
                    return

    def _hand_on(
        self, intake: Intake, offsets: Offsets, mark: Mark, until: datetime | None, polled: float | None = None
    ) -> None:
        self._number += 1
        self._told = mark
        self.offsets = {**self.offsets, **offsets}
        self.hand_on(
            LaneArrival(
                lane=self.name, number=self._number, intake=intake, offsets=offsets, mark=mark, until=until,
                polled=monotonic() if polled is None else polled,
            )
        )  # fmt: skip

    def _answered(self) -> None:
        """The broker answers: the next failure is a new one, and is tried again soon."""
        self._failures = 0
        if self.figures.trouble is not None:
            log.info("lane_reads", lane=self.name)
            self._note(trouble=None)

    def _see(
        self, client: KafkaConsumer, ends: Ends, watermark: Watermark,
        polled: Mapping[TopicPartition, list[ConsumerRecord]], *, topics: int,
    ) -> None:  # fmt: skip
        quiet = not watermark.behind and not polled
        self._note(
            lag=sum(max(0, end - client.position(one)) for one, end in ends.items()), topics=topics,
            caught_up=self.figures.caught_up or not watermark.behind,
            messages=self.figures.messages + sum(map(len, polled.values())),
            mark=Mark(now=watermark.now(), quiet=quiet, live=self._live, asked=self._asked),
        )  # fmt: skip

    def _note(self, **changes: Any) -> None:
        self.figures = replace(self.figures, **changes)

    def _hold_back(self, client: KafkaConsumer, partitions: list[TopicPartition], watermark: Watermark) -> None:
        """Back-pressure: every partition while the inbox is full, else those that ran ahead of the slowest."""
        full = self.full()
        ahead = watermark.ahead(timedelta(seconds=self.settings.ahead_seconds))
        paused = client.paused()
        for one in partitions:
            wanted = full or (one.topic, one.partition) in ahead
            if wanted and one not in paused:
                client.pause(one)
            elif not wanted and one in paused:
                client.resume(one)
        if full != self.figures.paused:
            self._note(paused=full)

    @staticmethod
    def _own(offsets: Offsets, readers: Mapping[str, TopicReader]) -> Offsets:
        return {key: value for key, value in offsets.items() if key[0].removesuffix(NEWEST) in readers}

    @staticmethod
    def _positions(client: KafkaConsumer, partitions: list[TopicPartition], watermark: Watermark) -> Offsets:
        return {(one.topic, one.partition): client.position(one) for one in partitions} | {
            (f"{topic}{NEWEST}", partition): microseconds(at) for (topic, partition), at in watermark.newest.items()
        }


def _known_ends(client: KafkaConsumer, ends: Ends) -> dict[TopicPartition, int]:
    """What fetches have told since the brokers were asked costs no question."""
    return {one: max(end, client.highwater(one) or 0) for one, end in ends.items()}


def _is_live(newest: Mapping[Partition, datetime], polled: Mapping[TopicPartition, list[ConsumerRecord]]) -> bool:
    """Whether what comes is of now. What is played again from the past has ended, not fallen silent."""
    written = [moment for records in polled.values() if records and (moment := written_at(records[-1])) is not None]
    now = datetime.now(UTC)
    return bool(written) and abs(now - max(newest.values())) <= LIVE and abs(now - max(written)) <= LIVE


def _until(watermark: Watermark) -> datetime | None:
    """What the lane may look at ahead of the others: all that it has shown, where nothing is unread."""
    if watermark.behind or not watermark.newest:
        return watermark.now()
    return max(watermark.newest.values()) + timedelta(microseconds=1)
