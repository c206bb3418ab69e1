"""The broker of the tests does what they rely on, and kafka-python reaches it by every setting we offer."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.net.compat import KafkaNetClient

from tests.kafka import broker as broker_module
from tests.kafka.broker import PLAIN, SCRAM, Broker, MissingBroker, start_broker
from tests.kafka.conftest import do_without

pytestmark = pytest.mark.kafka

START_MILLISECONDS = 1_700_000_000_000


def produce(settings: dict[str, Any], topic: str, values: Sequence[bytes], **more: Any) -> float:
    """Send the values a second apart, and return to what share of their size they were compressed."""
    with KafkaProducer(**settings, linger_ms=50, **more) as producer:
        for second, value in enumerate(values):
            time_ms = START_MILLISECONDS + 1000 * second
            producer.send(topic, value, key=b"pod-1", headers=[("format", b"json")], timestamp_ms=time_ms)
        producer.flush(timeout=10)
        return producer.metrics()["producer-metrics"]["compression-rate-avg"]


def consumer_of(settings: dict[str, Any], topic: str) -> KafkaConsumer:
    consumer = KafkaConsumer(**settings, enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


def poll(consumer: KafkaConsumer, count: int, seconds: float = 10.0) -> list[Any]:
    """What comes until there are `count` records, or the time is up."""
    records: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(records) < count and time.monotonic() < deadline:
        records += [record for batch in consumer.poll(timeout_ms=200).values() for record in batch]
    return records


def refused(settings: dict[str, Any]) -> None:
    """A client that cannot get in says so as a timeout. It leaves its thread behind unless its inside is closed."""
    inside: list[KafkaNetClient] = []

    def make(**configs: Any) -> KafkaNetClient:
        inside.append(KafkaNetClient(**configs))
        return inside[-1]

    try:
        with pytest.raises(KafkaTimeoutError, match="Unable to bootstrap"):
            KafkaConsumer(**settings, bootstrap_timeout_ms=700, kafka_client=make)
    finally:
        inside[0].close()


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_what_is_produced_is_consumed(broker: Broker, compression: str | None) -> None:
    topic = broker.create_topic()
    sent = [b'{"node": "n00012", "temperature_celsius": [61.5, 60.25, 63.0]}' * 20 + str(i).encode() for i in range(50)]
    rate = produce(broker.client_settings(), topic, sent, compression_type=compression)
    assert (rate < 0.5) == (compression is not None)
    with consumer_of(broker.client_settings(), topic) as consumer:
        records = poll(consumer, len(sent))
    assert [record.value for record in records] == sent
    assert [record.offset for record in records] == list(range(len(sent)))
    assert {(record.key, tuple(record.headers)) for record in records} == {(b"pod-1", (("format", b"json"),))}
    assert records[-1].timestamp == START_MILLISECONDS + 49_000


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", PLAIN), *((protocol, name) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for name in (PLAIN, *SCRAM))],
)
def test_a_secured_listener_lets_its_user_in(own_broker: Broker, protocol: str, mechanism: str) -> None:
    topic = own_broker.create_topic()
    settings = own_broker.client_settings(protocol, mechanism)
    produce(settings, topic, [b"secret"], compression_type="zstd")
    with consumer_of(settings, topic) as consumer:
        assert [record.value for record in poll(consumer, 1)] == [b"secret"]


@pytest.mark.parametrize("mechanism", [PLAIN, *SCRAM])
def test_a_wrong_password_is_refused(own_broker: Broker, mechanism: str) -> None:
    said = len(own_broker.log)
    refused(own_broker.client_settings("SASL_SSL", mechanism) | {"sasl_plain_password": "wrong"})
    assert "Failed authentication" in own_broker.log[said:]


def test_an_unknown_certificate_is_refused(own_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    settings = own_broker.client_settings("SSL")
    del settings["ssl_cafile"]
    refused(settings)
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text


def test_a_consumer_goes_where_it_is_told(broker: Broker) -> None:
    topic = broker.create_topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with KafkaProducer(**broker.client_settings()) as producer:
        for n in range(5):
            producer.send(topic, b"%d" % n, partition=0, timestamp_ms=START_MILLISECONDS + 1000 * n)
    with consumer_of(broker.client_settings(), topic) as consumer:
        assert consumer.end_offsets([first, second]) == {first: 5, second: 0}
        found = consumer.offsets_for_times({first: START_MILLISECONDS + 2500, second: START_MILLISECONDS})
        assert found[first].offset == 3
        assert found[second] is None
        consumer.seek(first, 3)
        assert [record.value for record in poll(consumer, 2)] == [b"3", b"4"]
        consumer.seek(first, 0)
        consumer.pause(first)
        assert poll(consumer, 1, seconds=0.3) == []
        consumer.resume(first)
        assert len(poll(consumer, 5)) == 5
        assert consumer.position(first) == 5


def test_a_group_commits_where_it_is(broker: Broker) -> None:
    topic = broker.create_topic()
    produce(broker.client_settings(), topic, [b"a", b"b"])
    group = {"group_id": topic, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with KafkaConsumer(topic, **broker.client_settings(), **group) as consumer:
        assert len(poll(consumer, 2)) == 2
        consumer.commit()
    with KafkaConsumer(**broker.client_settings(), **group) as consumer:
        assert consumer.committed(TopicPartition(topic, 0)) == 2


@pytest.mark.parametrize("how", [{}, {"kill": True}], ids=["stopped", "killed"])
def test_a_restarted_broker_has_its_data_and_its_ports(own_broker: Broker, how: dict[str, bool]) -> None:
    topic = own_broker.create_topic()
    settings = own_broker.client_settings() | {"reconnect_backoff_max_ms": 500}
    produce(settings, topic, [b"before"])
    with consumer_of(settings, topic) as consumer:
        assert [record.value for record in poll(consumer, 1)] == [b"before"]
        own_broker.stop(**how)
        refused(settings)
        own_broker.start()
        produce(settings, topic, [b"after"])
        assert [record.value for record in poll(consumer, 1)] == [b"after"]
        consumer.seek(TopicPartition(topic, 0), 0)
        assert [record.value for record in poll(consumer, 2)] == [b"before", b"after"]


def test_without_java_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingBroker, match="java is not installed"), start_broker(tmp_path):
        pass


def test_without_the_artefacts_the_command_that_fetches_them_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "java").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(broker_module, "CLASSPATH", tmp_path / "classpath.txt")
    with pytest.raises(MissingBroker, match=r"mvn .* dependency:build-classpath"), start_broker(tmp_path / "data"):
        pass


def test_a_missing_broker_skips_unless_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOTSPARE_REQUIRE_KAFKA", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no java here"):
        do_without("no java here")
    monkeypatch.setenv("HOTSPARE_REQUIRE_KAFKA", "1")
    with pytest.raises(pytest.fail.Exception, match="no java here"):
        do_without("no java here")
