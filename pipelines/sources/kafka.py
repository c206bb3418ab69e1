"""Kafka as a source: every partition of our topics from the stored offsets on, with one watermark over all.

Offsets are never committed to the broker: they are stored with the rows, in the same transaction.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from kafka import KafkaConsumer, TopicPartition

from pipelines.engine import ALLOWED_LATENESS_SECONDS, Batch
from pipelines.intake import Intake, joined
from pipelines.settings import KafkaSettings, LimitSettings
from pipelines.sources.contract import Arrival, Offsets, SourceError
from pipelines.sources.kafka_client import consumer
from pipelines.sources.kafka_messages import TopicReader, reader_of
from pipelines.sources.watermark import Watermark
from schemas.tables import TABLE_BY_NAME, TABLES
from schemas.topology import Topology

log = structlog.get_logger()
POLL_MILLISECONDS = 200
NEWEST = "@newest"  # beside a partition's offset the store keeps its newest event time, in microseconds
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Partition = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class KafkaSource:
    """topics: only these; empty for all that are ours. window: event times FROM..TO of a replay, read by timestamp.
    follow: go on for ever (serve) rather than stop at what was there when reading began (one catch-up pass).
    """

    settings: KafkaSettings
    limits: LimitSettings
    formats: dict[str, str]
    topology: Topology
    topics: tuple[str, ...] = ()
    window: tuple[datetime, datetime] | None = None
    follow: bool = False

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
        """Batches of messages with the watermark after each. Raises SourceError when no broker answers."""
        with consumer(self.settings, max_poll_records=self.limits.batch_messages_maximum) as client:
            readers = self._readers(client)
            partitions = _partitions(client, readers)
            ends = self._seek(client, partitions, offsets)
            allowed = timedelta(seconds=max(ALLOWED_LATENESS_SECONDS.values()))
            watermark = Watermark(allowed, _remembered(offsets))
            behind = _behind(client, ends)
            while behind or self.follow:
                polled = client.poll(timeout_ms=POLL_MILLISECONDS)
                intake, newest = _read(readers, polled)
                if self.follow or not polled:
                    ends_now = _ends(client, partitions)  # poll is silent when no broker answers; this raises
                    ends = ends_now if self.follow else ends
                behind = _behind(client, ends)
                watermark = watermark.seen(newest, behind)
                _hold_back(client, partitions, watermark.ahead(timedelta(seconds=self.settings.ahead_seconds)))
                if polled or self.follow:
                    yield self._arrival(client, intake, watermark, partitions)

    def _arrival(
        self, client: KafkaConsumer, intake: Intake, watermark: Watermark, partitions: list[TopicPartition]
    ) -> Arrival:
        now = watermark.now() or EPOCH
        if self.window is not None:
            begin, end = self.window
            tables = {
                name: rows.filter(rows[TABLE_BY_NAME[name].time].is_between(begin, end, closed="left"))
                for name, rows in intake.tables.items()
            }
            intake, now = Intake(tables, intake.quarantined, intake.ignored), min(now, end)
        return Arrival(
            batch=Batch(tables=intake.tables, now=now, quarantined=intake.quarantined),
            offsets={(one.topic, one.partition): client.position(one) for one in partitions}
            | {(f"{topic}{NEWEST}", partition): microseconds(at) for (topic, partition), at in watermark.newest.items()},
            ignored=intake.ignored,
        )

    def _readers(self, client: KafkaConsumer) -> dict[str, TopicReader]:
        """A reader for each topic that is ours. Raises SourceError when there is none."""
        found: dict[str, TopicReader] = {}
        for topic in self.topics or sorted(client.topics()):
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
    ) -> dict[TopicPartition, int]:
        """Put every partition where reading goes on; returns where this pass ends in each."""
        client.assign(partitions)
        first, ends = client.beginning_offsets(partitions), _ends(client, partitions)
        if self.window is not None:
            stamps = [{one: int(moment.timestamp() * 1000) for one in partitions} for moment in self.window]
            found = [client.offsets_for_times(stamp) for stamp in stamps]
            begins = {one: (ends[one] if at is None else at.offset) for one, at in found[0].items()}
            ends = {one: (ends[one] if at is None else at.offset) for one, at in found[1].items()}
        else:
            begins = {one: offsets.get((one.topic, one.partition), first[one]) for one in partitions}
        for one in partitions:
            if begins[one] < first[one]:
                log.warning(
                    "kafka_messages_gone", topic=one.topic, partition=one.partition, stored=begins[one],
                    first=first[one], reason="the broker deleted them before they were read",
                )  # fmt: skip
            client.seek(one, max(begins[one], first[one]))
        return ends


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def _remembered(offsets: Offsets) -> dict[Partition, datetime]:
    """Newest event times as the last pass left them, so that a restart says the same watermark."""
    return {
        (topic.removesuffix(NEWEST), partition): EPOCH + timedelta(microseconds=value)
        for (topic, partition), value in offsets.items()
        if topic.endswith(NEWEST)
    }


def _partitions(client: KafkaConsumer, readers: Mapping[str, TopicReader]) -> list[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for topic in readers
        for partition in sorted(client.partitions_for_topic(topic) or ())
    ]


def _ends(client: KafkaConsumer, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    ends: dict[TopicPartition, int] = client.end_offsets(partitions)
    return ends


def _behind(client: KafkaConsumer, ends: Mapping[TopicPartition, int]) -> frozenset[Partition]:
    return frozenset((one.topic, one.partition) for one, end in ends.items() if client.position(one) < end)


def _read(
    readers: Mapping[str, TopicReader], polled: Mapping[TopicPartition, list[object]]
) -> tuple[Intake, dict[Partition, datetime]]:
    parts: list[Intake] = []
    newest: dict[Partition, datetime] = {}
    for one, records in polled.items():
        taken = readers[one.topic].take(one.partition, records)
        parts.append(taken)
        times = [rows[TABLE_BY_NAME[name].time].max() for name, rows in taken.tables.items() if not rows.is_empty()]
        found = [moment for moment in times if isinstance(moment, datetime)]
        if found:
            newest[one.topic, one.partition] = max(found)
    return joined(parts), newest


def _hold_back(client: KafkaConsumer, partitions: list[TopicPartition], ahead: frozenset[Partition]) -> None:
    """Back-pressure: partitions that ran ahead are paused until the slowest has caught up."""
    paused = client.paused()
    for one in partitions:
        wanted = (one.topic, one.partition) in ahead
        if wanted and one not in paused:
            client.pause(one)
        elif not wanted and one in paused:
            client.resume(one)
