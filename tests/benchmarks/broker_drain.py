"""The limit of the client library: kafka-python reads the same messages from a broker here and drops them."""

import time
from pathlib import Path

from kafka import TopicPartition

from pipelines.settings import KafkaSettings
from pipelines.sources.kafka_client import consumer, producer
from tests.benchmarks.cluster_load import Load, messages
from tests.kafka.broker import MissingBroker, start_broker

TOPIC = "drain"


def drain_seconds(load: Load, folder: Path, window_seconds: int) -> float | None:
    """Processor seconds of this process for the second window's messages; None where no broker can be started."""
    windows = load.windows(window_seconds)
    next(windows)
    values = [record.value for records in messages(next(windows), "source").values() for record in records]
    try:
        with start_broker(folder / "broker") as broker:
            settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers, timeout_seconds=60)
            with broker.admin() as admin:
                admin.create_topics({TOPIC: {"num_partitions": 1}}, wait_for_metadata=True)
            with producer(settings) as client:
                for value in values:
                    client.send(TOPIC, value)
            return _drained(settings, len(values))
    except MissingBroker:
        return None


def _drained(settings: KafkaSettings, count: int) -> float:
    with consumer(settings, max_poll_records=5000) as client:
        one = TopicPartition(TOPIC, 0)
        client.assign([one])
        client.seek(one, 0)
        began, read = time.process_time(), 0
        while read < count:
            read += sum(len(records) for records in client.poll(timeout_ms=1000).values())
        return time.process_time() - began
