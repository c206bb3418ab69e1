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
    no_rule = pl.lit(None, pl.String)
    taken = [
        rows.group_by(source=TABLE_SOURCES[name])
        .agg(count=pl.len())
        .select(
            pl.lit(name).alias("table"), pl.col("source"), pl.col("count").cast(pl.Int64),
            what=pl.lit("rows"), rule=no_rule,
        )
        for name, rows in accepted.items()
    ]  # fmt: skip
    one = pl.lit(1, pl.Int64).alias("count")
    behind = late.select("table", "source", one, what=pl.lit("late"), rule=no_rule)
    refused = quarantined.select(
        pl.col("table", "source").fill_null("unknown"), one, what=pl.lit("quarantined"), rule=pl.col("rule")
    )
    counts = [
        pl.col("count").filter(pl.col("what") == what).sum().alias(what) for what in ("rows", "late", "quarantined")
    ]
    return (
        pl.concat([*taken, behind, refused])
        .group_by("table", "source")
        .agg(*counts, reason=pl.col("rule").drop_nulls().mode().sort().first())
        .with_columns(time=pl.lit(now, UTC_MICROSECONDS))
        .select(HEALTH_COLUMNS.names())
        .sort("table", "source")
    )
