"""Ranges of event time, replayed from a real broker: like the scenario they came from, or one line that says why."""

from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from pipelines.pacing import paced
from pipelines.rejudge import rejudge
from pipelines.settings import Settings
from pipelines.sources.choose import scenario_source, source_for
from pipelines.sources.contract import SourceError
from pipelines.sources.kafka_client import admin
from replay.simulate import topology_of
from tests.kafka.broker import Broker
from tests.kafka.streaming import Place, kafka_source, place, produce, scenario, send_scenario
from tests.kafka.test_ingest import power
from tests.pipelines.telemetry_rows import at, topology

pytestmark = pytest.mark.kafka


def remove(there: Place, table: str, up_to: int) -> None:
    with admin(there.kafka) as client:
        client.delete_records({TopicPartition(f"{there.kafka.topic_prefix}{table}", 0): up_to})


def test_a_range_gives_the_incidents_of_the_scenario_that_was_sent(broker: Broker, tmp_path: Path) -> None:
    chosen = scenario("kafka_coolant")
    there = place(broker, tmp_path)
    send_scenario(chosen, there.kafka)
    alone = scenario_source(chosen)
    ends = chosen.starts_at.replace(minute=59)
    source = kafka_source(there.kafka, topology_of(chosen), window=(chosen.starts_at, ends))
    expected, found = rejudge(alone, Settings()), rejudge(source, Settings())
    assert expected.incidents
    assert found.incidents.keys() == expected.incidents.keys()


def test_a_range_at_a_speed_comes_in_small_bites_each_in_its_time(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(there.kafka, "power", power(*range(600)))
    settings = Settings().model_copy(update={"kafka": there.kafka})
    spec = f"kafka:{there.kafka.topic_prefix}power@{at(0).isoformat()}..{at(600).isoformat()}"
    slept: list[float] = []
    source = paced(source_for(spec, settings, speed=60.0), 60.0, lambda: 0.0, slept.append)
    arrivals = list(source.arrivals({}))
    assert len(arrivals) >= 3
    # on a clock that stands still the last bite waits for all of the event time since the first, divided by speed
    event_seconds = (arrivals[-1].batch.now - arrivals[0].batch.now).total_seconds()
    assert 200 <= event_seconds <= 600
    assert max(slept) == pytest.approx(event_seconds / 60)


def test_messages_that_the_broker_has_removed_are_one_line(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(there.kafka, "power", power(*range(40)))
    remove(there, "power", 25)
    with pytest.raises(SourceError, match=r"power partition 0: the broker has removed messages up to offset 24.*left"):
        list(kafka_source(there.kafka, topology(), window=(at(0), at(40))).arrivals({}))


def test_a_range_within_a_topics_retention_is_read_though_older_messages_are_gone(
    broker: Broker, tmp_path: Path
) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(there.kafka, "power", power(*range(40)))
    remove(there, "power", 25)
    with admin(there.kafka) as client:
        topic = f"{there.kafka.topic_prefix}power"
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "-1"})])
    arrivals = list(kafka_source(there.kafka, topology(), window=(at(0), at(40))).arrivals({}))
    assert sum(frame.height for arrival in arrivals for frame in arrival.batch.tables.values()) == 15


def test_a_range_without_a_row_is_one_line(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(there.kafka, "power", power(*range(10)))
    with pytest.raises(SourceError, match=r"power: no row is from 2"):
        list(kafka_source(there.kafka, topology(), window=(at(100), at(200))).arrivals({}))
