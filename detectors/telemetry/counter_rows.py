"""Counters row by row beside what they were: the common part of detectors that watch counters rather than increments.

Counters of a whole cluster are many and say little from one second to the next, so at most one row of an entity in
`GRID_SECONDS` is looked at: those of the first interval of every ten seconds of the clock. That is a property of the
row's own time, so a cut of the stream changes nothing.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import Context
from schemas.tables import TABLE_BY_SCHEMA, Table

GRID_SECONDS = 10.0
UNKNOWN = -1.0
KEYS = ["source", "unit"]


def thinned(rows: pl.DataFrame, time: str, interval_seconds: float) -> pl.DataFrame:
    """About one row of each entity in GRID_SECONDS; all rows of a table that comes no more often."""
    if interval_seconds <= 0 or interval_seconds >= GRID_SECONDS or rows.is_empty():
        return rows
    grid, first = (
        timedelta(seconds=seconds) // timedelta(microseconds=1) for seconds in (GRID_SECONDS, interval_seconds)
    )
    return rows.filter(pl.col(time).dt.epoch("us") % grid < first)


def thinned_tables(
    tables: Mapping[type[dy.Schema], pl.DataFrame], schemas: Iterable[type[dy.Schema]], context: Context
) -> dict[type[dy.Schema], pl.DataFrame]:
    """The rows of the batch that are looked at, of each of the schemas."""
    named = {schema: TABLE_BY_SCHEMA[schema] for schema in schemas}
    return {
        schema: thinned(tables[schema], table.time, context.interval_seconds_of(table))
        for schema, table in named.items()
    }


def unit_rows(rows: pl.DataFrame, table: Table, names: Iterable[str], as_they_are: Iterable[str] = ()) -> pl.DataFrame:
    """time, source, unit (GPU or port: the rest of the table's key), the names as floats, and others as they are."""
    unit = next(name for name in table.key if name != table.source)
    return rows.select(
        pl.col(table.time).alias("time"), pl.col(table.source).alias("source"), pl.col(unit).alias("unit"),
        *(pl.col(name).cast(pl.Float64) for name in names), *as_they_are,
    )  # fmt: skip


def of_kind(rows: pl.DataFrame, kind: int, table: Table) -> pl.DataFrame:
    """Rows of a table as a part of the state, which is in order of kind."""
    return rows.with_columns(kind=pl.lit(kind, pl.Int8()), table=pl.lit(table.name))


def entities_apart(state: pl.DataFrame, kind: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What stands before the rows of the last kind, the entities', and those: few and many. Nothing is copied."""
    few = state.head(int(state["kind"].search_sorted(kind)))
    return few, state.tail(state.height - few.height)


def beside_earlier(
    rows: pl.DataFrame, before: pl.DataFrame, names: tuple[str, ...], held: tuple[str, ...] = ()
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows with `<name>_before` for each name and elapsed_seconds; and the state with the last known values.

    rows: source, unit, time and the names as floats, none negative. before: the same, and `since`, the first row; one
    row an entity (source and unit), in their order. A null keeps what was known; UNKNOWN in `_before` is null in the
    state. held: other columns of the state, which come with the rows and stay in it as they are.
    """
    own = ["source", "unit", "time", "since", *names, *held]
    before = before.select(own)
    place = before.select(*KEYS, at=pl.int_range(pl.len()))
    at = rows.select(KEYS).join(place, on=KEYS, how="left", maintain_order="left")["at"]
    if at.null_count() or at.n_unique() < rows.height:
        return _walked(rows, before, names, held)
    # A live batch: one row of each of many known entities.
    earlier = before.select(pl.exclude(KEYS))[at]
    walked = rows.hstack(
        earlier.select(
            "since", *held, *(pl.col(name).fill_null(UNKNOWN).alias(f"{name}_before") for name in names),
            elapsed_seconds=(rows["time"] - pl.col("time")).dt.total_microseconds() * 1e-6,
        )
    )  # fmt: skip
    now = rows.select("time", *names).with_columns(rows[name].fill_null(earlier[name]) for name in names)
    return walked, _in_place(before, now, at)


def put_in_place(state: pl.DataFrame, walked: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """The state of `beside_earlier` in which the named columns of each entity's last row stand for what was there."""
    last = walked.unique(KEYS, keep="last", maintain_order=True) if "carried" in walked.columns else walked
    place = state.select(*KEYS, at=pl.int_range(pl.len()))
    at = last.select(KEYS).join(place, on=KEYS, maintain_order="left")["at"]
    return _in_place(state, last.select(names), at)


def _in_place(state: pl.DataFrame, rows: pl.DataFrame, at: pl.Series) -> pl.DataFrame:
    chosen = np.arange(state.height)
    chosen[at.to_numpy()] = state.height + np.arange(rows.height)
    return state.with_columns(pl.concat([state.select(rows.columns), rows])[chosen])


def _walked(
    rows: pl.DataFrame, before: pl.DataFrame, names: tuple[str, ...], held: tuple[str, ...]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The same for any rows: in order of entity and time, state first, each beside the one above it."""
    known = before.with_columns(carried=pl.lit(value=True))
    both = pl.concat([known, rows.with_columns(carried=pl.lit(value=False))], how="diagonal")
    both = both.sort(*KEYS, "carried", "time", descending=[False, False, True, False])
    again = pl.all_horizontal(pl.col(key) == pl.col(key).shift(1) for key in KEYS).fill_null(value=False)
    both = both.with_columns(again=again)
    unknown = ~pl.col("again")
    both = both.with_columns(
        *(
            pl.when(unknown & pl.col(name).is_null()).then(UNKNOWN).otherwise(name).forward_fill().alias(f"{name}_now")
            for name in names
        ),
        *(pl.col(name).forward_fill().over(KEYS) for name in held),
        since=pl.when(unknown).then(pl.coalesce("since", "time")).forward_fill(),
        elapsed_seconds=pl.when("again").then(pl.col("time").diff()).dt.total_microseconds() * 1e-6,
    ).with_columns(
        pl.when("again").then(pl.col(f"{name}_now").shift(1)).otherwise(UNKNOWN).alias(f"{name}_before")
        for name in names
    )  # fmt: skip
    last = both.filter(~pl.col("again").shift(-1, fill_value=False)).with_columns(
        pl.when(pl.col(f"{name}_now") >= 0).then(f"{name}_now").alias(name) for name in names
    )
    walked = both.filter(~pl.col("carried")).drop("again", *(f"{name}_now" for name in names))
    return walked, last.select(before.columns)
