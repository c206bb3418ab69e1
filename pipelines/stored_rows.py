"""Rows of a long window of the store, read window by window: when anything was stored at all, and only the files of
the hour that is being read.

The views of the store span every sealed hour, and a query of them opens each of its files; over a month that is more
than the reading itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import duckdb
import polars as pl

from pipelines.row_order import in_order
from pipelines.sources.contract import SourceError
from pipelines.telemetry_cluster import read_spans
from pipelines.telemetry_schema import read_segments
from pipelines.telemetry_store import TelemetryStore
from replay.simulate import Window
from schemas.tables import TABLES, Table

HOUR = timedelta(hours=1)
INSTANT = timedelta(microseconds=1)
# Rows that tell of times to come, or are written by people, say nothing of whether the cluster was watched.
WATCHED = tuple(table for table in TABLES if not table.ahead)


class NothingStored(SourceError):
    """Of the window asked for."""


@dataclass(frozen=True)
class Stretch:
    """begins_at <= time < ends_at, with no whole hour in it of which nothing is stored."""

    begins_at: datetime
    ends_at: datetime

    @property
    def seconds(self) -> float:
        return (self.ends_at - self.begins_at).total_seconds()

    def __contains__(self, moment: datetime) -> bool:
        return self.begins_at <= moment < self.ends_at


def stored_hours(store: TelemetryStore) -> tuple[datetime, ...]:
    """Clock hours of which telemetry is stored, in order; of sealed ones only the list is read."""
    live = " union ".join(
        f"select date_trunc('hour', {table.time}) as hour from live.{table.name}"  # noqa: S608  names of our own
        for table in WATCHED
    )
    sealed = "select hour from segments where table_name in (select unnest(?))"
    with store.connected(read_only=True) as connection:
        found = connection.execute(
            f"{live} union {sealed} order by hour", [[table.name for table in WATCHED]]
        ).fetchall()
    return tuple(hour for (hour,) in found)


def look_for_rows(store: TelemetryStore, begin: datetime, end: datetime) -> None:
    """Raises NothingStored, with what is stored instead, when no row lies in begin <= time < end."""
    hours = stored_hours(store)
    touched = [hour for hour in hours if begin - HOUR < hour < end]
    if any(begin <= hour and hour + HOUR <= end for hour in touched):
        return
    if any(_newest(store, max(hour, begin), min(hour + HOUR, end)) is not None for hour in touched):
        return
    if not hours:
        raise NothingStored(f"{store.path}: holds no telemetry at all; `hotspare ingest` takes some in")
    window = f"{begin:%Y-%m-%dT%H:%M:%SZ} to {end:%Y-%m-%dT%H:%M:%SZ}"
    held = f"{hours[0]:%Y-%m-%dT%H:%M}Z to {hours[-1] + HOUR:%Y-%m-%dT%H:%M}Z"
    raise NothingStored(f"{store.path}: nothing is stored of {window}; it holds hours from {held}")


def stretches(store: TelemetryStore, begin: datetime, end: datetime) -> tuple[Stretch, ...]:
    """What is stored of begin <= time < end, in order of time.

    After an hour without any row the cluster was not watched, and a new stretch begins; and where a stream began when
    no other was under way. A stretch ends with its last row, or later where the stream that it came from had heard
    nothing for longer: so its silence is judged as it was.
    """
    hours = [hour for hour in stored_hours(store) if begin - HOUR < hour < end]
    runs: list[list[datetime]] = []
    for hour in hours:
        if runs and hour - runs[-1][-1] <= HOUR:
            runs[-1].append(hour)
        else:
            runs.append([hour])
    found = (_stretch(store, run, begin, end) for run in runs)
    with store.connected(read_only=True) as connection:
        streams = read_spans(connection)
    return tuple(part for one in found if one is not None for part in by_stream(one, streams))


def by_stream(stretch: Stretch, streams: Sequence[tuple[datetime, datetime]]) -> Iterator[Stretch]:
    """The stretch cut where a stream began anew, from where the one before it had got to."""
    at = stretch.begins_at
    for began, _ in streams:
        before = [until for other, until in streams if other < began]
        if not at < began < stretch.ends_at or not before or max(before) > began:
            continue
        if max(before) > at:
            yield Stretch(at, max(before))
        at = began
    yield Stretch(at, stretch.ends_at)


def windows(store: TelemetryStore, stretch: Stretch, seconds: int, rows: int = 0) -> Iterator[Window]:
    """Windows of `seconds`, every table in order of time; of up to an hour where they hold fewer than so many rows. The
    file is open only while one is read.
    """
    at, long = stretch.begins_at, timedelta(seconds=seconds)
    while at < stretch.ends_at:
        until = min(at + long, stretch.ends_at)
        with store.connected(read_only=True) as connection:
            tables = _tables(store, at, until, connection)
        yield Window(at, until, tables)
        count = sum(frame.height for frame in tables.values())
        if 3 * count < rows:
            long = min(2 * long, HOUR)
        elif count > rows:
            long = max(long / 2, timedelta(seconds=seconds))
        at = until


def _tables(
    store: TelemetryStore, begin: datetime, end: datetime, connection: duckdb.DuckDBPyConnection
) -> dict[str, pl.DataFrame]:
    """In the order in which the engine judges rows: it need not look for repeats, nor sort."""
    return {
        table.name: in_order(
            connection.sql(_rows(connection, store, table, begin, end), params={"begin": begin, "end": end}).pl(),
            [table.time, *table.key],
        )
        for table in TABLES
    }


def _stretch(store: TelemetryStore, run: Sequence[datetime], begin: datetime, end: datetime) -> Stretch | None:
    """run: hours one after the other; of those that the window only touches it may hold no row."""
    newest = (_newest(store, max(hour, begin), min(hour + HOUR, end)) for hour in reversed(run))
    last = next((moment for moment in newest if moment is not None), None)
    if last is None:
        return None
    first = max(run[0], begin)
    cluster = store.cluster(first, last + INSTANT)
    heard = last if cluster is None else min(cluster.until, run[-1] + 2 * HOUR)
    return Stretch(first, min(max(last + INSTANT, heard), end))


def _newest(store: TelemetryStore, begin: datetime, end: datetime) -> datetime | None:
    """Time of the newest row of telemetry with begin <= time < end; the window lies within one hour."""
    with store.connected(read_only=True) as connection:
        found = [
            connection.execute(
                f"select max({table.time}) from ({_rows(connection, store, table, begin, end)})",  # noqa: S608  names of our own
                {"begin": begin, "end": end},
            ).fetchall()[0][0]
            for table in WATCHED
        ]
    return max((moment for moment in found if moment is not None), default=None)


def _rows(
    connection: duckdb.DuckDBPyConnection, store: TelemetryStore, table: Table, begin: datetime, end: datetime
) -> str:
    """SQL of the table's rows with $begin <= time < $end."""
    first = begin.replace(minute=0, second=0, microsecond=0)
    found = connection.execute(
        "select file from segments where table_name = ? and hour >= ? and hour < ? order by file",
        [table.name, first, end],
    ).fetchall()
    inside = f"where {table.time} >= $begin and {table.time} < $end"
    live = f"select * from live.{table.name} {inside}"  # noqa: S608  names of our own
    if not found:
        return live
    sealed = read_segments(store.segments, [file for (file,) in found])
    return f"{live} union all by name select * from {sealed} {inside}"  # noqa: S608  our own files
