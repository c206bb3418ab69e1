"""One incident of a small scenario in stores of its own, with what two people said about it, and its bundle."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from pipelines.bundles.bundle import Bundle, encode
from pipelines.bundles.export import export
from pipelines.operations_store import OperationsStore
from pipelines.settings import Settings, stored_in
from pipelines.sources.choose import source_for
from pipelines.telemetry_store import TelemetryStore
from pipelines.workplace import Workplace
from schemas.incident import Incident

SAID = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)


class Place(NamedTuple):
    settings: Settings
    telemetry: TelemetryStore
    operations: OperationsStore
    incident: Incident

    def export(self, settings: Settings | None = None) -> Bundle:
        return export(self.incident, settings or self.settings, self.telemetry, self.operations, datetime.now(UTC))


@pytest.fixture(scope="package")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    settings = stored_in(Settings(), tmp_path_factory.mktemp("bundles"))
    operations = OperationsStore.open(settings.store.operations)
    Workplace(settings=settings).stream(source_for("gpu_fallen_off_bus", settings), operations).run()
    (incident,) = operations.incidents()
    operations.acknowledge(incident.id, "maria.lopez", "on it", SAID)
    text = f"maria.lopez: {incident.roots[0]} at 10.1.2.3 is out, ask jo"
    operations.note(incident.id, "jo", text, SAID)
    return Place(settings, TelemetryStore(settings.store.telemetry), operations, operations.incident(incident.id))


@pytest.fixture(scope="package")
def bundle(place: Place) -> Bundle:
    return place.export()


@pytest.fixture
def file(bundle: Bundle, tmp_path: Path) -> Path:

    path = tmp_path / "incident.hotspare"
    path.write_bytes(encode(bundle))
    return path
