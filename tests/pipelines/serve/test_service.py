"""The threads of `serve` stand and fall together."""

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from detectors.correlation_state import Correlation
from pipelines.engine import Engine
from pipelines.operations_database import StoreUnavailable
from pipelines.operations_store import OperationsStore
from pipelines.serve.ahead import Ahead
from pipelines.serve.service import Service, lasting
from pipelines.settings import KafkaSettings, Settings, StoreSettings, TopologySettings
from tests.pipelines.notify.test_page import T0, incident
from tests.pipelines.serve.test_ahead import TOPOLOGY


def settings_in(folder: Path) -> Settings:
    return Settings(
        kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1"), topology=TopologySettings(parameters={"pods": 1}),
        store=StoreSettings(telemetry=folder / "t.duckdb"),
    )  # fmt: skip


def test_a_service_that_no_longer_looks_ahead_ends_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        raise StoreUnavailable("operations store o.sqlite: database is locked")

    monkeypatch.setattr(Ahead, "look_at_beats", locked)
    operations = OperationsStore.open(":memory:")
    with pytest.raises(StoreUnavailable, match="is locked"):
        Service(settings_in(tmp_path), operations, threading.Event()).run()
    operations.close()


@pytest.mark.parametrize(("behind", "expected"), [(timedelta(minutes=1), {"inc-2"}), (timedelta(hours=2), set())])
def test_what_lasts_now_is_what_telemetry_of_now_shows_to_last(behind: timedelta, expected: set[str]) -> None:
    over, firing = replace(incident(), id="inc-1", state="resolved"), replace(incident(), id="inc-2")
    begun = Engine(detectors=(), topology=TOPOLOGY, intervals_seconds={}).start(T0)
    state = replace(begun, correlation=Correlation(incidents=(over, firing)))
    assert lasting(state, T0 + behind, timedelta(hours=1)) == expected
