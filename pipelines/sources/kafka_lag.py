"""How many messages wait on the brokers, asked quickly: a broker that is away must not keep the daemon waiting."""

import socket
from collections.abc import Mapping

from kafka import TopicPartition

from pipelines.settings import KafkaSettings
from pipelines.sources.contract import Offsets, SourceError
from pipelines.sources.kafka_client import consumer
from pipelines.sources.kafka_messages import reader_of
from pipelines.topics import Format

KNOCK_SECONDS = 0.5
ANSWER_SECONDS = 3.0


def kafka_lag(settings: KafkaSettings, formats: Mapping[str, str | Format], stored: Offsets) -> dict[str, int]:
    """Unread messages by topic of ours. Raises SourceError when no broker answers within about ANSWER_SECONDS."""
    _knock(settings.bootstrap_servers)
    quick = settings.model_copy(update={"timeout_seconds": min(settings.timeout_seconds, ANSWER_SECONDS)})
    with consumer(quick) as client:
        partitions = [
            TopicPartition(topic, partition)
            for topic in sorted(client.topics())
            if reader_of(topic, settings.topic_prefix, formats, 1) is not None
            for partition in sorted(client.partitions_for_topic(topic) or ())
        ]
        if not partitions:
            return {}
        first, ends = client.beginning_offsets(partitions), client.end_offsets(partitions)
    lag: dict[str, int] = {}
    for one in partitions:
        read = max(stored.get((one.topic, one.partition), 0), first[one])
        lag[one.topic] = lag.get(one.topic, 0) + max(0, ends[one] - read)
    return lag


def _knock(bootstrap_servers: str) -> None:
    """A closed door is heard at once; a client library would go on trying for its whole time-out."""
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS).close()
        except (OSError, ValueError):
            continue
        return
    raise SourceError(f"kafka: nobody listens at {bootstrap_servers}")
