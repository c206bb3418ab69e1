"""Rounds of event time behind a replay."""

from datetime import UTC, datetime

import polars as pl
import pytest

from detectors.catalog import CATALOG
from detectors.contract import NO_FINDINGS
from pipelines.engine import Batch, Engine
from pipelines.rounds import Side
from pipelines.settings import Settings
from schemas.tables import TABLE_BY_NAME
from schemas.topology_presets import build

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_decades_of_which_nothing_is_said_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[datetime] = []
    monkeypatch.setattr(Side, "_round", lambda _side, at, _engine, _state: rounds.append(at))
    engine = Engine(detectors=CATALOG, topology=build("ndr-fat-tree", pods=1), intervals_seconds={})
    side = Side(Settings())
    state = engine.step(engine.start(datetime(1970, 1, 1, tzinfo=UTC)), Batch(tables={}, now=NOW)).state
    stop = {"time": datetime(2026, 3, 2, 11, 59, 45, tzinfo=UTC), "job": "train", "kind": "stop"}
    told = pl.DataFrame([stop], schema_overrides=TABLE_BY_NAME["job_event"].columns, strict=False)
    columns = TABLE_BY_NAME["job_event"].columns
    side.hear(NO_FINDINGS, {"job_event": told.match_to_schema(columns, missing_columns="insert")}, engine, state)
    assert rounds == [datetime(2026, 3, 2, 11, 59, 50, tzinfo=UTC), NOW]
    side.close()
