"""An incident of the events lane is told before the engine gets there; the engine has the last word."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from detectors.catalog import CATALOG
from pipelines.engine import Batch, Engine, EngineState, Step
from pipelines.intake import Intake, joined
from pipelines.operations_store import OperationsStore
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.settings import RecoverySettings
from pipelines.serve.ahead import Ahead
from pipelines.serve.lane import LaneArrival, Mark
from pipelines.stream import Judged, Responder
from schemas.identity import identities_from
from schemas.tables import TABLE_BY_NAME
from schemas.topology import ALIAS_COLUMNS
from schemas.topology_presets import build

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
TOPOLOGY = build("ndr-fat-tree", pods=1, superblocks_per_pod=1, nodes_per_superblock=4, nodes_per_leaf=4)
ALIASES = pl.DataFrame(schema=ALIAS_COLUMNS)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def rows(table: str, *given: dict[str, Any]) -> pl.DataFrame:
    columns = TABLE_BY_NAME[table].columns
    return pl.DataFrame([{name: one.get(name) for name in columns} for one in given], schema=columns, orient="row")


def fallen(seconds: float, node: str = "n00001", gpu: int = 3) -> pl.DataFrame:
    line = {"time": at(seconds), "node": node, "gpu": gpu, "kind": "xid", "code": 79, "message": "fallen off the bus"}
    return rows("gpu_event", line)


@dataclass
class Bench:
    """An engine with its state, and the look ahead beside it."""

    operations: OperationsStore
    engine: Engine
    ahead: Ahead
    state: EngineState
    number: int = 0
    lags: dict[str, timedelta] = field(default_factory=dict)

    def judge(self, seconds: float, number: int = 0, **tables: pl.DataFrame) -> None:
        step = self.engine.step(self.state, Batch(tables=tables, now=at(seconds), lags=self.lags))
        self.state = step.state
        self.operations.upsert_incidents(step.incidents, at=self.state.now)
        identities = identities_from(self.engine.topology, ALIASES)
        judged = Judged(
            state=step.state, incidents=step.incidents, identities=identities, said=ALIASES, lags=self.lags
        )  # fmt: skip
        self.ahead.commit(judged, number)

    def hear(self, seconds: float, **tables: pl.DataFrame) -> int:
        self.number += 1
        self.ahead.heard(
            LaneArrival(
                lane="events", number=self.number, intake=Intake(tables, joined([]).quarantined, {}), offsets={},
                mark=Mark(), until=at(seconds) + timedelta(microseconds=1), polled=0.0,
            )
        )  # fmt: skip
        return self.number


@pytest.fixture
def bench() -> Iterator[Bench]:
    operations = OperationsStore.open(":memory:")
    engine = Engine(detectors=CATALOG, topology=TOPOLOGY, intervals_seconds={})
    responder = Responder(
        operations=operations, settings=RecoverySettings(), executors={}, clock=lambda: at(100)
    )  # fmt: skip
    ahead = Ahead(detectors=CATALOG, topology=TOPOLOGY, intervals_seconds={}, responder=responder)
    yield Bench(operations, engine, ahead, engine.start(NOON))
    operations.close()


def test_a_fatal_event_is_told_while_the_engine_waits_for_metrics(bench: Bench) -> None:
    bench.judge(10)
    bench.hear(40, gpu_event=fallen(40))
    (told,) = bench.operations.incidents()
    assert (told.cause, told.state, told.roots) == ("gpu_fallen_off_bus", "firing", ("n00001/3",))
    assert Ledger(bench.operations).actions(incident=told.id)


def test_the_engine_says_the_same_later_under_the_same_id(bench: Bench) -> None:
    bench.judge(10)
    number = bench.hear(40, gpu_event=fallen(40))
    (early,) = bench.operations.incidents()
    bench.judge(60, number, gpu_event=fallen(40))
    (late,) = bench.operations.incidents()
    assert (late.id, late.state, late.detected_at) == (early.id, "firing", early.detected_at)
    assert not bench.ahead.told
    assert bench.ahead.withdrawn_total == 0


def test_a_window_that_the_lane_has_read_holds_before_the_engine_comes_to_it(bench: Bench) -> None:
    bench.judge(1)
    plan = {"announced_at": at(5), "starts_at": at(5), "ends_at": at(900), "kind": "node", "id": "n00001"}
    bench.hear(5, maintenance=rows("maintenance", plan))
    bench.hear(40, gpu_event=fallen(40))
    asked = Ledger(bench.operations).actions()
    assert asked
    assert {record.outcome for record in asked} == {"refused"}


def test_it_is_told_once(bench: Bench) -> None:
    bench.judge(10)
    for seconds in (40, 41, 42):
        bench.hear(seconds, gpu_event=fallen(40))
    assert bench.ahead.told_total == 1


def test_what_the_engine_does_not_say_is_closed_with_the_name_of_what_explains_it(bench: Bench) -> None:
    bench.judge(10)
    number = bench.hear(40, gpu_event=fallen(40))
    (early,) = bench.operations.incidents()
    # what the lane had not seen: the whole power domain was lost just before, as its meter says
    pdu = TOPOLOGY.nodes.filter(node="n00001")["pdu"].item()
    meter = [{"time": at(30 + second), "pdu": pdu, "volts": 415.0, "breaker": "closed"} for second in range(9)]
    tripped = {"time": at(39.5), "pdu": pdu, "volts": 0.0, "breaker": "tripped"}
    bench.judge(60, number, gpu_event=fallen(40), power=rows("power", *meter, tripped))
    stands = {one.cause: one for one in bench.operations.incidents()}
    assert stands["power_domain_lost"].state == "firing"
    assert stands["gpu_fallen_off_bus"].id == early.id
    assert (stands["gpu_fallen_off_bus"].state, stands["gpu_fallen_off_bus"].merged_into) == (
        "resolved", stands["power_domain_lost"].id,
    )  # fmt: skip
    assert bench.ahead.withdrawn_total == 1


def test_ends_and_silences_of_metrics_wait_for_the_engine(bench: Bench) -> None:
    gpus = rows("gpu", *({"time": at(5), "node": "n00002", "gpu": slot} for slot in range(8)))
    bench.judge(10, gpu=gpus)
    bench.hear(400, power=rows("power", {"time": at(400), "pdu": "pdu-000", "volts": 415.0}))
    assert bench.operations.incidents() == ()


def test_detectors_know_whose_rows_come_late_as_in_the_engine(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[object] = []
    judge = Engine.judge

    def heard(engine: Engine, state: EngineState, batch: Batch) -> Step:
        known.append(batch.lags)
        return judge(engine, state, batch)

    bench.lags = {"n00002": timedelta(seconds=7)}
    bench.judge(10)
    monkeypatch.setattr(Engine, "judge", heard)
    bench.hear(40, gpu_event=fallen(40))
    assert known == [bench.lags]
