"""From arrays (ticks, entities) to rows of a table, in order of time because entities are in order of their offset."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from replay.randomness import Array, Flags, Floats, Integers
from schemas.columns import UTC_MICROSECONDS
from schemas.tables import TABLE_BY_NAME, empty

Column = Array | pl.Series
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def microseconds(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(microseconds=1)


def ticks_of(seconds: Floats, interval: int) -> Integers:
    """Positions in the block at which a source with this interval samples."""
    return np.flatnonzero(seconds.astype(np.int64) % interval == 0)


def sampled_rows(  # noqa: PLR0913, PLR0917  # what a block of rows is made of
    table: str,
    entities: pl.DataFrame,
    offsets: Integers,
    times: Integers,
    readings: Mapping[str, Column],
    kept: Flags | None = None,
) -> pl.DataFrame:
    """Rows of one block.

    entities: the columns that never change, one row per entity. offsets (entities,) and times (ticks,):
    microseconds. readings: (ticks, entities) or a flat series of them; NaN becomes null. kept: rows that are sent.
    """
    frame = pl.concat([entities] * len(times)) if len(times) else entities.clear()
    when = (times[:, None] + offsets).ravel()
    columns = [pl.Series("time", when).cast(UTC_MICROSECONDS)]
    columns += [_column(name, values) for name, values in readings.items()]
    frame = frame.with_columns(columns)
    if kept is not None and not kept.all():
        frame = frame.filter(pl.Series(kept.ravel()))
    return as_table(table, frame)


def event_rows(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Events in order of time; `time` in microseconds."""
    if not rows:
        return empty(TABLE_BY_NAME[table])
    columns = TABLE_BY_NAME[table].columns
    held = [name for name in columns if any(name in row for row in rows)]
    data = {name: [row.get(name) for row in rows] for name in held}
    frame = pl.DataFrame({name: pl.Series(name, values, _plain(columns[name])) for name, values in data.items()})
    return as_table(table, frame).sort(TABLE_BY_NAME[table].time, maintain_order=True)


def as_table(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Exactly the table's columns; what is not there is null."""
    return frame.select(
        pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in TABLE_BY_NAME[table].columns.items()
    )


def _plain(dtype: pl.DataType) -> pl.DataType | type[pl.DataType]:
    return pl.Int64 if dtype == UTC_MICROSECONDS else dtype


def _column(name: str, values: Column) -> pl.Series:
    if isinstance(values, pl.Series):
        return values.alias(name)
    series = pl.Series(name, np.ascontiguousarray(values).ravel())
    return series.fill_nan(None) if series.dtype.is_float() else series
