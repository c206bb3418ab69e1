"""A stream's engine state in the telemetry store: each frame is a table, state."<stream>|<name>", to be looked at."""

from collections.abc import Mapping

import duckdb
import polars as pl

from detectors.contract import Detector
from detectors.correlation_state import decode, encode
from pipelines.engine import SOURCE_COLUMNS, EngineState, identity_of
from schemas.tables import INTAKE_TABLES, TABLES, Table

SOURCES = "engine.sources"


def write_state(
    connection: duckdb.DuckDBPyConnection, stream: str, state: EngineState, known: EngineState | None = None
) -> None:
    """Put the state in place of what is stored. Empty frames have no table. known: what is stored, where the caller has
    just written it: a frame that is still the same object is not written again.
    """
    frames = {name: frame for name, frame in _frames(state).items() if not frame.is_empty()}
    there, before = _names(connection, stream), {} if known is None else _frames(known)
    for name, frame in frames.items():
        if name in there and before.get(name) is frame:
            continue
        connection.register("incoming", frame)
        connection.execute(f"create or replace table {_table(stream, name)} as select * from incoming")  # noqa: S608 quoted
        connection.unregister("incoming")
    for name in sorted(there - set(frames)):
        connection.execute(f"drop table {_table(stream, name)}")
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
    names = sorted(_names(connection, stream))
    frames = {name: connection.sql(f"select * from {_table(stream, name)}").pl() for name in names}  # noqa: S608 quoted
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
    for name in sorted(_names(connection, stream)):
        connection.execute(f"drop table {_table(stream, name)}")
    connection.execute("delete from engine_state where stream = ?", [stream])


def _frames(state: EngineState) -> dict[str, pl.DataFrame]:
    kinds: Mapping[str, Mapping[str, pl.DataFrame]] = {"pending": state.pending, "recent": state.recent}
    kept = {f"{kind}.{name}": rows for kind, tables in kinds.items() for name, rows in tables.items()}
    return {**state.detectors, **kept, SOURCES: state.sources}


def _names(connection: duckdb.DuckDBPyConnection, stream: str) -> set[str]:
    rows = connection.execute(
        "select table_name from duckdb_tables() where schema_name = 'state' and starts_with(table_name, ?)",
        [f"{stream}|"],
    ).fetchall()
    return {name.removeprefix(f"{stream}|") for (name,) in rows}


def _table(stream: str, name: str) -> str:
    quoted = f"{stream}|{name}".replace('"', '""')
    return f'state."{quoted}"'


def _identity(table: Table) -> pl.Schema:
    return pl.Schema({name: table.columns.get(name, pl.Int64()) for name in identity_of(table)})


def _kept(frame: pl.DataFrame | None, keeps: pl.Schema) -> pl.DataFrame:
    """The saved state as it is wanted; another version of it kept something else and begins anew."""
    if frame is None or set(frame.columns) != set(keeps):
        return pl.DataFrame(schema=keeps)
    return frame.select(keeps.names()).cast(keeps)
