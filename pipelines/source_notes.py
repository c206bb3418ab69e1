"""What intake learns of sources beside their rows: what they cannot show, how far off their clocks are, their names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import duckdb
import polars as pl

from pipelines.sources.arrival_lags import DELAY_COLUMNS
from schemas.identity import UNRESOLVED_COLUMNS
from schemas.tables import TABLE_BY_NAME
from schemas.topology import ALIAS_COLUMNS

SKEW_COLUMNS = pl.Schema({"table": pl.String, "source": pl.String, "behind_seconds": pl.Float64})


@dataclass(frozen=True, kw_only=True)
class SourceNotes:
    """missing: topic or file -> columns that none of its payloads could show. skew: how far the newest row of each
    source lies behind the newest message that came with it, to within a sampling interval; negative for a clock that
    is ahead. delays: as of pipelines.sources.arrival_lags. learned, unresolved: as of schemas.identity.
    """

    missing: Mapping[str, frozenset[str]] = field(default_factory=dict)
    skew: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SKEW_COLUMNS))
    delays: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=DELAY_COLUMNS))
    learned: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ALIAS_COLUMNS))
    unresolved: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=UNRESOLVED_COLUMNS))


def together(notes: Iterable[SourceNotes]) -> SourceNotes:
    """Several notes as one, the later ones last."""
    every = list(notes)
    missing: dict[str, frozenset[str]] = {}
    for one in every:
        for origin, columns in one.missing.items():
            missing[origin] = columns & missing.get(origin, columns)
    empty = SourceNotes()
    return SourceNotes(
        missing=missing,
        skew=pl.concat([empty.skew, *(one.skew for one in every)]),
        delays=pl.concat([empty.delays, *(one.delays for one in every)]),
        learned=pl.concat([empty.learned, *(one.learned for one in every)]),
        unresolved=pl.concat([empty.unresolved, *(one.unresolved for one in every)]),
    )


def skew_of(tables: Mapping[str, pl.DataFrame], newest_message: datetime | None) -> pl.DataFrame:
    """SKEW_COLUMNS of rows that came with messages up to this one. Events may be old."""
    found = [pl.DataFrame(schema=SKEW_COLUMNS)]
    for name, rows in tables.items():
        table = TABLE_BY_NAME[name]
        if newest_message is None or table.interval_seconds is None or rows.is_empty():
            continue
        behind = (pl.lit(newest_message) - pl.col(table.time).max()).dt.total_microseconds() * 1e-6
        newest = rows.group_by(source=table.source).agg(behind_seconds=behind.cast(pl.Float64))
        found.append(newest.select(pl.lit(name).alias("table"), "source", "behind_seconds"))
    return pl.concat(found)


def write_notes(connection: duckdb.DuckDBPyConnection, notes: SourceNotes) -> None:
    """Into the telemetry store, beside what is there: a source lacks what it has always lacked."""
    for origin, columns in notes.missing.items():
        known = connection.execute("select missing from source_signals where origin = ?", [origin]).fetchall()
        lacking = columns if not known else columns & set(known[0][0])
        connection.execute("insert or replace into source_signals values (?, ?)", [origin, sorted(lacking)])
    if not notes.skew.is_empty():
        medians = notes.skew.group_by("table", "source").agg(pl.col("behind_seconds").median())
        _put(connection, "insert or replace into source_skew select * from incoming", medians)
    if not notes.learned.is_empty():
        latest = notes.learned.unique(["kind", "alias"], keep="last", maintain_order=True)
        _put(connection, "insert or replace into identities select * from incoming", latest)
    if not notes.unresolved.is_empty():
        counts = notes.unresolved.group_by("table", "kind", "alias").agg(pl.col("rows").sum())
        _put(
            connection,
            "insert into unresolved select * from incoming on conflict do update set rows = rows + excluded.rows",
            counts,
        )


def frozen_aliases(connection: duckdb.DuckDBPyConnection, stream: str, *, begun: bool) -> pl.DataFrame:
    """ALIAS_COLUMNS that the stream goes by: what was learned before it began, whatever has been learned since."""
    statement = "select kind, alias, entity from stream_aliases where stream = ? order by all"
    if begun:
        found = connection.sql(statement, params=[stream])
    else:
        found = connection.sql("select kind, alias, entity from identities order by all")
    aliases: pl.DataFrame = found.pl()
    return aliases.cast(ALIAS_COLUMNS)


def write_frozen(connection: duckdb.DuckDBPyConnection, stream: str, aliases: pl.DataFrame) -> None:
    connection.execute("delete from stream_aliases where stream = ?", [stream])
    if not aliases.is_empty():
        with_stream = aliases.select(pl.lit(stream).alias("stream"), *ALIAS_COLUMNS)
        _put(connection, "insert into stream_aliases select * from incoming", with_stream)


def _put(connection: duckdb.DuckDBPyConnection, statement: str, rows: pl.DataFrame) -> None:
    connection.register("incoming", rows)
    connection.execute(statement)
    connection.unregister("incoming")
