"""A stream's engine state in the telemetry store: frames in packs (state_packs), all else in table engine_state."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import duckdb
import polars as pl

from detectors.contract import Detector
from detectors.correlation_state import decode, encode
from pipelines.engine import SOURCE_COLUMNS, EngineState, identity_of
from pipelines.state_packs import Field, places, put, taken
from schemas.tables import INTAKE_TABLES, TABLES, Table

SOURCES = "engine.sources"


def write_state(
    connection: duckdb.DuckDBPyConnection, folder: Path, stream: str, state: EngineState, same: AbstractSet[Field]
) -> None:
    """Put the state in place of what is stored; empty frames are left out. same: fields that are what they are there,
    where the caller knows. folder: of packs. Raises OSError.
    """
    frames = {name: frame for name, frame in _frames(state).items() if not frame.is_empty()}
    keep = {
        (name, field): place for (name, field), place in places(connection, stream).items()
        if (name, field) in same and name in frames
    }  # fmt: skip
    put(connection, folder, stream, frames, keep)
    connection.execute(
        "insert or replace into engine_state values (?, ?, ?, ?)",
        [stream, state.began, state.now, encode(state.correlation)],
    )


def same_fields(state: EngineState, before: EngineState) -> frozenset[Field]:
    """Columns of frames that are what they were."""
    frames, old = _frames(state), _frames(before)
    return frozenset(
        (name, field) for name, frame in frames.items() if name in old
        for field in frame.columns if _is_same(frame, old[name], field)
    )  # fmt: skip


def read_state(
    connection: duckdb.DuckDBPyConnection, folder: Path, stream: str, detectors: tuple[Detector, ...]
) -> EngineState | None:
    """Where the stream's last flush left off; None when there was none. A detector that is new begins empty. Raises
    StateLost.
    """
    saved = connection.execute(
        "select began, now, correlation from engine_state where stream = ?", [stream]
    ).fetchall()  # to the end: DuckDB 2 refuses the next query otherwise
    if not saved:
        return None
    began, now, correlation = saved[0]
    frames = taken(folder, places(connection, stream))
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
    connection.execute("delete from state_fields where stream = ?", [stream])
    connection.execute("delete from engine_state where stream = ?", [stream])


def _frames(state: EngineState) -> dict[str, pl.DataFrame]:
    kinds: Mapping[str, Mapping[str, pl.DataFrame]] = {"pending": state.pending, "recent": state.recent}
    kept = {f"{kind}.{name}": rows for kind, tables in kinds.items() for name, rows in tables.items()}
    return {**state.detectors, **kept, SOURCES: state.sources}


def _is_same(frame: pl.DataFrame, before: pl.DataFrame, field: str) -> bool:
    """Whether a column is what it was."""
    if frame is before:
        return True
    return field in before.columns and frame[field].equals(before[field], check_dtypes=True)


def _identity(table: Table) -> pl.Schema:
    return pl.Schema({name: table.columns.get(name, pl.Int64()) for name in identity_of(table)})


def _kept(frame: pl.DataFrame | None, keeps: pl.Schema) -> pl.DataFrame:
    """The saved state as it is wanted; another version of it kept something else and begins anew."""
    if frame is None or set(frame.columns) != set(keeps):
        return pl.DataFrame(schema=keeps)
    return frame.select(keeps.names()).cast(keeps)
