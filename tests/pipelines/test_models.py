"""Nightly models: learned from the store, frozen as JSON, and what cannot be learned keeps yesterday's model."""

import json
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import numpy as np
import pytest

from detectors.learned.training import Unfit
from detectors.learned.wide_table import frozen_from, judge
from pipelines.assets.ingest import IngestConfig, ingest
from pipelines.assets.models import LEARNED, learned_from, learned_models
from pipelines.settings import settings_from
from pipelines.workplace import Workplace

LATER = datetime(2026, 3, 2, 10, tzinfo=UTC)
SCENARIO = """
name = "loops"
seed = 3
starts_at = 2026-03-02T09:00:00Z
duration_seconds = 1500
tables = ["coolant_loop", "power"]
[topology.parameters]
pods = 1
superblocks_per_pod = 1
nodes_per_superblock = 8
nodes_per_leaf = 8
nodes_per_pdu = 4
nodes_per_cdu = 4
[[fault]]
fault = "coolant_leak"
at_seconds = 240
entity = "cdu-01"
parameters = { percent_per_minute = 6.0 }
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    folder = tmp_path_factory.mktemp("models")
    (folder / "loops.toml").write_text(SCENARIO)
    values = {
        "store": {
            "telemetry": str(folder / "t.duckdb"), "operations": str(folder / "o.sqlite"),
            "actions": str(folder / "a.jsonl"),
        }
    }  # fmt: skip
    place = Workplace(settings=settings_from(values, "test"), clock=lambda: LATER)
    config = dg.RunConfig(ops={"ingest": IngestConfig(source=str(folder / "loops.toml"))})
    with dg.DagsterInstance.ephemeral() as instance:
        assert dg.materialize([ingest], resources={"workplace": place}, instance=instance, run_config=config).success
        assert dg.materialize([learned_models], resources={"workplace": place}, instance=instance).success
    return place


def frozen_file(place: Workplace, table: str) -> Path:
    return place.settings.store.telemetry.parent / "models" / f"{table}.json"


def test_every_loop_and_domain_has_a_model_or_a_reason(place: Workplace) -> None:
    for table, entities in (("coolant_loop", {"cdu-00", "cdu-01"}), ("power", {"pdu-000", "pdu-001"})):
        document = json.loads(frozen_file(place, table).read_bytes())
        assert set(document["models"]) | set(document["refused"]) == entities


def test_a_frozen_model_judges_the_rows_that_it_was_learned_from_as_normal(place: Workplace) -> None:
    document = json.loads(frozen_file(place, "power").read_bytes())
    frozen = frozen_from(document)
    rows = place.telemetry.window("power", datetime(2026, 3, 2, 9, tzinfo=UTC), LATER).sort("time", "pdu")
    for judged in judge(rows, frozen):
        assert np.mean(judged.scores >= document["threshold"]) < 0.05


def test_an_empty_day_is_refused_and_the_old_model_stays(place: Workplace) -> None:
    empty = place.telemetry.window("power", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
    with pytest.raises(Unfit, match="no row of it in the last day"):
        learned_from(empty, LEARNED[1])
    before = frozen_file(place, "power").read_bytes()
    tomorrow = Workplace(settings=place.settings, clock=lambda: datetime(2026, 3, 9, tzinfo=UTC))
    with dg.DagsterInstance.ephemeral() as instance:
        assert dg.materialize([learned_models], resources={"workplace": tomorrow}, instance=instance).success
    assert frozen_file(place, "power").read_bytes() == before
