"""The cluster that a stream came from, kept beside its rows: a window of the store is judged on the same topology."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import duckdb

from schemas.topology import Topology, topology_from_frames


@dataclass(frozen=True)
class Cluster:
    """What a stream was judged on. until: its watermark; of what came later the store knows nothing."""

    topology: Topology
    intervals_seconds: Mapping[str, float]
    until: datetime


def make_cluster_tables(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("create schema if not exists cluster")
    connection.execute(
        "create table if not exists cluster.streams (stream varchar primary key, name varchar, gpus_per_node integer, "
        "intervals map(varchar, double))"
    )
    connection.execute("create table if not exists cluster.past (stream varchar, began timestamptz, until timestamptz)")


def write_cluster(
    connection: duckdb.DuckDBPyConnection, stream: str, topology: Topology, intervals_seconds: Mapping[str, float]
) -> None:
    """Remember it, in place of what the stream said before."""
    make_cluster_tables(connection)
    for kind, frame in (("nodes", topology.nodes), ("links", topology.links)):
        connection.register("incoming", frame)
        connection.execute(f"create or replace table {_table(stream, kind)} as select * from incoming")
        connection.unregister("incoming")
    connection.execute(
        "insert or replace into cluster.streams values (?, ?, ?, ?)",
        [stream, topology.name, topology.gpus_per_node, dict(intervals_seconds)],
    )


def end_cluster(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    """The stream's state is about to be dropped; its rows stay, and of which cluster and time they are."""
    make_cluster_tables(connection)
    connection.execute(
        "insert into cluster.past select stream, began, now from engine_state where stream = ?", [stream]
    )


def _streams(connection: duckdb.DuckDBPyConnection) -> str | None:
    """SQL of stream, began and now of all whose cluster is known, forgotten ones too; None in an old file."""
    found = connection.execute(
        "select table_name from duckdb_tables() where schema_name = 'cluster' and table_name in ('streams', 'past')"
    ).fetchall()
    known = {name for (name,) in found}
    past = " union all select stream, began, until from cluster.past" if "past" in known else ""
    return f"(select stream, began, now from engine_state{past})" if "streams" in known else None


def read_spans(connection: duckdb.DuckDBPyConnection) -> list[tuple[datetime, datetime]]:
    """Begin and watermark of every stream whose cluster is known, in order."""
    streams = _streams(connection)
    if streams is None:
        return []
    statement = f"select distinct began, now from cluster.streams join {streams} using (stream) order by all"
    return [(began, until) for began, until in connection.execute(statement).fetchall()]


def read_cluster(connection: duckdb.DuckDBPyConnection, begin: datetime, end: datetime) -> Cluster | None:
    """Of the stream that covers most of begin <= time < end; None when no stream of that time said."""
    streams = _streams(connection)
    if streams is None:
        return None
    found = connection.execute(
        f"select stream, name, gpus_per_node, intervals, now from cluster.streams join {streams} using (stream) "
        "where began < ? and now > ? order by least(now, ?) - greatest(began, ?) desc, stream, now desc limit 1",
        [end, begin, end, begin],
    ).fetchall()
    if not found:
        return None
    stream, name, gpus_per_node, intervals, until = found[0]
    nodes, links = (connection.sql(f"select * from {_table(stream, kind)}").pl() for kind in ("nodes", "links"))
    return Cluster(topology_from_frames(name, nodes, links, gpus_per_node=gpus_per_node), intervals, until)


def same_cluster(connection: duckdb.DuckDBPyConnection, stream: str) -> bool:
    """Whether the stream's cluster is known already."""
    make_cluster_tables(connection)
    return bool(connection.execute("select 1 from cluster.streams where stream = ?", [stream]).fetchall())


def _table(stream: str, kind: str) -> str:
    quoted = f"{stream}|{kind}".replace('"', '""')
    return f'cluster."{quoted}"'
