"""What admission did with the rows of each source: how many it took, how many were late, what it refused and why."""

from collections.abc import Mapping
from datetime import datetime

import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.finding import TelemetryHealth
from schemas.tables import TABLES

HEALTH_COLUMNS = pl.Schema({name: column.dtype for name, column in TelemetryHealth.columns().items()})
TABLE_SOURCES: Mapping[str, str] = {table.name: table.source for table in TABLES}


def health_of(
    accepted: Mapping[str, pl.DataFrame], late: pl.DataFrame, quarantined: pl.DataFrame, now: datetime
) -> pl.DataFrame:
    """HEALTH_COLUMNS: what admission did per table and source, with the batch's watermark as its time."""
    one, none = pl.lit(1, pl.Int64), dict.fromkeys(("rows", "late", "quarantined"), pl.lit(0, pl.Int64))
    no_rule = pl.lit(None, pl.String)
    taken = [
        rows.group_by(source=TABLE_SOURCES[name]).agg(rows=pl.len().cast(pl.Int64))
        .select(pl.lit(name).alias("table"), "source", **none | {"rows": pl.col("rows")}, rule=no_rule)
        for name, rows in accepted.items()
    ]  # fmt: skip
    behind = late.select("table", "source", **none | {"late": one}, rule=no_rule)
    refused = quarantined.select(
        pl.col("table", "source").fill_null("unknown"), **none | {"quarantined": one}, rule=pl.col("rule")
    )
    counted = pl.concat([*taken, behind, refused])
    if late.is_empty() and quarantined.is_empty():  # each source of a table is there once
        counted = counted.rename({"rule": "reason"})
    else:
        counted = counted.group_by("table", "source").agg(
            pl.col("rows", "late", "quarantined").sum(), reason=pl.col("rule").drop_nulls().mode().sort().first()
        )
    return counted.with_columns(time=pl.lit(now, UTC_MICROSECONDS))[HEALTH_COLUMNS.names()].sort("table", "source")
