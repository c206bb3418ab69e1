"""How many messages wait, asked of a real broker by the sensor that starts an ingest."""

from dataclasses import replace
from uuid import uuid4

import dagster as dg
import pytest
from kafka import KafkaProducer

from pipelines.schedules import kafka_lag_sensor
from pipelines.settings import settings_from
from pipelines.sources.kafka_lag import kafka_lag
from pipelines.workplace import Workplace
from tests.kafka.broker import Broker

pytestmark = pytest.mark.kafka
MESSAGES = 7


@pytest.fixture
def waiting(broker: Broker, tmp_path):
    """A workplace whose power topic holds MESSAGES that nobody has read."""
    values = {
        "kafka": {"bootstrap_servers": broker.bootstrap_servers, "topic_prefix": f"lag-{uuid4().hex[:8]}."},
        "store": {"telemetry": str(tmp_path / "t.duckdb"), "operations": str(tmp_path / "o.sqlite")},
        "dagster": {"lag_messages_minimum": MESSAGES},
    }
    place = Workplace(settings=settings_from(values, "test"))
    topic = f"{place.settings.kafka.topic_prefix}power"
    with broker.admin() as admin:
        admin.create_topics({topic: {"num_partitions": 1}}, wait_for_metadata=True)
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(MESSAGES):
                producer.send(topic, str(number).encode(), partition=0)
            producer.flush(timeout=10)
        yield place
        admin.delete_topics([topic])


def test_lag_counts_messages_past_the_stored_offsets(waiting):
    kafka = waiting.settings.kafka
    topic = f"{kafka.topic_prefix}power"
    assert kafka_lag(kafka, {}, {}) == {topic: MESSAGES}
    assert kafka_lag(kafka, {}, {(topic, 0): 5}) == {topic: MESSAGES - 5}
    assert kafka_lag(kafka, {}, {(topic, 0): MESSAGES}) == {topic: 0}


def sensed(place):
    with dg.DagsterInstance.ephemeral() as instance:
        return kafka_lag_sensor.evaluate_tick(
            dg.build_sensor_context(instance=instance, resources={"workplace": place})
        )


def test_the_sensor_starts_a_run_from_kafka_when_enough_messages_wait(waiting):
    [request] = sensed(waiting).run_requests
    assert request.run_config["ops"]["ingest"]["config"]["source"] == "kafka"


def test_the_sensor_skips_with_the_count_when_too_few_wait(waiting):
    patient = waiting.settings.model_copy(
        update={"dagster": waiting.settings.dagster.model_copy(update={"lag_messages_minimum": MESSAGES + 1})}
    )
    skipped = sensed(replace(waiting, settings=patient))
    assert not skipped.run_requests
    assert f"{MESSAGES} messages wait" in skipped.skip_message
