"""Where reading stands in each partition: beginning, end, and what the broker removed before it could be read."""

from collections.abc import Mapping
from datetime import datetime

import polars as pl
import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import OffsetOutOfRangeError

from pipelines.sources.contract import Offsets
from schemas.admission import QUARANTINE_COLUMNS

log = structlog.get_logger()
NO_GAPS = pl.DataFrame(schema=QUARANTINE_COLUMNS)
Ends = Mapping[TopicPartition, int]


def ends_of(client: KafkaConsumer, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    ends: dict[TopicPartition, int] = client.end_offsets(partitions)
    return ends


def behind(client: KafkaConsumer, ends: Ends) -> frozenset[tuple[str, int]]:
    """Partitions not yet read to their end."""
    return frozenset((one.topic, one.partition) for one, end in ends.items() if client.position(one) < end)


def go_on(client: KafkaConsumer, partitions: list[TopicPartition], offsets: Offsets) -> tuple[Ends, pl.DataFrame]:
    """Put every partition where the offsets say; returns where it ends now, and quarantine rows for what is gone."""
    first, ends = client.beginning_offsets(partitions), ends_of(client, partitions)
    gaps = [NO_GAPS]
    for one in partitions:
        stored = offsets.get((one.topic, one.partition), first[one])
        begins = stored
        if stored < first[one]:
            gaps.append(_gap(one, stored, f"offsets {stored} to {first[one] - 1} were removed before they were read"))
            begins = first[one]
        elif stored > ends[one]:
            gaps.append(_gap(one, stored, f"the topic was made anew: it ends at {ends[one]}, {stored} was to be read"))
            begins = first[one]
        client.seek(one, begins)
    return ends, pl.concat(gaps)


def go_to(client: KafkaConsumer, partitions: list[TopicPartition], since: datetime) -> Ends:
    """Put every partition at its first message written at or after `since`; returns where it ends now."""
    ends = ends_of(client, partitions)
    # offsets_for_times writes into the mapping that it is given
    found = client.offsets_for_times(dict.fromkeys(partitions, int(since.timestamp() * 1000)))
    for one in partitions:
        client.seek(one, ends[one] if found.get(one) is None else found[one].offset)
    return ends


def poll(client: KafkaConsumer, milliseconds: int) -> tuple[dict[TopicPartition, list[ConsumerRecord]], pl.DataFrame]:
    """What came, and quarantine rows where retention overtook us; there reading goes on at what is left."""
    # kafka-python 3.0.12 gives back what a paused partition had fetched only once this is None, and leaves a used-up
    # batch there: with nothing else to read a partition that was resumed would never go on.
    fetcher = client._fetcher  # noqa: SLF001  see above
    if not fetcher._next_partition_records:  # noqa: SLF001  see above
        fetcher._next_partition_records = None  # noqa: SLF001  see above
    try:
        return client.poll(timeout_ms=milliseconds), NO_GAPS
    except OffsetOutOfRangeError as error:
        lost: dict[TopicPartition, int] = error.args[0]
    first = client.beginning_offsets(list(lost))
    for one in lost:
        client.seek(one, first[one])
    return {}, pl.concat(
        [_gap(one, at, f"offsets {at} to {first[one] - 1} were removed while reading") for one, at in lost.items()]
    )


def _gap(one: TopicPartition, offset: int, what: str) -> pl.DataFrame:
    log.warning("kafka_messages_gone", topic=one.topic, partition=one.partition, reason=what)
    row = {
        "rule": "kafka|gap", "reason": f"{one.topic} partition {one.partition}: {what}", "topic": one.topic,
        "partition": one.partition, "offset": offset,
    }  # fmt: skip
    return pl.DataFrame([row], schema_overrides=dict(QUARANTINE_COLUMNS)).select(
        pl.col(name) if name in row else pl.lit(None, dtype).alias(name) for name, dtype in QUARANTINE_COLUMNS.items()
    )
