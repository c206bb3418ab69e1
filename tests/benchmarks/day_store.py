"""A telemetry store as a full day of a large cluster leaves it, made from one simulated hour of one pod.

The hour of the incident is of full size: every pod sends what the simulated one sent, under its own names. The other
hours of the day hold a 240th of those rows in as many row groups: their statistics say that they are of another time,
which is all that a query of a window learns of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no types

from pipelines.operations_store import OperationsStore
from pipelines.settings import Settings, stored_in
from pipelines.telemetry_schema import span_views
from pipelines.telemetry_store import TelemetryStore
from replay.scenario import FaultPlan, Scenario, load_scenario
from replay.simulate import simulate
from schemas.incident import Incident, incident_id
from schemas.tables import TABLE_BY_NAME, TABLES, Table, empty
from schemas.topology import Topology
from schemas.topology_presets import build

GPUS_PER_POD, NODES_PER_POD, LEAFS_PER_POD, PDUS_PER_POD, CDUS_PER_POD = 1024, 128, 32, 8, 4
ROOTS = ("pdu-000", "pdu-001")
ONSET_SECONDS = 1800
GROUP_ROWS = 262_144  # as Polars writes a sealed hour
THINNED = 240
# domain.md 5.1: the usual intervals.
INTERVALS = {"gpu": 30, "cold_plate": 1, "heartbeat": 1}


@dataclass(frozen=True)
class DayStore:
    """settings: of the stores in `folder`. rows, bytes: of the sealed files, all of them and in the incident's hour."""

    settings: Settings
    incident: str
    rows: int
    rows_of_the_hour: int
    bytes: int


def pod_hour(seconds: int = 3600) -> tuple[Scenario, Topology, dict[str, pl.DataFrame]]:
    """An hour of the first pod of a larger cluster, in which two of its PDUs trip."""
    whole = build("ndr-fat-tree", pods=2, superblocks_per_pod=4)
    nodes = whole.nodes.filter(pod="pod00")
    inside = pl.col("a").str.slice(0, 6).is_in(nodes["node"].implode()) | (
        (pl.col("tier") == "leaf-spine") & (pl.col("a").str.slice(5).cast(pl.Int64, strict=False) < LEAFS_PER_POD)
    )
    topology = Topology(whole.name, nodes, whole.links.filter(inside), whole.gpus_per_node, whole.ports_by_switch)
    healthy = load_scenario("healthy")
    scenario = replace(
        healthy, duration_seconds=seconds, intervals={**healthy.intervals, **INTERVALS},
        faults=(FaultPlan(fault="pdu_cascade", at_seconds=ONSET_SECONDS, roots=ROOTS),),
        starts_at=healthy.starts_at.replace(minute=0, second=0, microsecond=0),
    )  # fmt: skip
    parts: dict[str, list[pl.DataFrame]] = {table.name: [] for table in TABLES}
    for window in simulate(scenario, topology):
        for name, rows in window.tables.items():
            parts[name].append(rows)
    return scenario, topology, {name: pl.concat([empty(TABLE_BY_NAME[name]), *all_]) for name, all_ in parts.items()}


def make(folder: Path, pods: int) -> DayStore:
    scenario, _, rows = pod_hour()
    settings = stored_in(Settings(), folder)
    store, hour = TelemetryStore(settings.store.telemetry), scenario.starts_at
    topology = build("ndr-fat-tree", pods=pods, superblocks_per_pod=4)
    store.remember_cluster("day", topology, {name: float(every) for name, every in scenario.intervals.items()})
    written = [_write(store, TABLE_BY_NAME[name], frame, hour, pods) for name, frame in rows.items() if frame.height]
    with store.connected() as connection:
        for name, at, file, count in (one for files in written for one in files):
            connection.execute("insert into segments values (?, ?, ?, ?)", [name, at, file, count])
        connection.execute(
            "insert into engine_state (stream, began, now) values ('day', ?, ?)",
            [hour - timedelta(hours=23), hour + timedelta(hours=1)],
        )
        span_views(connection, store.segments)
    incident = _incident(hour + timedelta(seconds=ONSET_SECONDS), topology)
    OperationsStore.open(settings.store.operations).upsert_incidents([incident], at=hour + timedelta(hours=1))
    counts = [(at, count) for files in written for _, at, _, count in files]
    return DayStore(
        settings, incident.id, sum(count for _, count in counts), sum(count for at, count in counts if at == hour),
        sum(file.stat().st_size for file in store.segments.rglob("*.parquet")),
    )  # fmt: skip


def _incident(starts_at: datetime, topology: Topology) -> Incident:
    nodes = [node for root in ROOTS for node in topology.nodes_under("pdu", root)]
    members = tuple(f"{node}/{slot}" for node in nodes for slot in range(topology.gpus_per_node))
    return Incident(
        id=incident_id("power_domain_lost", "pdu", ROOTS, starts_at), cause="power_domain_lost", severity="page",
        state="firing", root_kind="pdu", roots=ROOTS, members=members, symptoms=tuple(("node", node) for node in nodes),
        starts_at=starts_at, detected_at=starts_at, ends_at=None, evidence=(),
    )  # fmt: skip


def _write(
    store: TelemetryStore, table: Table, pod: pl.DataFrame, hour: datetime, pods: int
) -> list[tuple[str, datetime, str, int]]:
    """The hour, and the hours before it: (table, hour, file, rows)."""
    ordered = pod.sort(*table.key, table.time)
    folder = store.segments / table.name
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{table.name}/{hour:%Y-%m-%dT%H}.0.parquet"
    schema = ordered.to_arrow().schema
    with pq.ParquetWriter(store.segments / name, schema, compression="zstd") as file:
        for part in _of_all_pods(ordered, table, pods):
            file.write_table(part.to_arrow().cast(schema), row_group_size=GROUP_ROWS)
    found = [(table.name, hour, name, ordered.height * pods)]
    thin = ordered.gather_every(max(1, THINNED // pods))
    groups = max(1, ordered.height * pods // GROUP_ROWS)
    for back in range(1, 24):
        at = hour - timedelta(hours=back)
        name = f"{table.name}/{at:%Y-%m-%dT%H}.0.parquet"
        shifted = thin.with_columns(pl.col(table.time) - timedelta(hours=back))
        shifted.write_parquet(store.segments / name, compression="zstd", row_group_size=max(1, thin.height // groups))
        found.append((table.name, at, name, thin.height))
    return found


def _of_all_pods(pod: pl.DataFrame, table: Table, pods: int) -> Iterator[pl.DataFrame]:
    """In the order of the first key, so that a row group is of few sources, as in a sealed hour."""
    first = pod.columns[pod.columns.index(table.source)] if table.source in pod.columns else None
    if first is None or first == "job":
        yield pod
        return
    kinds = pod[first].str.extract(r"^([a-z]+-?)")
    for _, of_kind in pod.group_by(kinds, maintain_order=True):
        for number in range(pods):
            yield _renamed(of_kind, number)


def _renamed(rows: pl.DataFrame, pod: int) -> pl.DataFrame:
    if pod == 0:
        return rows
    columns = [name for name in ("node", "device", "pdu", "cdu") if name in rows.columns]
    renames: Mapping[str, dict[str, str]] = {
        column: {name: _name(name, pod) for name in rows[column].drop_nulls().unique()} for column in columns
    }
    return rows.with_columns(pl.col(column).replace(named) for column, named in renames.items())


def _name(name: str, pod: int) -> str:
    """The same place in another pod: n00012/hca3, leaf-007, spine-003, pdu-001, cdu-02."""
    head, _, tail = name.partition("/")
    tail = f"/{tail}" if tail else ""
    kind, _, number = head.rpartition("-")
    each = {"leaf": LEAFS_PER_POD, "spine": LEAFS_PER_POD, "pdu": PDUS_PER_POD, "cdu": CDUS_PER_POD}.get(kind)
    if each is None:
        return f"n{int(head[1:]) + NODES_PER_POD * pod:05}{tail}"
    return f"{kind}-{int(number) + each * pod:0{len(number)}}{tail}"
