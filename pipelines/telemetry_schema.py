"""The tables of the telemetry store, and how an older file becomes a newer one."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl

from schemas.finding import Finding, TelemetryHealth
from schemas.intake import Late, Quarantine
from schemas.tables import TABLES

VERSION = 1
INTAKE: tuple[tuple[str, pl.Schema], ...] = tuple(
    (name, pl.Schema({column: kind.dtype for column, kind in schema.columns().items()}))
    for name, schema in (
        ("findings", Finding),
        ("quarantine", Quarantine),
        ("late", Late),
        ("telemetry_health", TelemetryHealth),
    )
)
STORED: tuple[tuple[str, pl.Schema], ...] = (*((table.name, table.columns) for table in TABLES), *INTAKE)


class NewerStore(RuntimeError):
    """The file was written by a later version of hotspare."""


def migrate(connection: duckdb.DuckDBPyConnection, segments: Path) -> None:
    """Bring the file to VERSION, one step after the other, each in its own transaction."""
    connection.execute("create table if not exists schema_version (version integer, segments varchar)")
    found = connection.execute("select version, segments from schema_version").fetchone()
    version = 0 if found is None else found[0]
    if version > VERSION:
        raise NewerStore(f"the store is of version {version}, this hotspare reads up to {VERSION}: update hotspare")
    for number in range(version, VERSION):
        connection.begin()
        MIGRATIONS[number](connection)
        connection.execute("delete from schema_version")
        connection.execute("insert into schema_version values (?, ?)", [number + 1, str(segments.absolute())])
        connection.commit()
    if found is not None and found[1] != str(segments.absolute()):
        connection.execute("update schema_version set segments = ?", [str(segments.absolute())])
        span_views(connection, segments)  # the folder was moved: the views must find their segments again
    if version < VERSION:
        span_views(connection, segments)


def span_views(connection: duckdb.DuckDBPyConnection, segments: Path) -> None:
    """(Re)make the view of each table over its live rows and its sealed segments."""
    sealed = connection.execute(
        "select table_name, list(file order by file) from segments group by table_name"
    ).fetchall()
    files = dict(sealed)
    for name, _ in STORED:
        view = f"create or replace view main.{name} as select * from live.{name}"
        if name in files:
            view += f" union all by name select * from read_parquet([{_quoted(segments, files[name])}], union_by_name = true)"
        connection.execute(view)


def _quoted(segments: Path, files: list[str]) -> str:
    return ", ".join("'" + str(segments.absolute() / file).replace("'", "''") + "'" for file in files)


def _first(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("create schema if not exists live")
    connection.execute("create schema if not exists state")
    for name, columns in STORED:
        connection.register("shape", pl.DataFrame(schema=columns))
        connection.execute(f"create table live.{name} as select * from shape")
        connection.unregister("shape")
    connection.execute(
        "create table offsets (stream varchar, topic varchar, partition integer, next_offset bigint, "
        "primary key (stream, topic, partition))"
    )
    connection.execute(
        "create table engine_state (stream varchar primary key, began timestamptz, now timestamptz, correlation blob)"
    )
    connection.execute(
        "create table segments (table_name varchar, hour timestamptz, file varchar, row_count bigint, primary key (file))"
    )


MIGRATIONS: tuple[Callable[[duckdb.DuckDBPyConnection], None], ...] = (_first,)
