"""Which detectors cannot see, because what they read never came."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import polars as pl

from detectors.contract import Context, Detector
from schemas.tables import TABLE_BY_SCHEMA, Table
from schemas.topology import topology_from_frames

BLIND_COLUMNS = pl.Schema(
    {"detector": pl.String(), "state": pl.String(), "table": pl.String(), "columns": pl.List(pl.String())}
)
"""state: blind (nothing it judges by has come) or partly. columns: those without a value; empty: no row has come."""
AT_WILL = frozenset({"maintenance", "job_event", "late", "quarantine"})
"""Tables whose rows come when there is something to say: their absence blinds nobody."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOWHERE = topology_from_frames("none", pl.DataFrame(), pl.DataFrame())


def needs(detector: Detector, table: Table, column: str) -> bool:
    """Whether the detector asks for the column: it says so by failing on a table that has no such column."""
    tables = {schema: pl.DataFrame(schema=TABLE_BY_SCHEMA[schema].columns) for schema in detector.reads}
    tables[table.schema] = tables[table.schema].drop(column)
    context = Context(now=_EPOCH, began=_EPOCH, topology=_NOWHERE)
    try:
        detector.detect(tables, pl.DataFrame(schema=detector.keeps), context)
    except pl.exceptions.ColumnNotFoundError:
        return True
    return False


def blindness(detectors: Sequence[Detector], valued: Mapping[str, frozenset[str]]) -> pl.DataFrame:
    """BLIND_COLUMNS for every detector that lacks something. valued: table with rows -> columns that had a value."""
    found = []
    for detector in detectors:
        lacking: dict[str, list[str]] = {}
        lost, judged = 0, [TABLE_BY_SCHEMA[schema] for schema in detector.reads]
        judged = [table for table in judged if table.name not in AT_WILL]
        for table in judged:
            known = valued.get(table.name, frozenset())
            asked = [name for name in table.columns if name not in known and known and needs(detector, table, name)]
            if asked or not known:
                lacking[table.name] = asked
                lost += not known or not _sees(detector, table, known)
        state = "blind" if lost == len(judged) else "partly"
        found += [(detector.name, state, table, columns) for table, columns in lacking.items()]
    return pl.DataFrame(found, schema=BLIND_COLUMNS, orient="row")


def _sees(detector: Detector, table: Table, valued: frozenset[str]) -> bool:
    """Whether something beside key and time is left to judge by. The key of an event is what it says."""
    apart = (table.time, table.source) if table.interval_seconds is None else (table.time, *table.key)
    said = [name for name in table.columns if name in valued and name not in apart]
    return any(needs(detector, table, name) for name in said)
