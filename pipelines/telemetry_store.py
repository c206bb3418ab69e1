"""The telemetry store: one DuckDB file. One transaction per flush holds rows, findings, offsets and detectors' state,
so a crash at any point neither loses nor repeats a row, and a restarted process goes on as if nothing had happened.

The file is opened for each piece of work and closed again, so that other processes get in between. Live rows are in
schema `live`; sealed hours are Parquet segments beside the file; the views in schema `main` span both.
"""

import errno
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from detectors.contract import Detector
from pipelines.engine import EngineState, Step
from pipelines.source_lags import read_lags, write_lags
from pipelines.source_notes import SourceNotes, frozen_aliases, write_frozen, write_notes
from pipelines.state_packs import Field, StateLost, packs_beside, sweep
from pipelines.telemetry_cluster import Cluster, end_cluster, read_cluster, same_cluster, write_cluster
from pipelines.telemetry_schema import NotOurs, migrate, up_to_date
from pipelines.telemetry_state import drop_state, read_state, write_state
from schemas.tables import TABLES
from schemas.topology import Topology

Offsets = Mapping[tuple[str, int], int]
# What befalls a file, and no mistake of ours in a statement.
TROUBLES = (duckdb.IOException, duckdb.TransactionException, duckdb.OutOfMemoryException, duckdb.FatalException)
BEGUN_SECONDS = 3.0  # a file that ends too early may be one that another process is just beginning or closing


class StoreUnavailable(RuntimeError):
    """The DuckDB file cannot be opened: held by another process for too long, not ours, or not writable."""


class StoreBusy(StoreUnavailable):
    """Another process held the file for the whole time we were willing to wait, or there is no room on the disk.
    Nothing was written, and may be later.
    """


class StreamMoved(StoreUnavailable):
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

    @property
    def packs(self) -> Path:
        """Folder of what detectors remember (pipelines.state_packs)."""
        return packs_beside(self.path)

    @contextmanager
    def connected(self, *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection with the schema up to date, closed whatever happens. Raises StoreUnavailable, NewerStore."""
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
        except TROUBLES as error:
            raise _trouble(self.path, error) from None
        finally:
            connection.close()

    def _open(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        self._look(read_only=read_only)
        deadline = time.monotonic() + self.busy_seconds
        begun = time.monotonic() + BEGUN_SECONDS
        while True:
            try:
                return duckdb.connect(str(self.path), read_only=read_only)
            except duckdb.Error as error:
                holder = _holder(error)
                if "Could not read enough bytes" in str(error) and time.monotonic() < begun:
                    holder = "a process that is writing its first pages"
                if holder is None:
                    raise _trouble(self.path, error) from None
                if time.monotonic() >= deadline:
                    raise StoreBusy(f"{self.path}: held by {holder}; waited {self.busy_seconds:g} s") from None
                time.sleep(0.02)

    def _look(self, *, read_only: bool) -> None:
        """What DuckDB would say less clearly."""
        if self.path.is_dir():
            raise StoreUnavailable(f"{self.path}: is a folder; store.telemetry names a file")
        if read_only and not self.path.exists():
            raise StoreUnavailable(
                f"{self.path}: no telemetry store there; `hotspare ingest` or `hotspare demo` makes one"
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"{self.path}: its folder cannot be made: {error.strerror}") from None

    def flush(  # noqa: PLR0913, PLR0917  what one transaction holds
        self, stream: str, steps: Sequence[Step], offsets: Offsets, since: Offsets | None = None,
        notes: SourceNotes | None = None, aliases: pl.DataFrame | None = None, same: AbstractSet[Field] = frozenset(),
    ) -> None:  # fmt: skip
        """Write steps of a stream, and how far its source was read, whole or not at all. aliases: those that the stream
        goes by from now on, where it begins.

        same: fields of the state that are what they are in the file, and are not written again. since: the offsets from
        which the steps were made. Raises StoreBusy with nothing written, and StreamMoved where the stored offsets are
        no longer those: only one process may feed a stream.
        """
        with self.connected() as connection:
            try:
                sweep(connection, self.packs)  # before, not after: nothing may fail once the flush is committed
                with transaction(connection):
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
                    write_lags(connection, stream, steps)
                    if notes is not None:
                        write_notes(connection, notes)
                    if aliases is not None:
                        write_frozen(connection, stream, aliases)
                    if steps:
                        write_state(connection, self.packs, stream, steps[-1].state, same)
            except OSError as error:
                raise _trouble(self.packs, error) from None

    def offsets(self, stream: str) -> dict[tuple[str, int], int]:
        """Next offset to read of each topic partition of the stream."""
        with self.connected() as connection:
            return _offsets(connection, stream)

    def state(self, stream: str, detectors: tuple[Detector, ...]) -> EngineState | None:
        """Where the stream's last flush left off; None when there was none. A detector that is new begins empty."""
        with self.connected() as connection:
            try:
                return read_state(connection, self.packs, stream, detectors)
            except StateLost as error:
                raise StoreUnavailable(str(error)) from None

    def aliases(self, stream: str, *, begun: bool) -> pl.DataFrame:
        """Learned aliases that the stream goes by: those known when it began. begun: whether it has."""
        with self.connected() as connection:
            return frozen_aliases(connection, stream, begun=begun)

    def streams(self) -> dict[str, datetime]:
        """Every stream that was ever taken in, and the watermark it reached."""
        if not self.path.exists():
            return {}
        with self.connected() as connection:
            return dict(connection.execute("select stream, now from engine_state order by stream").fetchall())

    def forget(self, stream: str) -> None:
        """Drop a stream's state and progress; its rows and findings stay, and which cluster they are of."""
        with self.connected() as connection:
            with transaction(connection):
                end_cluster(connection, stream)
                drop_state(connection, stream)
                connection.execute("delete from stream_aliases where stream = ?", [stream])
                connection.execute("delete from source_lags where stream = ?", [stream])
                connection.execute("delete from offsets where stream = ?", [stream])
            sweep(connection, self.packs)

    def remember_cluster(self, stream: str, topology: Topology, intervals_seconds: Mapping[str, float]) -> None:
        """Keep the topology and sampling intervals that the stream is judged on, as of when it began."""
        with self.connected() as connection, transaction(connection):
            if not same_cluster(connection, stream):
                write_cluster(connection, stream, topology, intervals_seconds)

    def cluster(self, begin: datetime, end: datetime) -> Cluster | None:
        """Topology and intervals of what was stored from begin to end, if they are known."""
        with self.connected(read_only=True) as connection:
            return read_cluster(connection, begin, end)

    def lags(self, begin: datetime, end: datetime) -> Mapping[str, timedelta]:
        """How much later than others' rows of nodes came in begin <= time < end (pipelines.sources.arrival_lags)."""
        with self.connected(read_only=True) as connection:
            return read_lags(connection, begin, end)

    def query(self, sql: str, parameters: list[Any] | dict[str, Any] | None = None) -> pl.DataFrame:
        """Rows of a read-only query over the views."""
        with self.connected(read_only=True) as connection:
            found: pl.DataFrame = connection.sql(sql, params=parameters or []).pl()
        return found

    def window_of(
        self, table: str, starts_at: datetime, ends_at: datetime, *, column: str = "time",
        where: tuple[str, Sequence[str]] | None = None,
    ) -> pl.DataFrame:  # fmt: skip
        """Rows of one of our tables with starts_at <= column < ends_at, in that order; where: (column, its values)."""
        sql = f"select * from {table} where {column} >= ? and {column} < ?"
        parameters: list[Any] = [starts_at, ends_at]
        if where is not None:
            sql += f" and {where[0]} in ({', '.join('?' * len(where[1]))})" if where[1] else " and false"
            parameters += where[1]
        # A filter keeps the order of the files, which a join or DuckDB's sort does not among rows of one time.
        return self.query(sql, parameters).sort(column, maintain_order=True)

    def window(self, table: str, starts_at: datetime, ends_at: datetime) -> pl.DataFrame:
        """Rows of a telemetry table with starts_at <= time < ends_at, live and sealed."""
        column = next(entry.time for entry in TABLES if entry.name == table)
        return self.window_of(table, starts_at, ends_at, column=column)


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    connection.begin()
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):  # a file that DuckDB has given up takes no rollback, and needs none
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


def _holder(error: duckdb.Error) -> str | None:
    """Who holds the file; None where the trouble is another."""
    if isinstance(error, duckdb.ConnectionException):  # one thread of ours reads while another writes
        return f"another thread of this process ({os.getpid()})"
    if "Could not set lock" not in str(error):
        return None
    found = re.search(r"held in (\S+) \(PID (\d+)\)", str(error))
    return f"{Path(found[1]).name} (process {found[2]})" if found else "another process"


def _trouble(path: Path, error: Exception) -> StoreUnavailable:
    """What the disk, or DuckDB of its file, says."""
    if os.strerror(errno.ENOSPC) in str(error):
        return StoreBusy(f"{path}: the disk is full; rows wait in memory until there is room on it")
    return StoreUnavailable(f"{path}: cannot be read or written ({_first_line(error)})")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
