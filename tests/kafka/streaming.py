"""Scenarios sent to a broker and streams read from it, for the tests of the way in. Every test has its own topics."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from kafka import KafkaAdminClient, KafkaProducer

from detectors.contract import Detector
from pipelines.operations_store import OperationsStore
from pipelines.settings import KafkaSettings, LimitSettings, Settings
from pipelines.sources.choose import scenario_source
from pipelines.sources.contract import Source
from pipelines.sources.kafka import KafkaSource
from pipelines.sources.kafka_sink import send
from pipelines.stream import Responder, Stream, Tally
from pipelines.telemetry_schema import STORED
from pipelines.telemetry_store import TelemetryStore
from replay.scenario import Scenario, load_scenario
from replay.simulate import simulate, topology_of
from schemas.topology import Topology
from tests.kafka.broker import Broker

DATA = Path(__file__).parents[1] / "data" / "scenarios"
Contents = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Place:
    """Settings of one test: topics of its own, and stores in a folder."""

    kafka: KafkaSettings
    folder: Path

    @property
    def store(self) -> TelemetryStore:
        return TelemetryStore(self.folder / "telemetry.duckdb")

    def write_settings(self, **kafka: Any) -> Path:
        """A hotspare.toml for this place, with more kafka settings."""
        values = self.kafka.model_dump(exclude_defaults=True, mode="json") | kafka
        lines = [f"{key} = {_toml(value)}" for key, value in values.items()]
        store = {
            "telemetry": self.folder / "telemetry.duckdb",
            "operations": self.folder / "operations.sqlite",
            "actions": self.folder / "actions.jsonl",
        }
        path = self.folder / "hotspare.toml"
        path.write_text(
            "\n".join(["[kafka]", *lines, "[store]", *(f'{key} = "{value}"' for key, value in store.items()), ""])
        )
        return path


def _toml(value: Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else str(value)
        if isinstance(value, int | float)
        else f'"{value}"'
    )


def place(broker: Broker, folder: Path, **kafka: Any) -> Place:
    folder.mkdir(parents=True, exist_ok=True)
    return Place(
        KafkaSettings(bootstrap_servers=broker.bootstrap_servers, topic_prefix=f"t{uuid.uuid4().hex[:10]}.", **kafka),
        folder,
    )


def scenario(name: str = "kafka_small") -> Scenario:
    return load_scenario(str(DATA / f"{name}.toml"))


def send_scenario(chosen: Scenario, kafka: KafkaSettings, window_seconds: int = 30) -> int:
    topology = topology_of(chosen)
    return send(simulate(chosen, topology, window_seconds=window_seconds), topology, kafka, lambda *_: None)


def kafka_source(
    kafka: KafkaSettings, topology: Topology, *, batch: int = 5000, message_bytes_maximum: int = 2**24, **more: Any
) -> KafkaSource:
    limits = LimitSettings(batch_messages_maximum=batch, message_bytes_maximum=message_bytes_maximum)
    return KafkaSource(settings=kafka, limits=limits, formats={}, topology=topology, **more)


def run(source: Source, folder: Path, detectors: Sequence[Detector], *, stored: bool = True) -> Tally:
    """One pass of the source into the stores of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    operations = OperationsStore.open(folder / "operations.sqlite")
    try:
        responder = Responder(operations=operations, settings=Settings().recovery, executors={})
        store = TelemetryStore(folder / "telemetry.duckdb") if stored else None
        return Stream(source=source, detectors=tuple(detectors), responder=responder, store=store).run()
    finally:
        operations.close()


def scenario_run(chosen: Scenario, folder: Path, detectors: Sequence[Detector]) -> Tally:
    return run(scenario_source(chosen), folder, detectors)


def contents(folder: Path) -> Contents:
    """All rows of all tables, sorted; health summed per source, since how it is cut depends on the batches."""
    with duckdb.connect(str(folder / "telemetry.duckdb"), read_only=True) as connection:
        connection.execute("set timezone = 'UTC'")
        found = {
            name: sorted(connection.execute(f"select * from {name}").fetchall(), key=repr)
            for name, _ in STORED
            if name != "telemetry_health"
        }
        found["telemetry_health"] = connection.execute(
            'select "table", source, sum("rows"), sum(late), sum(quarantined) from telemetry_health '
            "group by all order by all"
        ).fetchall()
    return found


def offsets(folder: Path) -> dict[tuple[str, int], int]:
    """Next offset of each partition that has any, and the newest event times that go with them."""
    return {key: value for key, value in TelemetryStore(folder / "telemetry.duckdb").offsets("kafka").items() if value}


def incidents(folder: Path) -> list[tuple[Any, ...]]:
    operations = OperationsStore.open(folder / "operations.sqlite")
    try:
        return sorted(
            (
                one.id,
                one.cause,
                one.roots,
                one.members,
                one.state,
                one.severity,
                one.starts_at,
                one.detected_at,
                one.ends_at,
            )
            for one in operations.incidents()
        )
    finally:
        operations.close()


def produce(
    kafka: KafkaSettings, table: str, messages: Iterable[Mapping[str, Any] | bytes | None], **options: Any
) -> None:
    """Send messages (value, or keyword arguments of KafkaProducer.send) to one topic, made if it is missing."""
    topic = f"{kafka.topic_prefix}{table}"
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        if topic not in admin.list_topics():
            admin.create_topics({topic: {"num_partitions": kafka.partitions}}, wait_for_metadata=True)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, acks="all", **options) as client:
        futures = [client.send(topic, **(one if isinstance(one, Mapping) else {"value": one})) for one in messages]
        for future in futures:
            future.get(10)


def frames(folder: Path, query: str) -> pl.DataFrame:
    return TelemetryStore(folder / "telemetry.duckdb").query(query)
