"""Kafka as a source: every partition of our topics from the stored offsets on, with one watermark over all.

Offsets are never committed to the broker: they are stored with the rows, in the same transaction.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import monotonic

import polars as pl
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from pipelines.engine import ALLOWED_LATENESS_SECONDS, Batch
from pipelines.intake import Intake, joined
from pipelines.settings import KafkaSettings, LimitSettings
from pipelines.sources.arrival_lags import LiveLags
from pipelines.sources.contract import Arrival, Offsets, SourceError
from pipelines.sources.kafka_client import consumer
from pipelines.sources.kafka_messages import TopicReader, newest_of, reader_of, written_at
from pipelines.sources.kafka_positions import NO_GAPS, Ends, behind, ends_of, go_on, go_to, poll
from pipelines.sources.kafka_retention import refuse_removed
from pipelines.sources.watermark import Partition, Watermark
from pipelines.topics import Format
from schemas.tables import TABLE_BY_NAME, TABLES
from schemas.topology import Topology

POLL_MILLISECONDS = 200
NEWEST = "@newest"  # beside a partition's offset the store keeps its newest event time, in microseconds
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALLOWED = timedelta(seconds=max(ALLOWED_LATENESS_SECONDS.values()))
WINDOW_SLACK = timedelta(seconds=60)  # a replay of a window reads so far past its end, for what was sent late
HELD_ROWS_MAXIMUM = 20_000  # refused rows that wait in memory until something can be said of time
TOPICS_SECONDS = 30.0  # so often a follower looks for new topics and partitions


@dataclass(frozen=True, kw_only=True)
class KafkaSource:
    """topics: only these; empty for all that are ours. window: event times FROM..TO of a replay; reading begins at the
    first message written since FROM. following: asked after each poll whether to go on past what was there when
    reading began; a catch-up pass does not.
    """

    settings: KafkaSettings
    limits: LimitSettings
    formats: Mapping[str, str | Format]
    topology: Topology
    topics: tuple[str, ...] = ()
    window: tuple[datetime, datetime] | None = None
    following: Callable[[], bool] = lambda: False

    @property
    def stream(self) -> str:
        return "kafka"

    @property
    def intervals_seconds(self) -> Mapping[str, float]:
        return {table.name: table.interval_seconds for table in TABLES if table.interval_seconds}

    @property
    def span_seconds(self) -> float | None:
        return None if self.window is None else (self.window[1] - self.window[0]).total_seconds()

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        """Batches of messages with the watermark after each. Raises SourceError when no broker answers.

        A follower ends when topics or partitions have come or gone; whoever called begins again.
        """
        with consumer(self.settings, max_poll_records=self.limits.batch_messages_maximum) as client:
            readers = self._readers(client)
            partitions = partitions_of(client, readers)
            ends, gaps = self._seek(client, partitions, offsets)
            watermark = Watermark(ALLOWED, remembered(offsets)).seen({}, behind(client, ends))
            waiting, written, said = [Intake({}, gaps, {})] if gaps.height else [], EPOCH, watermark.now()
            looked, clocks, taken = monotonic(), LiveLags(), 0
            while (following := self.following()) or watermark.behind or waiting:
                polled, gaps = poll(client, POLL_MILLISECONDS)
                if self.window is not None and gaps.height:
                    raise SourceError(f"kafka: {gaps['reason'][0]}; the range cannot be replayed")
                intakes, newest = read(readers, polled)
                waiting += [*intakes, Intake({}, gaps, {})] if intakes or gaps.height else []
                written = max([written, *_written(polled)])
                if following or not polled:
                    there = ends_of(client, partitions)  # poll is silent when no broker answers; this raises
                    ends = there if following else ends
                watermark = watermark.seen(not_ahead(newest, polled), self._unread(client, ends, watermark))
                _hold_back(client, partitions, watermark, timedelta(seconds=self.settings.ahead_seconds))
                if _speaks(watermark, waiting, said):
                    said = watermark.now()
                    intake, waiting = joined(waiting), []
                    arrival = self._arrival(client, intake, watermark, partitions, written)
                    taken += sum(rows.height for rows in arrival.batch.tables.values()) + intake.quarantined.height
                    yield replace(arrival, batch=replace(arrival.batch, lags=clocks.seen(intake.notes.delays)))
                if following and monotonic() - looked > TOPICS_SECONDS:
                    looked = monotonic()
                    if partitions_of(client, self._readers(client)) != partitions:
                        return
            if self.window is not None and not taken:
                raise SourceError(f"kafka: {', '.join(readers)}: no row is from {_range(*self.window)}")

    def _arrival(
        self, client: KafkaConsumer, intake: Intake, watermark: Watermark, partitions: list[TopicPartition],
        written: datetime,
    ) -> Arrival:  # fmt: skip
        # Where nothing but refused messages has come the stream has not begun; when they were written is all we know.
        now = watermark.now() or (EPOCH if watermark.newest else written)
        if self.window is not None:
            begin, end = self.window
            tables = {
                name: rows.filter(pl.col(TABLE_BY_NAME[name].time).is_between(begin, end, closed="left"))
                for name, rows in intake.tables.items()
            }
            intake, now = replace(intake, tables=tables), min(now, end)
        return Arrival(
            batch=Batch(tables=intake.tables, now=now, quarantined=intake.quarantined),
            offsets={(one.topic, one.partition): client.position(one) for one in partitions}
            | {
                (f"{topic}{NEWEST}", partition): microseconds(at) for (topic, partition), at in watermark.newest.items()
            },
            ignored=intake.ignored, notes=intake.notes,
        )  # fmt: skip

    def _readers(self, client: KafkaConsumer) -> dict[str, TopicReader]:
        """A reader for each topic that is ours. Raises SourceError when there is none."""
        there = client.topics()
        if missing := sorted(set(self.topics) - there):
            raise SourceError(f"kafka: {self.settings.bootstrap_servers} has no topic {', '.join(missing)}")
        found: dict[str, TopicReader] = {}
        for topic in self.topics or sorted(there):
            reader = reader_of(topic, self.settings.topic_prefix, self.formats, self.limits.message_bytes_maximum)
            if reader is not None:
                found[topic] = reader
        if not found:
            raise SourceError(
                f"kafka: {self.settings.bootstrap_servers} has no topic {self.settings.topic_prefix}<table>; "
                "`hotspare simulate SCENARIO --to kafka` makes them"
            )
        return found

    def _seek(
        self, client: KafkaConsumer, partitions: list[TopicPartition], offsets: Offsets
    ) -> tuple[Ends, pl.DataFrame]:
        """Put every partition where reading goes on; returns where this pass ends in each, and what is gone."""
        client.assign(partitions)
        if self.window is None:
            return go_on(client, partitions, offsets)
        refuse_removed(self.settings, client, partitions, self.window[0], datetime.now(UTC))
        ends = go_to(client, partitions, self.window[0])
        return ends, NO_GAPS

    def _unread(self, client: KafkaConsumer, ends: Ends, watermark: Watermark) -> frozenset[Partition]:
        """Partitions that have more for us; in a window those that are past it have not."""
        unread = behind(client, ends)
        if self.window is None:
            return unread
        past = self.window[1] + WINDOW_SLACK
        return frozenset(one for one in unread if watermark.newest.get(one, EPOCH) < past)


def _range(begin: datetime, end: datetime) -> str:
    return f"{begin:%Y-%m-%dT%H:%M:%SZ}..{end:%Y-%m-%dT%H:%M:%SZ}"


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def remembered(offsets: Offsets) -> dict[Partition, datetime]:
    """Newest event times as the last pass left them, so that a restart says the same watermark."""
    return {
        (topic.removesuffix(NEWEST), partition): EPOCH + timedelta(microseconds=value)
        for (topic, partition), value in offsets.items()
        if topic.endswith(NEWEST)
    }


def partitions_of(client: KafkaConsumer, readers: Mapping[str, TopicReader]) -> list[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for topic in readers
        for partition in sorted(client.partitions_for_topic(topic) or ())
    ]


def _speaks(watermark: Watermark, waiting: list[Intake], said: datetime | None) -> bool:
    """Whether there is something to hand on. Rows of a stream that has not begun wait for the first watermark, so that
    it begins at the same instant however it is cut.
    """
    now = watermark.now()
    if not waiting:
        return now is not None and now != said
    refused = sum(intake.quarantined.height for intake in waiting)
    return now is not None or said is not None or not watermark.behind or refused > HELD_ROWS_MAXIMUM


def read(
    readers: Mapping[str, TopicReader], polled: Mapping[TopicPartition, list[ConsumerRecord]]
) -> tuple[list[Intake], dict[Partition, datetime]]:
    intakes: list[Intake] = []
    newest: dict[Partition, datetime] = {}
    for one, records in polled.items():
        taken = readers[one.topic].take(one.partition, records)
        intakes.append(taken)
        moment = newest_of(taken)
        if moment is not None:
            newest[one.topic, one.partition] = moment
    return intakes, newest


def not_ahead(
    newest: Mapping[Partition, datetime], polled: Mapping[TopicPartition, list[ConsumerRecord]]
) -> dict[Partition, datetime]:
    """Newest event times, none of them later than its messages were written: one clock that runs ahead must not
    silence everybody else. Rows from beyond wait until the watermark has come to them.
    """
    written = {(one.topic, one.partition): _written({one: records}) for one, records in polled.items() if records}
    return {one: min([moment, *written.get(one, [])]) for one, moment in newest.items()}


def _written(polled: Mapping[TopicPartition, list[ConsumerRecord]]) -> list[datetime]:
    return [moment for records in polled.values() if (moment := written_at(records[-1])) is not None]


def _hold_back(client: KafkaConsumer, partitions: list[TopicPartition], watermark: Watermark, limit: timedelta) -> None:
    """Back-pressure: partitions that ran ahead are paused until the slowest has caught up."""
    paused, ahead = client.paused(), watermark.ahead(limit)
    for one in partitions:
        wanted = (one.topic, one.partition) in ahead
        if wanted and one not in paused:
            client.pause(one)
        elif not wanted and one in paused:
            client.resume(one)
