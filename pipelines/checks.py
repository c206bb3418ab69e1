"""Checks of the telemetry tables after every ingest: is what is stored what the schemas promise, and is it recent?"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import dagster as dg

from pipelines.resources import POOL
from pipelines.store_status import (
    Verdict,
    newest_of,
    newest_verdict,
    ranges_verdict,
    recent_rows,
    schema_verdict,
    unique_verdict,
)
from pipelines.workplace import REFUSALS, Workplace
from schemas.tables import TABLES

# Rows and repeats are judged in the last stretch of each table: older rows were judged when they were new.
RECENT = timedelta(minutes=10)
NEWEST_ALLOWED = timedelta(minutes=10)
KINDS = {
    "schema": "Stored columns and types are those of the schema.",
    "ranges": "Rows of the last ten minutes keep every range, word and not-null rule of the schema.",
    "unique_rows": "No row of the last ten minutes is stored twice.",
    "newest_event": "The newest event is at most ten minutes old by the clock. Says nothing of event tables.",
}
SPECS = tuple(
    dg.AssetCheckSpec(kind, asset=table.name, description=description)
    for table in TABLES
    for kind, description in KINDS.items()
)


@dg.multi_asset_check(
    name="telemetry_checks",
    specs=SPECS,
    pool=POOL,
    description="Schema, ranges, repeats and age of every telemetry table.",
)
def telemetry_checks(workplace: dg.ResourceParam[Workplace]) -> Iterator[dg.AssetCheckResult]:
    """Asks every table; pipelines.store_status answers."""
    now, store = workplace.clock(), workplace.telemetry
    try:
        with store.connected() as connection:
            for table in TABLES:
                newest = newest_of(connection, table)
                shape = schema_verdict(connection, table)
                yield _result(table.name, "schema", shape)
                rows = recent_rows(connection, table, newest, RECENT)
                yield _result(table.name, "ranges", ranges_verdict(table, rows))
                yield _result(table.name, "unique_rows", unique_verdict(table, rows))
                yield _result(
                    table.name,
                    "newest_event",
                    newest_verdict(table, newest, now, NEWEST_ALLOWED),
                    dg.AssetCheckSeverity.WARN,
                )
    except REFUSALS as refusal:
        raise dg.Failure(description=str(refusal), allow_retries=False) from None


def _result(
    name: str, kind: str, verdict: Verdict, severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
) -> dg.AssetCheckResult:
    facts: dict[str, Any] = dict(verdict.facts)
    return dg.AssetCheckResult(
        asset_key=name,
        check_name=kind,
        passed=verdict.passed,
        severity=severity,
        description=verdict.what,
        metadata=facts,
    )
