"""Closing an hour: its live rows become one Parquet file per table, and old segments are dropped by retention.

Safe at any point: a segment is written beside its final name and renamed, and only then one transaction takes the
rows out of the live table and the file into the view. A file that no transaction knows is overwritten next time.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import duckdb

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
    """Seal every whole hour that ended at or before `before`.

    Rows that the engine still holds back are in its state too; rows that come after their hour was sealed make one
    more part of it. So a stream that ended long ago, or one that is behind, holds nobody up.
    """
    done: list[Sealed] = []
    with store.connected() as connection:
        for name, _ in STORED:
            column = TIME_COLUMNS.get(name, "time")
            hours = connection.execute(
                f"select distinct date_trunc('hour', {column}) as hour from live.{name} "
                f"where hour + interval 1 hour <= ? order by 1",
                [before],
            ).fetchall()
            done.extend(_seal_hour(store, connection, name, hour) for (hour,) in hours)
    return tuple(done)


def _seal_hour(store: TelemetryStore, connection: duckdb.DuckDBPyConnection, name: str, hour: datetime) -> Sealed:
    column = TIME_COLUMNS.get(name, "time")
    order = ", ".join((*CLUSTERED.get(name, ()), column))
    count = connection.execute(
        "select count(*) from segments where table_name = ? and hour = ?", [name, hour]
    ).fetchone()
    part = count[0] if count else 0
    file = f"{name}/{hour:%Y-%m-%dT%H}.{part}.parquet"
    target = store.segments / file
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_suffix(".writing")
    rows = connection.sql(
        f"select * from live.{name} where {column} >= ? and {column} < ? order by {order}",
        params=[hour, hour + HOUR],
    ).pl()
    rows.write_parquet(beside, compression="zstd")
    beside.rename(target)
    with transaction(connection):
        connection.execute("insert into segments values (?, ?, ?, ?)", [name, hour, file, rows.height])
        connection.execute(f"delete from live.{name} where {column} >= ? and {column} < ?", [hour, hour + HOUR])
        span_views(connection, store.segments)
    return Sealed(name, hour, file, rows.height, target.stat().st_size)


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
