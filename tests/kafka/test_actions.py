"""Actions and pages as messages of a real broker."""

from datetime import UTC, datetime

import msgspec
import pytest
from kafka import KafkaConsumer

from pipelines.recovery.executors.kafka import KafkaExecutor
from pipelines.settings import KafkaSettings
from schemas.action import ActionRequest
from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka
REQUEST = ActionRequest(
    id="act-1", incident="inc-1", kind="drain_node", target="n1'; $(reboot)", parameters={"target_kind": "node"},
    requested_at=datetime(2026, 3, 1, tzinfo=UTC), reason="because",
)  # fmt: skip


def test_an_action_is_a_message_keyed_by_its_target(broker: Broker) -> None:
    settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    topic = broker.create_topic()
    outcome = KafkaExecutor(settings, topic).apply(REQUEST)
    assert outcome.done, outcome.detail
    consumer = KafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest",
        consumer_timeout_ms=10000,
    )  # fmt: skip
    try:
        message = next(iter(consumer))
    finally:
        consumer.close()
    assert message.key == REQUEST.target.encode()
    assert msgspec.json.decode(message.value)["id"] == "act-1"


def test_a_broker_that_is_away_took_nothing() -> None:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:9", timeout_seconds=1)
    outcome = KafkaExecutor(settings, "hotspare.actions").apply(REQUEST)
    assert (outcome.done, outcome.recoverable) == (False, True)
