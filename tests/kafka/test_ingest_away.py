"""A broker that is away: one line that names it, in time; one that goes away in the middle: the next pass goes on."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pipelines.sources.contract import SourceError
from pipelines.sources.kafka_client import producer
from tests.kafka.broker import Broker
from tests.kafka.ingest_child import DETECTORS
from tests.kafka.streaming import Place, contents, kafka_source, place, produce, run
from tests.kafka.test_ingest import power
from tests.pipelines.telemetry_rows import topology

pytestmark = pytest.mark.kafka
MAIN = "from pipelines.cli.main import main; main()"
NOBODY = "127.0.0.1:9"


def away(there: Place) -> Place:
    return Place(there.kafka.model_copy(update={"bootstrap_servers": NOBODY, "timeout_seconds": 1.0}), there.folder)


def test_nobody_there_is_told_in_time_and_leaves_nothing_behind(broker: Broker, tmp_path: Path) -> None:
    there = away(place(broker, tmp_path))
    threads, began = threading.active_count(), time.monotonic()
    for _ in range(3):
        with pytest.raises(SourceError, match=r"^kafka: 127\.0\.0\.1:9 over PLAINTEXT: no answer"):
            run(kafka_source(there.kafka, topology()), tmp_path, DETECTORS)
    assert time.monotonic() - began < 15
    assert threading.active_count() == threads


@pytest.mark.parametrize("command", [["ingest", "--from", "kafka"], ["simulate", "healthy", "--to", "kafka"]])
def test_the_command_line_says_so_in_one_line_and_ends_with_two(
    broker: Broker, tmp_path: Path, command: list[str]
) -> None:
    settings = away(place(broker, tmp_path)).write_settings()
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *command, "--settings", str(settings)], capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert NOBODY in done.stderr


def test_a_broker_that_goes_away_in_the_middle_is_told_and_the_next_pass_goes_on(
    own_broker: Broker, tmp_path: Path
) -> None:
    there = place(own_broker, tmp_path, partitions=1, timeout_seconds=2.0)
    produce(there.kafka, "power", power(*range(100)))
    source = kafka_source(there.kafka, topology(), batch=10)

    class Cut:
        """The source, with the broker stopped after the third arrival and what the client had fetched used up."""

        def __getattr__(self, name: str) -> object:
            return getattr(source, name)

        def arrivals(self, offsets: object) -> object:
            for number, arrival in enumerate(source.arrivals(offsets)):  # type: ignore[arg-type]
                yield arrival
                if number == 2:
                    own_broker.stop()
                    raise SourceError("kafka: gone")

    with pytest.raises(SourceError):
        run(Cut(), tmp_path, DETECTORS)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=rf"kafka: {own_broker.bootstrap_servers} over PLAINTEXT: no answer"):
        run(source, tmp_path, DETECTORS)
    own_broker.start()
    tally = run(source, tmp_path, DETECTORS)
    assert tally.rows == {"power": 70}
    assert len(contents(tmp_path)["power"]) == 100


def test_a_follower_is_told_when_its_broker_goes_away(own_broker: Broker, tmp_path: Path) -> None:
    there = place(own_broker, tmp_path, partitions=1, timeout_seconds=2.0)
    produce(there.kafka, "power", power(1))
    source = kafka_source(there.kafka, topology(), following=lambda: True)
    try:
        arrivals = source.arrivals({})
        assert next(arrivals).batch.tables["power"].height == 1
        own_broker.stop()
        began = time.monotonic()
        with pytest.raises(SourceError, match="no answer"):
            list(arrivals)
        assert time.monotonic() - began < 20
    finally:
        own_broker.start()


def send_to_nobody(there: Place, own_broker: Broker) -> None:
    with producer(there.kafka) as client:
        own_broker.stop()
        client.send(f"{there.kafka.topic_prefix}power", b"{}")


def test_a_sender_is_told_too(own_broker: Broker, tmp_path: Path) -> None:
    there = place(own_broker, tmp_path, partitions=1, timeout_seconds=2.0)
    produce(there.kafka, "power", power(1))
    try:
        with pytest.raises(SourceError, match="no answer"):
            send_to_nobody(there, own_broker)
    finally:
        own_broker.start()


def test_serve_waits_for_a_broker_that_is_away_and_says_so(broker: Broker, tmp_path: Path) -> None:
    settings = away(place(broker, tmp_path)).write_settings()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", MAIN, "serve", "--port", str(port), "--settings", str(settings)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        try:
            said = [process.stderr.readline() for _ in range(2)]
        finally:
            process.terminate()
            rest = process.stderr.read()
    assert all("source_away" in line and NOBODY in line and "again_in_seconds" in line for line in said)
    assert "Traceback" not in rest
