"""The telemetry store: one DuckDB file. One transaction per flush holds rows, findings, offsets and detectors' state,
so a crash at any point neither loses nor repeats a row, and a restarted process goes on as if nothing had happened.

The file is opened for each piece of work and closed again, so that other processes get in between. Live rows are in
schema `live`; sealed hours are Parquet segments beside the file; the views in schema `main` span both.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from detectors.contract import Detector
from detectors.correlation_state import decode, encode
from pipelines.engine import EngineState, Step
from pipelines.telemetry_schema import NotOurs, migrate, up_to_date
from schemas.tables import TABLES

Offsets = Mapping[tuple[str, int], int]


class StoreUnavailable(RuntimeError):
    """The DuckDB file cannot be opened: held by another process for too long, not ours, or not writable."""


class StoreBusy(StoreUnavailable):
    """Another process held the file for the whole time we were willing to wait. Nothing was written."""


class StreamMoved(StoreUnavailable):  # noqa: N818  says what is so; the command line prints it as one line
    """Another process has written the stream since we read where it stood. Nothing was written."""


@dataclass(frozen=True)
class TelemetryStore:
    """path: the DuckDB file. busy_seconds: how long to wait for another process to close it."""

    path: Path
    busy_seconds: float = 10.0

    @property
    def segments(self) -> Path:
        """Folder of the sealed hours."""
        return self.path.with_suffix(".segments")

    @contextmanager
    def connected(self, *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """An open connection with the schema up to date, closed whatever happens. Raises StoreUnavailable, NewerStore."""
        connection = self._open(read_only=read_only)
        try:
            connection.execute("set timezone = 'UTC'")
            if read_only and not up_to_date(connection, self.segments, self.path):
                connection.close()
                with self.connected():
                    pass  # an older file, or one that was moved, is put right by whoever opens it first
                connection = self._open(read_only=True)
                connection.execute("set timezone = 'UTC'")
            if not read_only:
                migrate(connection, self.segments, self.path)
            yield connection
        except NotOurs as error:
            raise StoreUnavailable(str(error)) from None
        finally:
            connection.close()

    def _open(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        if read_only and not self.path.exists():
            raise StoreUnavailable(
                f"{self.path}: no telemetry store there; `hotspare ingest` or `hotspare demo` makes one"
            )
        if self.path.is_dir():
            raise StoreUnavailable(f"{self.path}: is a folder; store.telemetry names a file")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"{self.path}: its folder cannot be made: {error.strerror}") from None
        deadline = time.monotonic() + self.busy_seconds
        while True:
            try:
                return duckdb.connect(str(self.path), read_only=read_only)
            except duckdb.IOException as error:
                if "Could not set lock" not in str(error):
                    raise StoreUnavailable(
                        f"{self.path}: not a DuckDB file that can be opened ({_first_line(error)})"
                    ) from None
                if time.monotonic() >= deadline:
                    raise StoreBusy(f"{self.path}: held by {_holder(error)}; waited {self.busy_seconds:g} s") from None
                time.sleep(0.02)
            except duckdb.ConnectionException:  # another thread of this process reads while we write, or the reverse
                if time.monotonic() >= deadline:
                    raise StoreBusy(
                        f"{self.path}: held by another thread of process {os.getpid()}; waited {self.busy_seconds:g} s"
                    ) from None
                time.sleep(0.02)
            except duckdb.Error as error:
                raise StoreUnavailable(f"{self.path}: {_first_line(error)}") from None

    def flush(self, stream: str, steps: Sequence[Step], offsets: Offsets, since: Offsets | None = None) -> None:
        """Write steps of a stream, and how far its source was read, whole or not at all.

        since: the offsets from which the steps were made. Raises StoreBusy with nothing written, and StreamMoved where
        the stored offsets are no longer those: only one process may feed a stream.
        """
        with self.connected() as connection, transaction(connection):
            if since is not None and (moved := _moved(_offsets(connection, stream), since)):
                raise StreamMoved(f"{self.path}: {moved} of stream {stream}; is another process ingesting it?")
            for step in steps:
                for name, rows in step.accepted.items():
                    append(connection, f"live.{name}", rows)
                append(connection, "live.findings", step.findings)
                append(connection, "live.late", step.late)
                append(connection, "live.telemetry_health", step.health)
                append(connection, "live.quarantine", step.quarantined)
            for (topic, partition), offset in offsets.items():
                connection.execute(
                    "insert or replace into offsets values (?, ?, ?, ?)", [stream, topic, partition, offset]
                )
            if steps:
                _write_state(connection, stream, steps[-1].state)

    def offsets(self, stream: str) -> dict[tuple[str, int], int]:
        """Next offset to read of each topic partition of the stream."""
        with self.connected() as connection:
            return _offsets(connection, stream)

    def state(self, stream: str, detectors: tuple[Detector, ...]) -> EngineState | None:
        """Where the stream's last flush left off; None when there was none. A detector that is new begins empty."""
        with self.connected() as connection:
            saved = connection.execute(
                "select began, now, correlation from engine_state where stream = ?", [stream]
            ).fetchone()
            if saved is None:
                return None
            began, now, correlation = saved
            frames = _read_frames(connection, stream)
        return EngineState(
            began=began, now=now, sources=frames["engine.sources"], pending=_by_table("pending", frames),
            recent=_by_table("recent", frames),
            detectors={detector.name: _kept(frames.get(detector.name), detector.keeps) for detector in detectors},
            correlation=decode(correlation),
        )  # fmt: skip

    def streams(self) -> dict[str, datetime]:
        """Every stream that was ever taken in, and the watermark it reached."""
        if not self.path.exists():
            return {}
        with self.connected() as connection:
            return dict(connection.execute("select stream, now from engine_state order by stream").fetchall())

    def forget(self, stream: str) -> None:
        """Drop a stream's state and progress; its rows and findings stay."""
        with self.connected() as connection, transaction(connection):
            for name in _state_names(connection, stream):
                connection.execute(f"drop table {_state_table(stream, name)}")
            connection.execute("delete from engine_state where stream = ?", [stream])
            connection.execute("delete from offsets where stream = ?", [stream])

    def query(self, sql: str, parameters: list[Any] | None = None) -> pl.DataFrame:
        """Rows of a read-only query over the views."""
        with self.connected(read_only=True) as connection:
            return connection.sql(sql, params=parameters or []).pl()

    def window(self, table: str, starts_at: datetime, ends_at: datetime) -> pl.DataFrame:
        """Rows of a telemetry table with starts_at <= time < ends_at, live and sealed."""
        column = next(entry.time for entry in TABLES if entry.name == table)
        return self.query(
            f"select * from {table} where {column} >= ? and {column} < ? order by {column}", [starts_at, ends_at]
        )


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def append(connection: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame) -> None:
    """Insert by column name. `table` is one of our own names, never a value from telemetry."""
    if rows.is_empty():
        return
    connection.register("incoming", rows)
    connection.execute(f"insert into {table} by name select * from incoming")
    connection.unregister("incoming")


def _offsets(connection: duckdb.DuckDBPyConnection, stream: str) -> dict[tuple[str, int], int]:
    rows = connection.execute("select topic, partition, next_offset from offsets where stream = ?", [stream]).fetchall()
    return {(topic, partition): offset for topic, partition, offset in rows}


def _moved(stored: Offsets, since: Offsets) -> str | None:
    """What another process has written, in words."""
    for (topic, partition), offset in stored.items():
        if since.get((topic, partition)) != offset:
            return f"{topic} {partition} has been read up to {offset} by somebody else"
    gone = sorted(set(since) - set(stored))
    return f"where {gone[0][0]} {gone[0][1]} stood has been forgotten" if gone else None


def _write_state(connection: duckdb.DuckDBPyConnection, stream: str, state: EngineState) -> None:
    """The state's frames become tables that a person can read: state."<stream>|<detector>"."""
    kept = {
        f"{kind}.{name}": rows
        for kind, tables in (("pending", state.pending), ("recent", state.recent))
        for name, rows in tables.items()
    }
    frames = {**state.detectors, **kept, "engine.sources": state.sources}
    for name, frame in frames.items():
        connection.register("incoming", frame)
        connection.execute(f"create or replace table {_state_table(stream, name)} as select * from incoming")
        connection.unregister("incoming")
    for name in _state_names(connection, stream) - set(frames):
        connection.execute(f"drop table {_state_table(stream, name)}")
    connection.execute(
        "insert or replace into engine_state values (?, ?, ?, ?)",
        [stream, state.began, state.now, encode(state.correlation)],
    )


def _read_frames(connection: duckdb.DuckDBPyConnection, stream: str) -> dict[str, pl.DataFrame]:
    return {
        name: connection.sql(f"select * from {_state_table(stream, name)}").pl()
        for name in sorted(_state_names(connection, stream))
    }


def _by_table(kind: str, frames: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """pending.gpu, pending.power, ... of the stored frames, by name of the table."""
    return {table.name: frames[f"{kind}.{table.name}"] for table in TABLES if f"{kind}.{table.name}" in frames}


def _state_names(connection: duckdb.DuckDBPyConnection, stream: str) -> set[str]:
    rows = connection.execute(
        "select table_name from duckdb_tables() where schema_name = 'state' and starts_with(table_name, ?)",
        [f"{stream}|"],
    ).fetchall()
    return {name.removeprefix(f"{stream}|") for (name,) in rows}


def _state_table(stream: str, name: str) -> str:
    quoted = f"{stream}|{name}".replace('"', '""')
    return f'state."{quoted}"'


def _kept(frame: pl.DataFrame | None, keeps: pl.Schema) -> pl.DataFrame:
    """The saved state as the detector wants it; another version of it kept something else and begins anew."""
    if frame is None or set(frame.columns) != set(keeps):
        return pl.DataFrame(schema=keeps)
    return frame.select(keeps.names()).cast(dict(keeps))


def _holder(error: Exception) -> str:
    found = re.search(r"held in (\S+) \(PID (\d+)\)", str(error))
    return f"{Path(found[1]).name} (process {found[2]})" if found else "another process"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
