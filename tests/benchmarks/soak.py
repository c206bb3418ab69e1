"""A soak: `hotspare serve` on a real broker at the full rate, while the broker is restarted and serve is killed.

Run: make soak, or python -m tests.benchmarks.soak [--minutes 30] [--gpus 24576] [--profile usual|high]. Faults are
injected all the time, each at an entity of its own. Prints what it does to standard error and one JSON object at the
end; exits 1 where a row was lost or stored twice, an incident missed, made up or told twice, or an action asked twice.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb

from pipelines.operations_store import OperationsStore
from pipelines.recovery.ledger import Ledger
from pipelines.sources.kafka_sink import create_topics, send
from replay.scenario import FaultPlan
from replay.simulate import Window
from schemas.tables import TABLES
from tests.benchmarks.cluster_load import Load, load_of, out_of_step
from tests.benchmarks.soaked_server import Server
from tests.kafka.broker import Broker, start_broker
from tests.kafka.streaming import Place, place

WINDOW_SECONDS = 1
FIRST_FAULT_SECONDS, FAULT_EVERY_SECONDS, QUIET_END_SECONDS = 45, 20, 60
KILLED_EVERY_SECONDS, BROKER_EVERY_SECONDS = 210, 330
CATCH_UP_SECONDS = 300.0
STOP_SECONDS = 5.0
# fault, the cause that it must be told as, and the GPU of its node (None: the node itself)
FAULTS: tuple[tuple[str, str, int | None], ...] = (
    ("uncorrectable_ecc", "gpu_memory", 0),
    ("gpu_fallen_off_bus", "gpu_fallen_off_bus", 3),
    ("node_lost", "node_lost", None),
)


@dataclass
class Course:
    """What was sent, and how serve stood meanwhile. behind: seconds of its watermark behind the clock, at each window
    that no disruption came shortly before. rows: by table.
    """

    rows: Counter[str] = field(default_factory=Counter)
    behind: list[float] = field(default_factory=list)
    resident_megabytes: list[int] = field(default_factory=list)
    kills: int = 0
    broker_restarts: int = 0
    sender_late_seconds: float = 0.0


def with_faults(load: Load) -> Load:
    """A fault every FAULT_EVERY_SECONDS, at nodes far from one another, from the scenario's beginning now."""
    nodes = load.topology.nodes["node"].to_list()
    times = range(FIRST_FAULT_SECONDS, load.seconds - QUIET_END_SECONDS, FAULT_EVERY_SECONDS)
    far = max(1, int(len(nodes) * 0.618))  # by the golden ratio no two that follow each other are neighbours
    step = next(step for step in range(far, 2 * len(nodes)) if math.gcd(step, len(nodes)) == 1)
    plans = []
    for number, at in enumerate(times[: len(nodes) // 4]):
        fault, _, gpu = FAULTS[number % len(FAULTS)]
        node = nodes[number * step % len(nodes)]
        plans.append(FaultPlan(fault=fault, at_seconds=at, entity=node if gpu is None else f"{node}/{gpu}"))
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=60)
    return replace(load, scenario=replace(load.scenario, faults=tuple(plans), starts_at=begin))


def disruptions(seconds: int, every: int) -> frozenset[int]:
    """Numbers of the windows before which it happens."""
    return frozenset(at // WINDOW_SECONDS for at in range(every, seconds - QUIET_END_SECONDS, every))


def drive(load: Load, broker: Broker, there: Place, server: Server, told: Callable[[str], object]) -> Course:
    """Send window after window when its time has come, and break things between."""
    course, last_broken = Course(), -math.inf
    kills = disruptions(load.seconds, KILLED_EVERY_SECONDS)
    restarts = disruptions(load.seconds, BROKER_EVERY_SECONDS)

    def due(window: Window) -> Window:
        wait = (window.ends_at - datetime.now(UTC)).total_seconds()
        course.sender_late_seconds = max(course.sender_late_seconds, -wait)
        time.sleep(max(0.0, wait))
        return window

    def sent(window: Window, _: int) -> None:
        _remember(course, window, server, steady=time.monotonic() - last_broken > 60)
        stands = f"serve {server.behind_seconds:.1f} s behind, {server.resident_megabytes} MB"
        told(f"{window.ends_at:%H:%M:%S}  {course.rows.total():,} rows sent, {stands}\n")

    numbered = enumerate(out_of_step(load, WINDOW_SECONDS))
    for begins, windows in groupby(
        numbered, lambda each: max((at for at in kills | restarts if at <= each[0]), default=0)
    ):
        if begins in kills:
            server.kill()
            server.start()
            course.kills, last_broken = course.kills + 1, time.monotonic()
        if begins in restarts:
            broker.restart(kill=course.broker_restarts % 2 == 1)
            course.broker_restarts, last_broken = course.broker_restarts + 1, time.monotonic()
        send((due(window) for _, window in windows), load.topology, there.kafka, sent)
    return course


def _remember(course: Course, window: Window, server: Server, *, steady: bool) -> None:
    for table, rows in window.tables.items():
        course.rows[table] += rows.height
    server.look()
    course.resident_megabytes.append(server.resident_megabytes)
    if steady and not math.isinf(server.behind_seconds):
        course.behind.append(server.behind_seconds)


def stored(there: Place, sent: Counter[str]) -> Iterator[str]:
    """What is wrong with the rows, in words."""
    with duckdb.connect(str(there.folder / "telemetry.duckdb"), read_only=True) as connection:
        for table in TABLES:
            key = ", ".join((table.time, *table.key))
            sql = f"select count(*), (select count(*) from (select distinct {key} from {table.name})) from {table.name}"
            ((rows, different),) = connection.execute(sql).fetchall()
            if rows != sent[table.name] or different != rows:
                yield f"{table.name}: {sent[table.name]} rows sent, {rows} stored, {different} of them different"
        for table in ("late", "quarantine"):
            ((rows,),) = connection.execute(f"select count(*) from {table}").fetchall()
            if rows:
                yield f"{table}: {rows} rows"


def told_of(there: Place, load: Load) -> Iterator[str]:
    """What is wrong with incidents and actions, in words. Tickets on what a fault left behind are not looked at."""
    causes = {name: cause for name, cause, _ in FAULTS}
    wanted = Counter((causes[plan.fault], plan.entity) for plan in load.scenario.faults)
    operations = OperationsStore.open(there.folder / "operations.sqlite")
    records = Ledger(operations).actions(limit=None)
    pages = [one for one in operations.incidents(limit=None) if one.severity == "page" and one.merged_into is None]
    found = Counter((one.cause, root) for one in pages for root in one.roots)
    for (cause, root), count in sorted(wanted.items()):
        if found[cause, root] != count:
            yield f"{cause} of {root}: told {found[cause, root]} times"
    for cause, root in sorted(set(found) - set(wanted)):
        yield f"{cause} of {root}: told, and there is no such fault"
    did = [record.request for record in records if record.outcome == "done"]
    twice = Counter((request.incident, request.kind, request.target) for request in did)
    operations.close()
    effects = Counter(json.loads(line)["id"] for line in (there.folder / "actions.jsonl").read_text().splitlines())
    for name in sorted({request.id for request in did} | set(effects)):
        if effects[name] != 1:
            yield f"action {name}: carried out {effects[name]} times"
    yield from (f"action {key}: done {count} times" for key, count in twice.items() if count > 1)


def quantile(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) if ordered else None


def soak(load: Load, folder: Path, told: Callable[[str], object]) -> dict[str, Any]:
    load = with_faults(load)
    with start_broker(folder / "broker") as broker:
        there = place(broker, folder / "serve", partitions=2, timeout_seconds=30)
        create_topics(there.kafka)
        with Server.of(there, load.scenario.topology) as server:
            course = drive(load, broker, there, server, told)
            deadline = time.monotonic() + CATCH_UP_SECONDS
            while (
                not server.is_even(load.scenario.starts_at + timedelta(seconds=load.seconds))
                and time.monotonic() < deadline
            ):
                time.sleep(1.0)
            latencies = {name: server.quantiles(name) for name in ("ahead_seconds", "step_seconds")}
            stopping_seconds = server.stop()
        wrong = [*stored(there, course.rows), *told_of(there, load)]
        if stopping_seconds > STOP_SECONDS:
            wrong.append(f"serve took {stopping_seconds:.1f} s to stop")
    return {
        "gpus": load.gpus, "profile": load.profile, "minutes": load.seconds / 60, "rows": course.rows.total(),
        "faults": len(load.scenario.faults), "kills": course.kills, "broker_restarts": course.broker_restarts,
        "behind_seconds": {"p50": quantile(course.behind, 0.5), "p99": quantile(course.behind, 0.99)},
        "resident_megabytes": {"median": quantile([*map(float, course.resident_megabytes)], 0.5),
                               "maximum": max(course.resident_megabytes)},
        **latencies, "sender_late_seconds": round(course.sender_late_seconds, 1),
        "stopping_seconds": round(stopping_seconds, 1),
        "wrong": wrong,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--gpus", type=int, default=24_576)
    parser.add_argument("--profile", choices=("usual", "high"), default="usual")
    given = parser.parse_args()
    load = load_of(given.gpus, int(given.minutes * 60), given.profile)
    with tempfile.TemporaryDirectory() as folder:
        document = soak(load, Path(folder), sys.stderr.write)
    sys.stdout.write(json.dumps(document) + "\n")
    return 1 if document["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
