"""Closed hours leave the live tables for Parquet, and the oldest are dropped."""

from collections import Counter
from datetime import timedelta
from typing import Any

import dagster as dg

from pipelines.assets.incident_tables import table
from pipelines.assets.ingest import INTAKES, TELEMETRY
from pipelines.resources import POOL
from pipelines.segments import drop_older, seal
from pipelines.workplace import REFUSALS, Workplace

GRACE = timedelta(minutes=5)  # rows of an hour may still be on their way when it ends


@dg.asset(
    deps=[*TELEMETRY, *INTAKES, "findings"],
    group_name="storage",
    kinds={"parquet"},
    pool=POOL,
    description="Whole hours of every table as Parquet (zstd) beside the DuckDB file; views span both. Retention.",
)
def hourly_segments(
    context: dg.AssetExecutionContext, workplace: dg.ResourceParam[Workplace]
) -> dg.MaterializeResult[Any]:
    now, days = workplace.clock(), workplace.settings.store.retention_days
    try:
        sealed = seal(workplace.telemetry, before=now - GRACE)
        dropped = drop_older(workplace.telemetry, before=now - timedelta(days=days))
    except REFUSALS as refusal:
        raise dg.Failure(description=str(refusal), allow_retries=False) from None
    rows: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for one in sealed:
        rows[one.table] += one.rows
        size[one.table] += one.bytes
    context.log.info("%d segments written, %d older than %d days dropped", len(sealed), len(dropped), days)
    shown = [{"table": name, "rows": rows[name], "bytes": size[name]} for name in sorted(rows)]
    return dg.MaterializeResult(
        metadata={
            "segments": len(sealed), "rows_sealed": rows.total(), "bytes_written": size.total(),
            "segments_dropped": len(dropped),
            "folder": dg.MetadataValue.path(str(workplace.telemetry.segments.absolute())),
            **table("sealed", ("table", "rows", "bytes"), shown),
        }
    )  # fmt: skip
