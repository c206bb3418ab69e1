"""The threads of `serve` stand and fall together."""

import threading
from pathlib import Path

import pytest

from pipelines.operations_database import StoreUnavailable
from pipelines.operations_store import OperationsStore
from pipelines.serve.ahead import Ahead
from pipelines.serve.service import Service
from pipelines.settings import KafkaSettings, Settings, StoreSettings, TopologySettings


def test_a_service_that_no_longer_looks_ahead_ends_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        raise StoreUnavailable("operations store o.sqlite: database is locked")

    monkeypatch.setattr(Ahead, "look_at_beats", locked)
    operations = OperationsStore.open(":memory:")
    settings = Settings(
        kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1"), topology=TopologySettings(parameters={"pods": 1}),
        store=StoreSettings(telemetry=tmp_path / "t.duckdb"),
    )  # fmt: skip
    with pytest.raises(StoreUnavailable, match="is locked"):
        Service(settings, operations, threading.Event()).run()
    operations.close()
