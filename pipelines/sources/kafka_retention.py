"""Whether a range of Kafka is still there: what the broker has removed cannot be replayed, and must not be missed
silently.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from pipelines.settings import KafkaSettings
from pipelines.sources.contract import SourceError
from pipelines.sources.kafka_client import admin

ALWAYS = datetime(1, 1, 1, tzinfo=UTC)
NEVER = datetime(9999, 1, 1, tzinfo=UTC)


def refuse_removed(
    settings: KafkaSettings, client: KafkaConsumer, partitions: list[TopicPartition], since: datetime, now: datetime
) -> None:
    """Raises SourceError where messages written since then may have been removed.

    A partition whose first message left is the first since then has lost others before it. They are older than the
    range where the topic's retention, by time alone, reaches back beyond `since`.
    """
    first, ends = client.beginning_offsets(partitions), client.end_offsets(partitions)
    trimmed = [one for one in partitions if first[one] > 0]
    if not trimmed:
        return
    # offsets_for_times writes into the mapping that it is given
    found = client.offsets_for_times(dict.fromkeys(trimmed, int(since.timestamp() * 1000)))
    doubtful = [
        one for one in trimmed
        if first[one] == ends[one] or (found.get(one) is not None and found[one].offset == first[one])
    ]  # fmt: skip
    kept = _kept_since(settings, {one.topic for one in doubtful}, now)
    for one in doubtful:
        if since < kept.get(one.topic, NEVER):
            left = found.get(one)
            rest = (
                "nothing is left of it" if left is None
                else f"what is left was written from {_moment(left.timestamp):%Y-%m-%dT%H:%M:%SZ} on"
            )  # fmt: skip
            raise SourceError(
                f"kafka: {one.topic} partition {one.partition}: the broker has removed messages up to offset "
                f"{first[one] - 1}, which may belong to the range from {since:%Y-%m-%dT%H:%M:%SZ}; {rest}"
            )


def _kept_since(settings: KafkaSettings, topics: Iterable[str], now: datetime) -> Mapping[str, datetime]:
    """How far back each topic's messages are kept; NEVER where it is not by time alone, or not known."""
    names = sorted(topics)
    if not names:
        return {}
    try:
        with admin(settings) as client:
            told = client.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, name) for name in names], config_filter="all"
            )
    except KafkaError:
        return {}  # not everybody may ask; then nothing is known
    return {name: _reach(values, now) for name, values in told.get("topic", {}).items()}


def _reach(values: Mapping[str, Mapping[str, object]], now: datetime) -> datetime:
    milliseconds, size = (int(str(values.get(key, {}).get("value", 0))) for key in ("retention.ms", "retention.bytes"))
    if size != -1 or milliseconds == 0:
        return NEVER
    return ALWAYS if milliseconds < 0 else now - timedelta(milliseconds=milliseconds)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
