"""A bundle as a source: replayed like a recording, anywhere."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import polars as pl

from pipelines.bundles.bundle import Bundle
from pipelines.row_order import in_order
from pipelines.sources.windows import WindowSource
from replay.simulate import Window
from schemas.tables import TABLES, Table, empty


def bundle_source(bundle: Bundle, *, seconds: int) -> WindowSource:
    """Windows of `seconds` of event time. Rows were admitted once; they pass the door again unchanged."""
    manifest = bundle.manifest

    def windows() -> Iterator[Window]:
        rows = {table.name: _in_order(bundle.tables.get(table.name, empty(table)), table) for table in TABLES}
        at = manifest.starts_at
        while at < manifest.ends_at:
            until = min(at + timedelta(seconds=seconds), manifest.ends_at)
            yield Window(at, until, {table.name: _between(rows[table.name], table, at, until) for table in TABLES})
            at = until

    return WindowSource(
        stream=f"bundle:{manifest.incident}", topology=bundle.topology, intervals_seconds=manifest.intervals,
        span_seconds=(manifest.ends_at - manifest.starts_at).total_seconds(), windows=windows,
        lags={node: timedelta(seconds=lag) for node, lag in manifest.lags.items()},
    )  # fmt: skip


def _in_order(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """By time, rows without one left out: they belong to no window."""
    timed = rows.filter(pl.col(table.time).is_not_null()) if rows[table.time].null_count() else rows
    return timed if timed[table.time].is_sorted() else timed.sort(table.time, maintain_order=True)


def _between(rows: pl.DataFrame, table: Table, begin: datetime, end: datetime) -> pl.DataFrame:
    """In the order in which the engine judges rows: it need not look for repeats, nor sort."""
    first, last = (rows[table.time].search_sorted(moment, side="left") for moment in (begin, end))
    return in_order(rows[first:last], [table.time, *table.key])
