"""The tables of the telemetry store, and how an older file becomes a newer one."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl

from pipelines.state_packs import FIELD_COLUMNS, packs_beside, put
from pipelines.telemetry_state_older import gather_state, taken_from_tables
from schemas.finding import Finding, TelemetryHealth
from schemas.intake import Late, Quarantine
from schemas.tables import TABLES

VERSION = 6
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


class NotOurs(RuntimeError):
    """A DuckDB file that holds something else."""


def up_to_date(connection: duckdb.DuckDBPyConnection, segments: Path, path: Path) -> bool:
    """Whether the file is of VERSION and knows where its segments are. Raises NewerStore."""
    return _found(connection, path) == (VERSION, str(segments.absolute()))


def migrate(connection: duckdb.DuckDBPyConnection, segments: Path, path: Path) -> None:
    """Bring the file to VERSION, one step after the other, in one transaction. Raises NewerStore, NotOurs."""
    version, folder = _found(connection, path)
    here = str(segments.absolute())
    if (version, folder) == (VERSION, here):
        return
    connection.begin()
    for number in range(version, VERSION):
        MIGRATIONS[number](connection)
    connection.execute(
        "create or replace table schema_version as select ?::integer as version, ? as segments", [VERSION, here]
    )
    span_views(connection, segments)  # new tables need theirs, and those of a folder that was moved are elsewhere now
    connection.commit()


def _found(connection: duckdb.DuckDBPyConnection, path: Path) -> tuple[int, str | None]:
    """Version of the file and where its segments were; (0, None) of an empty one."""
    tables = {name for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall()}
    if "schema_version" not in tables:
        if tables:
            raise NotOurs(f"{path}: a DuckDB file of something else (it has {', '.join(sorted(tables)[:3])})")
        return 0, None
    rows = connection.execute("select version, segments from schema_version").fetchall()  # to the end: DuckDB 2 insists
    version, folder = rows[0] if rows else (0, None)
    if version > VERSION:
        raise NewerStore(f"{path}: of version {version}, this hotspare reads up to {VERSION}; update hotspare")
    return version, folder


def span_views(connection: duckdb.DuckDBPyConnection, segments: Path) -> None:
    """(Re)make the view of each table over its live rows and its sealed segments."""
    sealed = connection.execute(
        "select table_name, list(file order by file) from segments group by table_name"
    ).fetchall()
    files = dict(sealed)
    for name, _ in STORED:
        view = f"create or replace view main.{name} as select * from live.{name}"
        if name in files:
            view += f" union all by name select * from {read_segments(segments, files[name])}"
        connection.execute(view)


def read_segments(segments: Path, files: list[str]) -> str:
    """SQL of the rows in these files of the segments folder."""
    paths = ", ".join("'" + str(segments.absolute() / file).replace("'", "''") + "'" for file in files)
    return f"read_parquet([{paths}], union_by_name = true)"


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
        "create table segments (table_name varchar, hour timestamptz, file varchar, row_count bigint, "
        "primary key (file))"
    )


def _second(connection: duckdb.DuckDBPyConnection) -> None:
    """What is known of sources beside their rows (pipelines.source_notes)."""
    connection.execute("create table source_signals (origin varchar primary key, missing varchar[])")
    connection.execute(
        "create table source_skew (table_name varchar, source varchar, behind_seconds double, "
        "primary key (table_name, source))"
    )
    connection.execute(
        "create table identities (kind varchar, alias varchar, entity varchar, primary key (kind, alias))"
    )
    connection.execute(
        "create table stream_aliases (stream varchar, kind varchar, alias varchar, entity varchar, "
        "primary key (stream, kind, alias))"
    )
    connection.execute(
        "create table unresolved (table_name varchar, kind varchar, alias varchar, rows bigint, "
        "primary key (table_name, kind, alias))"
    )


def _grown(connection: duckdb.DuckDBPyConnection) -> None:
    """Tables and columns that were added since the file was made; rows that are there have null in them.

    A version that only adds such needs no other step than this one.
    """
    for name, columns in STORED:
        connection.register("shape", pl.DataFrame(schema=columns))
        connection.execute(f"create table if not exists live.{name} as select * from shape")
        there = connection.execute(f"select column_name, column_type from (describe live.{name})").fetchall()
        wanted = connection.execute("select column_name, column_type from (describe shape)").fetchall()
        for column, kind in wanted:
            if column not in dict(there):
                connection.execute(f'alter table live.{name} add column "{column}" {kind}')
        connection.unregister("shape")


def _lags(connection: duckdb.DuckDBPyConnection) -> None:
    """Outside events, and how much later than others' the rows of nodes came, since when (pipelines.source_lags)."""
    _grown(connection)
    connection.execute(
        "create table if not exists source_lags (stream varchar, node varchar, since timestamptz, "
        "lag_seconds double, primary key (stream, node, since))"
    )


def _packs(connection: duckdb.DuckDBPyConnection) -> None:
    """The state's frames go into files beside this one."""
    connection.register("shape", pl.DataFrame(schema=FIELD_COLUMNS))
    connection.execute("create table if not exists state_fields as from shape")
    connection.unregister("shape")
    [(path,)] = connection.execute("select path from duckdb_databases() where not internal").fetchall()
    for stream, frames in taken_from_tables(connection).items():
        put(connection, packs_beside(Path(path)), stream, frames, {})


MIGRATIONS: tuple[Callable[[duckdb.DuckDBPyConnection], None], ...] = (
    _first, _second, _grown, gather_state, _lags, _packs,
)  # fmt: skip
