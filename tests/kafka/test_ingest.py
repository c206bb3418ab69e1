"""A scenario sent to a real broker and read from it again gives what the scenario itself gives, however it is cut."""

import threading
import time
from datetime import timedelta
from pathlib import Path

import msgspec
import polars as pl
import pytest
from kafka import TopicPartition

from detectors.catalog import CATALOG
from pipelines.sources.contract import SourceError
from pipelines.sources.kafka import NEWEST
from pipelines.sources.kafka_client import admin, consumer
from pipelines.sources.kafka_positions import NO_GAPS, poll
from pipelines.telemetry_store import TelemetryStore
from replay.simulate import topology_of
from tests.kafka.broker import Broker
from tests.kafka.ingest_child import DETECTORS
from tests.kafka.streaming import (
    contents,
    incidents,
    kafka_source,
    place,
    produce,
    run,
    scenario,
    scenario_run,
    send_scenario,
)
from tests.pipelines.telemetry_rows import at, topology

pytestmark = pytest.mark.kafka


def gpu(*seconds: int) -> list[bytes]:
    return [msgspec.json.encode({"time": at(second), "node": "n00000", "gpu": 0}) for second in seconds]


def power(*seconds: int, pdu: str = "pdu-00") -> list[bytes]:
    return [msgspec.json.encode({"time": at(second), "pdu": pdu, "watts": 1.0}) for second in seconds]


def test_kafka_gives_what_the_scenario_gives(broker: Broker, tmp_path: Path) -> None:
    chosen = scenario()
    there = place(broker, tmp_path / "kafka")
    send_scenario(chosen, there.kafka)
    run(kafka_source(there.kafka, topology_of(chosen)), there.folder, CATALOG)
    scenario_run(chosen, tmp_path / "scenario", CATALOG)
    ours, expected = contents(there.folder), contents(tmp_path / "scenario")
    for name in expected:
        assert ours[name] == expected[name], name
    assert {cause for _, _, cause, *_ in expected["findings"]} >= {"coolant_pump_failure"}
    assert incidents(there.folder) == incidents(tmp_path / "scenario")


def test_batches_and_partitions_change_nothing(broker: Broker, tmp_path: Path) -> None:
    chosen = scenario("kafka_coolant")
    scenario_run(chosen, tmp_path / "scenario", DETECTORS)
    expected = contents(tmp_path / "scenario") | {"incidents": incidents(tmp_path / "scenario")}
    assert expected["incidents"]
    for partitions, batch in ((1, 1000), (4, 29)):
        sent = place(broker, tmp_path / f"{partitions}", partitions=partitions)
        send_scenario(chosen, sent.kafka, window_seconds=20)
        folder = tmp_path / f"{partitions}-{batch}"
        run(kafka_source(sent.kafka, topology_of(chosen), batch=batch), folder, DETECTORS)
        found = contents(folder) | {"incidents": incidents(folder)}
        for name in expected:
            assert found[name] == expected[name], (partitions, batch, name)
        if partitions == 1:
            one_by_one = tmp_path / "1-1"
            tally = run(kafka_source(sent.kafka, topology_of(chosen), batch=1), one_by_one, DETECTORS, stored=False)
            assert tally.findings == len(expected["findings"])
            assert tally.rows == {name: len(expected[name]) for name in chosen.tables}
            assert incidents(one_by_one) == expected["incidents"]


def test_a_second_pass_finds_nothing_and_a_third_what_has_come_since(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(there.kafka, "power", power(1, 2))
    assert run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS).rows == {"power": 2}
    assert run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS).rows == {}
    produce(there.kafka, "power", power(3))
    assert run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS).rows == {"power": 1}
    assert len(contents(tmp_path)["power"]) == 3


def test_partitions_that_run_ahead_are_held_back_and_read_in_the_end(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1, ahead_seconds=10)
    produce(there.kafka, "power", power(*range(0, 400, 4)))
    produce(there.kafka, "gpu", gpu(*range(100)))
    arrivals = list(kafka_source(there.kafka, topology(), batch=5).arrivals({}))
    slowest, waiting = at(0), 0.0
    for arrival in arrivals:
        for frame in arrival.batch.tables.values():
            if not frame.is_empty() and "gpu" in arrival.batch.tables and arrival.batch.now < at(98):
                waiting = max(waiting, (frame["time"].max() - arrival.batch.now).total_seconds())
        assert arrival.batch.now >= slowest - timedelta(seconds=1)
    assert waiting < 60
    rows = [frame for arrival in arrivals for frame in arrival.batch.tables.values()]
    assert sum(frame.height for frame in rows) == 200


def test_the_watermark_never_passes_what_is_still_to_come(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=2)
    produce(there.kafka, "power", [{"value": one, "partition": 0} for one in power(*range(0, 300, 3))])
    produce(there.kafka, "power", [{"value": one, "partition": 1} for one in power(*range(90), pdu="pdu-01")])
    produce(there.kafka, "gpu", gpu(*range(50, 60)))
    now, rows = at(-10), 0
    for arrival in kafka_source(there.kafka, topology(), batch=7).arrivals({}):
        for frame in arrival.batch.tables.values():
            assert frame.filter(pl.col("time") < now).is_empty()
            rows += frame.height
        now = max(now, arrival.batch.now)
    assert (now, rows) == (at(296), 200)


def test_a_topic_of_nothing_but_malformed_messages_does_not_hold_the_others(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(there.kafka, "gpu", [b"{"] * 30)
    tally = run(kafka_source(there.kafka, topology(), batch=4), tmp_path, DETECTORS)
    assert (tally.quarantined, dict(tally.rows)) == (30, {})
    produce(there.kafka, "gpu", [b"{"] * 30)
    produce(there.kafka, "power", power(10, 20))
    tally = run(kafka_source(there.kafka, topology(), batch=4), tmp_path, DETECTORS)
    assert (tally.quarantined, dict(tally.rows), tally.now) == (30, {"power": 2}, at(19))
    assert tally.began == at(10), "a stream begins with its first row, not with a message that could not be read"


def test_empty_topics_end_at_once(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path)
    produce(there.kafka, "gpu", [])
    assert list(kafka_source(there.kafka, topology()).arrivals({})) == []


def test_without_topics_it_is_said_how_to_make_some(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path)
    with pytest.raises(SourceError, match=rf"has no topic {there.kafka.topic_prefix}<table>; `hotspare simulate"):
        list(kafka_source(there.kafka, topology()).arrivals({}))


def test_messages_that_retention_took_are_a_gap_in_the_quarantine_once(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(there.kafka, "power", power(1, 2))
    run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS)
    produce(there.kafka, "power", power(3, 4, 5, 6))
    with admin(there.kafka) as client:
        client.delete_records({TopicPartition(f"{there.kafka.topic_prefix}power", 0): 4})
        tally = run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS)
    assert (tally.rows, tally.quarantined) == ({"power": 2}, 1)
    [gap] = TelemetryStore(tmp_path / "telemetry.duckdb").query("select * from quarantine").to_dicts()
    assert (gap["rule"], gap["partition"], gap["offset"]) == ("kafka|gap", 0, 2)
    assert gap["reason"].endswith("offsets 2 to 3 were removed before they were read")
    assert run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS).quarantined == 0


def test_messages_that_retention_takes_while_reading_are_a_gap_too(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(there.kafka, "power", power(*range(6)))
    one = TopicPartition(f"{there.kafka.topic_prefix}power", 0)
    with admin(there.kafka) as deleting:
        deleting.delete_records({one: 4})
    with consumer(there.kafka) as client:
        client.assign([one])
        client.seek(one, 2)
        gaps = NO_GAPS
        while gaps.is_empty():
            records, gaps = poll(client, 200)
            assert not records
        assert gaps["offset"].to_list() == [2]
        assert gaps["reason"].item().endswith("offsets 2 to 3 were removed while reading")
        assert client.position(one) == 4


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    topic = f"{there.kafka.topic_prefix}power"
    produce(there.kafka, "power", power(1, 2, 3))
    run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS)
    with admin(there.kafka) as client:
        client.delete_topics([topic])
        deadline = time.monotonic() + 20
        while topic in client.list_topics() and time.monotonic() < deadline:
            time.sleep(0.05)
    produce(there.kafka, "power", power(4))
    tally = run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS)
    assert (tally.rows, tally.quarantined) == ({"power": 1}, 1)


def test_a_window_takes_the_rows_of_its_event_times(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=2)
    produce(there.kafka, "power", [{"value": one, "partition": 0} for one in power(*range(300))])
    produce(there.kafka, "power", [{"value": one, "partition": 1} for one in power(*range(300), pdu="pdu-01")])
    source = kafka_source(there.kafka, topology(), batch=20, window=(at(10), at(20)))
    arrivals = list(source.arrivals({}))
    rows = pl.concat([frame for arrival in arrivals for frame in arrival.batch.tables.values()])
    assert sorted(rows["time"].to_list()) == sorted([at(second) for second in range(10, 20)] * 2)
    assert arrivals[-1].batch.now == at(20)


def test_a_follower_takes_what_comes_until_it_is_told_to_stop(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    produce(there.kafka, "power", power(1))
    stop = threading.Event()
    seen: list[int] = []

    def follow() -> bool:
        return not stop.is_set()

    for arrival in kafka_source(there.kafka, topology(), following=follow).arrivals({}):
        seen.append(sum(frame.height for frame in arrival.batch.tables.values()))
        if sum(seen) == 1:
            produce(there.kafka, "power", power(2, 3))
        if sum(seen) == 3:
            stop.set()
    assert sum(seen) == 3


def test_progress_is_kept_beside_the_rows(broker: Broker, tmp_path: Path) -> None:
    there = place(broker, tmp_path, partitions=1)
    topic = f"{there.kafka.topic_prefix}power"
    produce(there.kafka, "power", power(1, 2, 3))
    run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS)
    stored = TelemetryStore(tmp_path / "telemetry.duckdb").offsets("kafka")
    assert stored == {(topic, 0): 3, (f"{topic}{NEWEST}", 0): int(at(3).timestamp() * 1_000_000)}
