"""What the telemetry store says of each source: last seen, rows, rejects, missing signals, clock, names."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from detectors.contract import Detector
from pipelines.blindness import blindness
from pipelines.telemetry_store import TelemetryStore
from schemas.tables import TABLES, Table

SOURCES = """
    with health as (
        select "table", source, sum(rows)::bigint as rows, sum(late)::bigint as late,
            sum(quarantined)::bigint as rejects, max(time) filter (where rows > 0) as last_seen
        from telemetry_health group by all
    )
    select health.*, skew.behind_seconds from health
    left join source_skew as skew on skew.table_name = health."table" and skew.source = health.source
    order by rejects + late desc, last_seen nulls first, 1, 2
"""
REJECTS = """
    select "table", source, topic, rule, count(*)::bigint as rows, any_value(reason) as example
    from quarantine group by "table", source, topic, rule order by rows desc, 1, 2, 3, 4
"""
SIGNALS = "select origin, missing from source_signals where len(missing) > 0 order by origin"
UNRESOLVED = 'select table_name as "table", kind, alias, rows from unresolved order by rows desc, 1, 2, 3'
LEARNED = """
    select learned.kind, learned.alias, learned.entity from identities as learned
    where exists (
        from engine_state where stream not in (
            select stream from stream_aliases as known
            where (known.kind, known.alias, known.entity) = (learned.kind, learned.alias, learned.entity)
        )
    ) order by all
"""
RECENT = "interval 1 day"


@dataclass(frozen=True, kw_only=True)
class SourceReport:
    """sources: table, source, rows, late, rejects, last_seen, behind_seconds (null where arrival is not known).
    rejects: by table, source, topic and rule. signals: origin, missing. blind: as of pipelines.blindness, judged by the
    last day of each table. unresolved: names that nothing knows. learned: names that some stream does not go by yet.
    """

    sources: pl.DataFrame
    rejects: pl.DataFrame
    signals: pl.DataFrame
    blind: pl.DataFrame
    unresolved: pl.DataFrame
    learned: pl.DataFrame


def source_report(store: TelemetryStore, detectors: Sequence[Detector]) -> SourceReport:
    """Raises StoreUnavailable, NewerStore."""
    valued = {table.name: columns for table in TABLES if (columns := _valued(store, table))}
    return SourceReport(
        sources=store.query(SOURCES), rejects=store.query(REJECTS), signals=store.query(SIGNALS),
        blind=blindness(detectors, valued), unresolved=store.query(UNRESOLVED), learned=store.query(LEARNED),
    )  # fmt: skip


def _valued(store: TelemetryStore, table: Table) -> frozenset[str]:
    """Columns that had a value in the last day of the table; none where it has no rows."""
    counts = ", ".join(f'count("{name}") as "{name}"' for name in table.columns)
    newest = f'(select max("{table.time}") from {table.name})'  # noqa: S608  names of our own tables
    found = store.query(f'select {counts} from {table.name} where "{table.time}" >= {newest} - {RECENT}')  # noqa: S608
    return frozenset(name for name, count in found.row(0, named=True).items() if count)
