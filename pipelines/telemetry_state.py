"""A stream's engine state in the telemetry store: one table a stream, state."<stream>", with a row for each frame.

A frame is kept as Arrow IPC rather than as a table of its own: sixty tables of a few rows cost more to make than all
that they hold, and a stored state is only ever read whole.
"""

import io
from collections.abc import Mapping

import duckdb
import polars as pl

from detectors.contract import Detector
from detectors.correlation_state import decode, encode
from pipelines.engine import SOURCE_COLUMNS, EngineState, identity_of
from schemas.tables import INTAKE_TABLES, TABLES, Table

SOURCES = "engine.sources"
STATE_COLUMNS = pl.Schema({"name": pl.String(), "frame": pl.Binary()})


def write_state(
    connection: duckdb.DuckDBPyConnection, stream: str, state: EngineState, known: EngineState | None = None
) -> None:
    """Put the state in place of what is stored; empty frames are left out. known: what is stored, where the caller has
    just written it: a frame that is still the same object is kept as it stands there.
    """
    frames = {name: frame for name, frame in _frames(state).items() if not frame.is_empty()}
    there, before = _names(connection, stream), {} if known is None else _frames(known)
    same = [name for name, frame in frames.items() if name in there and before.get(name) is frame]
    _put(connection, stream, {name: frame for name, frame in frames.items() if name not in same}, same)
    connection.execute(
        "insert or replace into engine_state values (?, ?, ?, ?)",
        [stream, state.began, state.now, encode(state.correlation)],
    )


def read_state(
    connection: duckdb.DuckDBPyConnection, stream: str, detectors: tuple[Detector, ...]
) -> EngineState | None:
    """Where the stream's last flush left off; None when there was none. A detector that is new begins empty."""
    saved = connection.execute(
        "select began, now, correlation from engine_state where stream = ?", [stream]
    ).fetchall()  # to the end: DuckDB 2 refuses the next query otherwise
    if not saved:
        return None
    began, now, correlation = saved[0]
    frames: dict[str, pl.DataFrame] = {}
    if _exists(connection, stream):
        rows = connection.execute(f"select name, frame from {_table(stream)}").fetchall()  # noqa: S608 quoted
        frames = {name: pl.read_ipc(io.BytesIO(frame)) for name, frame in rows}
    pending = {
        table.name: _kept(frames.get(f"pending.{table.name}"), table.columns) for table in (*TABLES, *INTAKE_TABLES)
    }
    recent = {table.name: _kept(frames.get(f"recent.{table.name}"), _identity(table)) for table in TABLES}
    return EngineState(
        began=began, now=now, sources=_kept(frames.get(SOURCES), SOURCE_COLUMNS),
        pending={name: rows for name, rows in pending.items() if not rows.is_empty()},
        recent={name: rows for name, rows in recent.items() if not rows.is_empty()},
        detectors={detector.name: _kept(frames.get(detector.name), detector.keeps) for detector in detectors},
        correlation=decode(correlation),
    )  # fmt: skip


def drop_state(connection: duckdb.DuckDBPyConnection, stream: str) -> None:
    connection.execute(f"drop table if exists {_table(stream)}")
    connection.execute("delete from engine_state where stream = ?", [stream])


def gather_state(connection: duckdb.DuckDBPyConnection) -> None:
    """Up to version 3 of the store a frame was a table, state."<stream>|<name>"."""
    streams = connection.execute("select stream from engine_state").fetchall()
    tables = connection.execute("select table_name from duckdb_tables() where schema_name = 'state'").fetchall()
    for (stream,) in streams:
        mine = [name for (name,) in tables if name.startswith(f"{stream}|")]
        frames = {name: connection.sql(f"select * from {_table(name)}").pl() for name in mine}  # noqa: S608 quoted
        if mine:
            _put(connection, stream, {name.removeprefix(f"{stream}|"): frame for name, frame in frames.items()}, [])
        for name in mine:
            connection.execute(f"drop table {_table(name)}")


def _put(
    connection: duckdb.DuckDBPyConnection, stream: str, frames: Mapping[str, pl.DataFrame], keep: list[str]
) -> None:
    """Put these frames in place of all in the stream's table but those to keep as they stand there."""
    table = _table(stream)
    connection.execute(f"create table if not exists {table} (name varchar, frame blob using compression uncompressed)")
    connection.execute(f"delete from {table} where name not in (select unnest(?::varchar[]))", [keep])  # noqa: S608 quoted
    packed = {"name": list(frames), "frame": [_packed(frame) for frame in frames.values()]}
    connection.register("incoming", pl.DataFrame(packed, schema=STATE_COLUMNS))
    connection.execute(f"insert into {table} select name, frame from incoming")  # noqa: S608 quoted
    connection.unregister("incoming")


def _packed(frame: pl.DataFrame) -> bytes:
    packed = io.BytesIO()
    frame.write_ipc(packed, compression="lz4")
    return packed.getvalue()


def _frames(state: EngineState) -> dict[str, pl.DataFrame]:
    kinds: Mapping[str, Mapping[str, pl.DataFrame]] = {"pending": state.pending, "recent": state.recent}
    kept = {f"{kind}.{name}": rows for kind, tables in kinds.items() for name, rows in tables.items()}
    return {**state.detectors, **kept, SOURCES: state.sources}


def _names(connection: duckdb.DuckDBPyConnection, stream: str) -> set[str]:
    if not _exists(connection, stream):
        return set()
    rows = connection.execute(f"select name from {_table(stream)}").fetchall()  # noqa: S608 quoted
    return {name for (name,) in rows}


def _exists(connection: duckdb.DuckDBPyConnection, stream: str) -> bool:
    sql = "select 1 from duckdb_tables() where schema_name = 'state' and table_name = ?"
    return bool(connection.execute(sql, [stream]).fetchall())


def _table(name: str) -> str:
    quoted = name.replace('"', '""')
    return f'state."{quoted}"'


def _identity(table: Table) -> pl.Schema:
    return pl.Schema({name: table.columns.get(name, pl.Int64()) for name in identity_of(table)})


def _kept(frame: pl.DataFrame | None, keeps: pl.Schema) -> pl.DataFrame:
    """The saved state as it is wanted; another version of it kept something else and begins anew."""
    if frame is None or set(frame.columns) != set(keeps):
        return pl.DataFrame(schema=keeps)
    return frame.select(keeps.names()).cast(keeps)
