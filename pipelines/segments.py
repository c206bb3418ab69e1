"""Closing an hour: its live rows become one Parquet file per table, and old segments are dropped by retention.

Safe at any point: a segment is written beside its final name, forced to the disk and renamed, and only then one
transaction takes the rows out of the live table and the file into the view. A file that no transaction knows is
overwritten next time. Rows that come for an hour that is sealed stay live and are sealed as another part of it.
"""

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl

from pipelines.on_disk import sync_folder
from pipelines.telemetry_schema import STORED, span_views
from pipelines.telemetry_store import TelemetryStore, transaction
from schemas.tables import TABLES

HOUR = timedelta(hours=1)
TIME_COLUMNS = {table.name: table.time for table in TABLES}
CLUSTERED = {table.name: table.key for table in TABLES}


@dataclass(frozen=True)
class Sealed:
    """One hour of one table that became a file. file: relative to the segments folder."""

    table: str
    hour: datetime
    file: str
    rows: int
    bytes: int


def seal(store: TelemetryStore, before: datetime) -> tuple[Sealed, ...]:
    """Seal every whole hour that ended at or before `before`. Rows without a time go with the newest of these hours."""
    done: list[Sealed] = []
    newest = before.replace(minute=0, second=0, microsecond=0) - HOUR
    with store.connected() as connection:
        for name, _ in STORED:
            hour_of = _hour_of(name)
            hours = connection.execute(
                f"select distinct {hour_of} as hour from live.{name} where hour <= $newest order by hour",
                {"newest": newest},
            ).fetchall()
            done.extend(_seal_hour(store, connection, name, hour, newest) for (hour,) in hours)
    return tuple(done)


def drop_older(store: TelemetryStore, before: datetime) -> tuple[str, ...]:
    """Retention: forget segments whose hour ended at or before `before`. Returns the files removed."""
    with store.connected() as connection:
        old = connection.execute(
            "select file from segments where hour + interval 1 hour <= ? order by file", [before]
        ).fetchall()
        with transaction(connection):
            connection.execute("delete from segments where hour + interval 1 hour <= ?", [before])
            span_views(connection, store.segments)
    for (file,) in old:
        (store.segments / file).unlink(missing_ok=True)
    return tuple(file for (file,) in old)


def _hour_of(name: str) -> str:
    """SQL: the hour a row belongs to. What has no time (a message that could not be read) belongs to $newest."""
    return f"date_trunc('hour', coalesce({TIME_COLUMNS.get(name, 'time')}, $newest))"


def _seal_hour(
    store: TelemetryStore, connection: duckdb.DuckDBPyConnection, name: str, hour: datetime, newest: datetime
) -> Sealed:
    column = TIME_COLUMNS.get(name, "time")
    order = ", ".join((*CLUSTERED.get(name, ()), column))
    file = _next_part(connection, name, hour)
    target = store.segments / file
    chosen, parameters = f"{_hour_of(name)} = $hour", {"newest": newest, "hour": hour}
    rows = connection.sql(f"select * from live.{name} where {chosen} order by {order}", params=parameters).pl()
    _write(rows, target)
    with transaction(connection):
        connection.execute("insert into segments values (?, ?, ?, ?)", [name, hour, file, rows.height])
        connection.execute(f"delete from live.{name} where {chosen}", parameters)
        span_views(connection, store.segments)
    return Sealed(name, hour, file, rows.height, target.stat().st_size)


def _next_part(connection: duckdb.DuckDBPyConnection, name: str, hour: datetime) -> str:
    # Fetched to the end: DuckDB 2 refuses the next query otherwise.
    [(parts,)] = connection.execute(
        "select count(*) from segments where table_name = ? and hour = ?", [name, hour]
    ).fetchall()
    return f"{name}/{hour:%Y-%m-%dT%H}.{parts}.parquet"


def _write(rows: pl.DataFrame, target: Path) -> None:
    """Whole or not at all, and on the disk before anybody relies on it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_suffix(".writing")
    with beside.open("wb") as file:
        rows.write_parquet(file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    beside.rename(target)
    sync_folder(target.parent)
