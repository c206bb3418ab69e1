"""What serve says to probes, scrapers and programs: as Prometheus itself reads it, and a client without a socket."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.operations_store import OperationsStore
from pipelines.serve.lane import LaneFigures, Mark
from pipelines.serve.service import Figures
from pipelines.stream import Tally
from pipelines.web.console import console_app
from pipelines.web.metrics import metrics_text
from schemas.incident import Incident

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
WELL = Figures(
    tally=Tally(rows={"gpu": 12, "heartbeat": 30}, findings=2, quarantined=1, now=NOW - timedelta(seconds=1.5)),
    lanes={
        "events": LaneFigures(trouble=None, caught_up=True, mark=Mark(now=NOW - timedelta(seconds=1))),
        "metrics": LaneFigures(trouble=None, caught_up=True, lag=7, messages=40),
    },
    waiting_rows={"events": 0, "metrics": 5}, unwritten_rows=3, held=None, trouble=None, ready=True, alive=True,
    steps=9, told_ahead=4, withdrawn=1, latencies_seconds=(0.03, 0.01, 0.02, 0.2), step_latencies_seconds=(0.5, 0.25),
    now=NOW,
)  # fmt: skip
LOST = Incident(
    id="inc-1", cause="node_lost", severity="page", state="firing", root_kind="node", roots=("n1",), members=(),
    symptoms=(), starts_at=NOW, detected_at=NOW, ends_at=None, evidence=(),
)  # fmt: skip


@pytest.fixture
def operations() -> Iterator[OperationsStore]:
    store = OperationsStore.open(":memory:")
    store.upsert_incidents([LOST, replace(LOST, id="inc-2", roots=("n2",))], NOW)
    yield store
    store.close()


def samples(figures: Figures, operations: OperationsStore) -> dict[str, float]:
    """By name and labels. Raises ValueError where Prometheus would not take the text."""
    families = text_string_to_metric_families(metrics_text(figures, operations))
    return {
        f"{one.name}{sorted(one.labels.items())}" if one.labels else one.name: one.value
        for family in families
        for one in family.samples
    }


def test_prometheus_reads_what_serve_says(operations: OperationsStore) -> None:
    said = samples(WELL, operations)
    assert said["hotspare_rows_total[('table', 'heartbeat')]"] == 30
    assert said["hotspare_lane_lag_messages[('lane', 'metrics')]"] == 7
    assert said["hotspare_incidents[('cause', 'node_lost'), ('severity', 'page')]"] == 2
    assert said["hotspare_behind_seconds"] == 1.5
    assert said["hotspare_store_held"] == 0


def test_latencies_are_quantiles_of_the_last_ones_and_a_count_of_all(operations: OperationsStore) -> None:
    said = samples(WELL, operations)
    assert said["hotspare_ahead_seconds[('quantile', '0.99')]"] == 0.2
    assert said["hotspare_ahead_seconds_count"] == 4
    assert said["hotspare_step_seconds[('quantile', '0.99')]"] == 0.5
    assert said["hotspare_step_seconds_count"] == 9


def test_before_anything_was_judged_there_is_nothing_to_say_of_time(operations: OperationsStore) -> None:
    new = replace(WELL, tally=Tally(), latencies_seconds=(), step_latencies_seconds=())
    said = samples(new, operations)
    assert not {name for name in said if "behind" in name or "ahead_seconds" in name or "step_seconds" in name}


def ask(figures: Figures, operations: OperationsStore, path: str) -> httpx.Response:
    async def asked() -> httpx.Response:
        app = console_app(operations, lambda: figures)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://hotspare") as client:
            return await client.get(path)

    return asyncio.run(asked())


@pytest.mark.parametrize(
    ("path", "changes", "status"),
    [
        ("/healthz", {}, 200), ("/healthz", {"alive": False}, 503), ("/readyz", {}, 200),
        ("/readyz", {"ready": False, "trouble": "events lane: away"}, 503),
        ("/healthz", {"ready": False, "trouble": "events lane: away"}, 200),  # a restart would not help
    ],
)  # fmt: skip
def test_probes_tell_what_is_stuck_from_what_is_not_ready(
    operations: OperationsStore, path: str, changes: dict[str, Any], status: int
) -> None:
    assert ask(replace(WELL, **changes), operations, path).status_code == status


def test_a_program_reads_what_is_open_and_how_serve_stands(operations: OperationsStore) -> None:
    found = ask(WELL, operations, "/api/incidents").json()
    assert {one["id"] for one in found["incidents"]} == {"inc-1", "inc-2"}
    assert found["serve"]["lag_messages"] == {"events": 0, "metrics": 7}
