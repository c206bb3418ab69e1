"""Numbers that recovery must reach on a cluster of 24,576 GPUs: `python -m tests.benchmarks.bench_recover`.

From the poll of rows that shows it (a tenth of a second of the cluster's beats and meters) to the action requests, in a
store on disk that has seen a hundred thousand incidents and their actions, with a job on all GPUs. One detector and
correlation judge; the others cost what bench_engine says. Processor time of this process, not wall-clock time, so that
neighbours on the machine count less; medians, after a first round in which what the topology computes once is drawn
up. Exits 1 when a bound is missed.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import get_args

import polars as pl
import sqlalchemy as sa

from detectors.catalog import CATALOG
from pipelines.engine import Batch, Engine
from pipelines.intake import Piece, take_in
from pipelines.operations_jobs import Jobs
from pipelines.operations_store import OperationsStore
from pipelines.operations_tables import ACTIONS
from pipelines.recovery.executors.simulator import SimulatorExecutor
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from replay.scenario import FaultPlan, Scenario, load_scenario
from replay.simulate import simulate, topology_of
from schemas.action import ActionKind
from schemas.incident import Incident
from schemas.topology import Topology

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
SETTINGS = RecoverySettings(mode="enforce", approvals={}, cooldown_seconds=0, drained_nodes_minimum=99)
INCIDENTS = 100_000
INCIDENT_SECONDS = 864  # 100 a day
CAUSES = ("node_lost", "link_flap", "gpu_memory", "gpu_hang")
ROUNDS = 3
FAULT_AT = 8
POLL = timedelta(milliseconds=100)


@dataclass(frozen=True)
class Row:
    """milliseconds: processor time, bound: what it must not exceed, None where there is none."""

    what: str
    milliseconds: float
    bound: float | None = None

    @property
    def missed(self) -> bool:
        return self.bound is not None and self.milliseconds > self.bound


def milliseconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return 1000 * (time.process_time() - begun)


def incident(number: int, cause: str, kind: str, *roots: str, members: tuple[str, ...] = ()) -> Incident:
    return Incident(
        id=f"inc-{number:010x}", cause=cause, severity="page", state="firing", root_kind=kind, roots=roots,  # type: ignore[arg-type]  # a plain word
        members=members, symptoms=(), starts_at=T0, detected_at=T0, ends_at=None, evidence=(),
    )  # fmt: skip


def scenario_of(*faults: FaultPlan, tables: tuple[str, ...], hours: int = 0) -> Scenario:
    healthy = load_scenario("healthy")
    return replace(
        healthy, starts_at=T0 + timedelta(hours=hours), duration_seconds=FAULT_AT + 6, faults=faults, tables=tables,
        expects=(),
        intervals={**healthy.intervals, "power": 1, "coolant_loop": 1},
        topology=replace(healthy.topology, parameters={"pods": 24, "spare_nodes": 64}),
    )  # fmt: skip


def filled(path: Path, topology: Topology) -> OperationsStore:
    """Incidents of three years, four actions each, and a job."""
    store = OperationsStore.open(path)
    rows = []
    for begin in range(0, INCIDENTS, 5_000):
        told = [past(number) for number in range(begin, begin + 5_000)]
        store.upsert_incidents(told, T0)
        rows = [row for one in told if one.state == "resolved" for row in actions_of(one)]
        with store.writing() as connection:
            connection.execute(sa.insert(ACTIONS), rows)
    members = [gpu for node in topology.node_rows for gpu in topology.gpus_of_node(node)]
    start = {"time": T0, "job": "train-1", "kind": "start", "members": members, "checkpoint_interval_seconds": 300.0}
    Jobs(store).remember(pl.DataFrame([start]))
    store.close()  # what was written in one go leaves its log behind, which every reader would have to search
    return OperationsStore.open(path)


def past(number: int) -> Incident:
    at = T0 - timedelta(seconds=INCIDENT_SECONDS * (number + 4))
    found = incident(number, CAUSES[number % 4], "node", f"n{number % 3072:05}")
    return replace(found, detected_at=at, starts_at=at, state="resolved" if number % 500 else "firing")


def actions_of(one: Incident) -> Iterator[dict[str, object]]:
    for number, kind in enumerate(("drain_node", "allocate_spare", "field_diagnostics", "return_to_service")):
        at = one.detected_at + timedelta(seconds=600 * number)
        yield {
            "id": f"act-{one.id}-{number}", "incident": one.id, "kind": kind, "target": one.roots[0],
            "parameters": {"target_kind": "node", "cause": one.cause}, "requested_at": at, "reason": "because",
            "mode": "enforce", "outcome": "done", "why": "done", "at": at, "attempts": 1, "recoverable": False,
        }  # fmt: skip


def polls(tables: Mapping[str, pl.DataFrame], begins: datetime, ends: datetime, each: timedelta) -> Iterator[Batch]:
    while begins < ends:
        begins += each
        within = pl.col("time").is_between(begins - each, begins, closed="left")
        yield Batch(tables={name: rows.filter(within) for name, rows in tables.items() if rows.height}, now=begins)


def told(
    scenario: Scenario, topology: Topology, detector: str, cause: str, store: OperationsStore
) -> tuple[float, float, SimulatorExecutor]:
    """Milliseconds of the step that shows it, and of what follows from it."""
    chosen = tuple(one for one in CATALOG if one.name == detector)
    engine = Engine(detectors=chosen, topology=topology, intervals_seconds=dict(scenario.intervals))
    state, plant = engine.start(scenario.starts_at), SimulatorExecutor()
    executors = dict.fromkeys(get_args(ActionKind), plant)
    for window in simulate(scenario, topology, window_seconds=1):
        tables = take_in([Piece(name, frame) for name, frame in window.tables.items()]).tables
        still_well = window.ends_at <= scenario.starts_at + timedelta(seconds=FAULT_AT)
        each = window.ends_at - window.starts_at if still_well else POLL
        for cut in polls(tables, window.starts_at, window.ends_at, each):
            begun = time.process_time()
            step = engine.step(state, cut)
            judged, state = 1000 * (time.process_time() - begun), step.state
            shown = tuple(one for one in state.correlation.incidents if (one.state, one.cause) == ("firing", cause))
            if shown:
                begun = time.process_time()
                store.upsert_incidents(shown, state.now)
                recover(shown, topology, store, SETTINGS, executors, state.now)
                return judged, 1000 * (time.process_time() - begun), plant
    raise AssertionError(f"{detector} said nothing of {cause}")


def lost_node(store: OperationsStore, topology: Topology) -> list[Row]:
    judged, acted = [], []
    for number in range(ROUNDS + 1):
        fault = FaultPlan(fault="node_lost", at_seconds=FAULT_AT, entity=f"n{400 * number + 100:05}")
        scenario = scenario_of(fault, tables=("heartbeat", "job_event"), hours=number)
        one, other, plant = told(scenario, topology, "job.heartbeat", "node_lost", store)
        judged.append(one)
        acted.append(other)
        assert all({"allocate_spare", "restore_shard"} <= set(kinds) for kinds in plant.kinds.values())
    return [
        Row("third missed beat: judging it", median(judged[1:])),
        Row("third missed beat: spare allocated, restore requested", median(acted[1:])),
        Row("third missed beat: both", median(judged[1:]) + median(acted[1:]), 100.0),
    ]


def cascade(store: OperationsStore, topology: Topology) -> list[Row]:
    judged, acted = [], []
    for number in range(ROUNDS + 1):
        roots = tuple(f"pdu-{4 * number + each:03}" for each in range(3))
        fault = FaultPlan(fault="pdu_cascade", at_seconds=FAULT_AT, roots=roots)
        scenario = scenario_of(fault, tables=("power", "heartbeat", "job_event"), hours=ROUNDS + 1 + number)
        one, other, plant = told(scenario, topology, "power.domain_loss", "power_domain_lost", store)
        judged.append(one)
        acted.append(other)
        assert [kinds.count("global_checkpoint") for kinds in plant.kinds.values()] == [1]
    return [
        Row("cascade of 384 GPUs: judging the last rows", median(judged[1:])),
        Row("cascade of 384 GPUs: one incident, checkpoint requested", median(acted[1:])),
        Row("cascade of 384 GPUs: both", median(judged[1:]) + median(acted[1:]), 50.0),
    ]


def lists(store: OperationsStore, _: Topology) -> list[Row]:
    asked: dict[str, Callable[[], object]] = {
        "100,000 incidents: newest 50": lambda: store.incidents(limit=50),
        "100,000 incidents: by state": lambda: store.incidents(states=["firing"], limit=50),
        "100,000 incidents: by state and cause": lambda: store.incidents(
            states=["resolved"], causes=["gpu_hang"], limit=50
        ),
        "100,000 incidents: since a day": lambda: store.incidents(since=T0 - timedelta(days=1), limit=None),
        "100,000 incidents: two causes, last 100": lambda: store.incidents(causes=CAUSES[:2]),
    }
    return [Row(name, median(milliseconds(work) for _ in range(ROUNDS)), 50.0) for name, work in asked.items()]


def main() -> int:
    topology = topology_of(scenario_of(tables=("heartbeat",)))
    with tempfile.TemporaryDirectory() as folder:
        store = filled(Path(folder) / "operations.sqlite", topology)
        missed = [row.missed for part in (lists, lost_node, cascade) for row in map(shown, part(store, topology))]
        store.close()
    return int(any(missed))


def shown(row: Row) -> Row:
    bound = "" if row.bound is None else f"(bound {row.bound:g} ms)"
    sys.stdout.write(f"{row.what:58} {row.milliseconds:8.1f} ms  {bound} {'MISSED' if row.missed else ''}\n")
    sys.stdout.flush()
    return row


if __name__ == "__main__":
    sys.exit(main())
