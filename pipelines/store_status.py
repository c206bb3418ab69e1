"""What stands in the telemetry store, and whether it is as it should be: the questions behind counts and checks."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import duckdb
import polars as pl

from pipelines.telemetry_schema import STORED
from pipelines.telemetry_store import TelemetryStore
from schemas.admission import admit
from schemas.tables import TABLES, Table

TIMES = {table.name: table.time for table in TABLES}


@dataclass(frozen=True)
class TableStatus:
    """rows: live and sealed. newest: event time of the newest row, None without rows."""

    rows: int
    newest: datetime | None


@dataclass(frozen=True)
class Verdict:
    """What a check of one table found. facts: numbers and words worth showing beside it."""

    passed: bool
    what: str
    facts: dict[str, int | float | str]


def table_status(store: TelemetryStore) -> dict[str, TableStatus]:
    """Every stored table, one opening of the file."""
    selects = " union all ".join(
        f"select '{name}', count(*), max({TIMES.get(name, 'time')}) from {name}" for name, _ in STORED
    )
    with store.connected() as connection:
        rows = connection.execute(selects).fetchall()
    return {name: TableStatus(count, newest) for name, count, newest in rows}


def findings_by_cause(store: TelemetryStore, since: datetime | None, until: datetime | None) -> dict[str, int]:
    """Levels that began with since <= time < until; none without bounds, as of a run that took nothing in."""
    if since is None or until is None:
        return {}
    counted = store.query(
        "select cause, count(*) from findings where active and time >= ? and time < ? group by cause order by cause",
        [since, until],
    )
    return dict(counted.iter_rows())


def schema_verdict(connection: duckdb.DuckDBPyConnection, table: Table) -> Verdict:
    """Whether the stored columns are those of the schema, in name and type."""
    stored = connection.sql(f"select * from {table.name} limit 0").pl().schema
    wanted = table.columns
    wrong = [name for name, kind in wanted.items() if stored.get(name) != kind]
    wrong += [name for name in stored if name not in wanted]
    facts: dict[str, int | float | str] = {"columns": len(stored)}
    if wrong:
        return Verdict(False, f"{table.name}: differs from its schema in {', '.join(wrong)}", facts)
    return Verdict(True, "columns and types are those of the schema", facts)


def ranges_verdict(table: Table, rows: pl.DataFrame) -> Verdict:
    """Whether stored rows would be admitted again: every range, word and not-null rule of the schema."""
    refused = admit(table, rows).quarantined
    facts: dict[str, int | float | str] = {"rows": rows.height, "broken": refused.height}
    if refused.is_empty():
        return Verdict(True, "every row keeps every rule", facts)
    rules = ", ".join(refused["rule"].drop_nulls().unique().sort().head(5))
    return Verdict(False, f"{table.name}: {refused.height} rows break {rules}", facts)


def unique_verdict(table: Table, rows: pl.DataFrame) -> Verdict:
    """Whether no two rows have the same time and key."""
    repeated = rows.height - rows.select(table.time, *table.key).n_unique() if rows.height else 0
    facts: dict[str, int | float | str] = {"rows": rows.height, "repeated": repeated}
    if repeated:
        return Verdict(False, f"{table.name}: {repeated} rows say again what ({', '.join(table.key)}) said", facts)
    return Verdict(True, "no row is there twice", facts)


def newest_verdict(table: Table, newest: datetime | None, now: datetime, allowed: timedelta) -> Verdict:
    """Whether the newest event is recent. Events, whose silence means nothing, are only told."""
    if newest is None:
        return Verdict(True, "no rows yet", {})
    age = now - newest
    facts: dict[str, int | float | str] = {"age_seconds": age.total_seconds(), "newest": newest.isoformat()}
    if table.interval_seconds is None or age <= allowed:
        return Verdict(True, f"newest event at {newest:%Y-%m-%d %H:%M:%S} UTC", facts)
    return Verdict(
        False,
        f"{table.name}: newest event at {newest:%Y-%m-%d %H:%M:%S} UTC, {age} ago; is its source still sent?",
        facts,
    )


def recent_rows(
    connection: duckdb.DuckDBPyConnection, table: Table, newest: datetime | None, span: timedelta
) -> pl.DataFrame:
    """The last stretch of a table: what the latest runs brought."""
    since = None if newest is None else newest - span
    rows: pl.DataFrame = connection.sql(f"select * from {table.name} where {table.time} >= ?", params=[since]).pl()
    return rows


def newest_of(connection: duckdb.DuckDBPyConnection, table: Table) -> datetime | None:
    # All rows of a result are fetched before the next query: DuckDB 2 refuses otherwise.
    [(newest,)] = connection.execute(f"select max({table.time}) from {table.name}").fetchall()
    return newest  # type: ignore[no-any-return]  # DuckDB gives Any; the column is a time
