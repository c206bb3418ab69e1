"""An ingest from Kafka in a process of its own, to be killed."""

from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from detectors.contract import Detector
from detectors.coolant.pump_failure import PumpFailure
from pipelines.lease import ingesting
from pipelines.operations_store import OperationsStore
from pipelines.settings import KafkaSettings
from replay.simulate import topology_of
from tests.kafka.streaming import kafka_source, run, scenario
from tests.pipelines.telemetry_rows import Hot

DETECTORS: tuple[Detector, ...] = (PumpFailure(), Hot())


def ingest(kafka: dict[str, Any], folder: Path, batch: int, scenario_name: str, begins: Event) -> None:
    """One pass with the lease held, as the command line makes it. begins: set when everything is imported."""
    source = kafka_source(KafkaSettings(**kafka), topology_of(scenario(scenario_name)), batch=batch)
    begins.set()
    folder.mkdir(parents=True, exist_ok=True)
    operations = OperationsStore.open(folder / "operations.sqlite")
    with ingesting(operations):
        run(source, folder, DETECTORS)
    operations.close()
