"""Counters row by row beside what they were: the common part of detectors that watch counters rather than increments.

Counters of a whole cluster are many and say little from one second to the next, so at most one row of an entity in
`GRID_SECONDS` is looked at: those of the first interval of every ten seconds of the clock. That is a property of the
row's own time, so a cut of the stream changes nothing.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import Context
from detectors.heard import in_order
from detectors.stats.sorted_state import put, stretches
from schemas.tables import TABLE_BY_SCHEMA, Table

GRID_SECONDS = 10.0
UNKNOWN = -1.0
KEYS = ["source", "unit"]
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


@dataclass(frozen=True)
class Thinned:
    """For `Context.once`: about one row of each entity in GRID_SECONDS; all rows of a table that comes no oftener."""

    interval_seconds: float

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        if self.interval_seconds <= 0 or self.interval_seconds >= GRID_SECONDS or rows.is_empty():
            return rows
        grid, first = (
            timedelta(seconds=seconds) // timedelta(microseconds=1) for seconds in (GRID_SECONDS, self.interval_seconds)
        )
        return rows.filter(pl.col("time").dt.epoch("us") % grid < first)


def thinned_tables(
    tables: Mapping[type[dy.Schema], pl.DataFrame], schemas: Iterable[type[dy.Schema]], context: Context
) -> dict[type[dy.Schema], pl.DataFrame]:
    """The rows of the batch that are looked at, of each of the schemas."""
    return {
        schema: context.once(Thinned(context.interval_seconds_of(TABLE_BY_SCHEMA[schema])), tables[schema])
        for schema in schemas
    }


def unit_of(table: Table) -> str:
    """The column of the GPU or port: what the table's key has beside its source."""
    return next(name for name in table.key if name != table.source)


def of_kind(rows: pl.DataFrame, kind: int, table: Table) -> pl.DataFrame:
    """Rows of a table as a part of the state, which is in order of kind."""
    return rows.with_columns(kind=pl.lit(kind, pl.Int8()), table=pl.lit(table.name))


def kept(before: pl.DataFrame, after: pl.DataFrame, kind: int, table: Table) -> pl.DataFrame:
    """A part of the state with these columns as they are after the batch. before: with all columns of the state."""
    if before.height == after.height:  # nobody new: what is not told anew is not even looked at
        return before.with_columns(after.get_columns())
    return pl.concat([before.clear(), of_kind(after, kind, table)], how="diagonal").select(before.columns)


def entities_apart(state: pl.DataFrame, kind: int) -> tuple[pl.DataFrame, Mapping[str, pl.DataFrame]]:
    """What stands before the rows of the last kind, and those by table. Nothing is copied."""
    few = state.head(bisect_left(state["kind"], kind))
    return few, stretches(state.tail(state.height - few.height), "table")


@dataclass(frozen=True, eq=False)
class Walked:
    """rows: those of an entity one behind the other, with `place`, its row in the state; time, source, unit, and of
    each name the value and `<name>_before` (UNKNOWN where it is), and elapsed_seconds. state: after these rows.
    ends: which of the rows is the last of its entity.
    """

    rows: pl.DataFrame
    state: pl.DataFrame
    ends: pl.Series

    def with_lasts(self, walked: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """The state in which the named columns of each entity's last row stand for what was there."""
        return put(self.state, self.rows["place"].filter(self.ends).to_numpy(), walked[names].filter(self.ends))


def beside_earlier(  # noqa: PLR0913  # rows, memory, and what is looked at
    rows: pl.DataFrame, before: pl.DataFrame, table: Table, context: Context, *, names: Sequence[str],
    held: Sequence[str] = (), as_they_are: Sequence[str] = (),
) -> Walked:  # fmt: skip
    """Each row beside the one before it of its entity (GPU or port), in this batch or in the state.

    rows: of `thinned_tables`. before: source, unit, time, the names as floats, none negative, and `since`, the first
    row; one row an entity, in their order. A null keeps what was known; UNKNOWN in `_before` is null in the state.
    held: other columns of the state, which come with the rows. as_they_are: other columns of the rows.
    """
    order = in_order(context, rows, table.key)
    rows = rows.select(
        "time", *(pl.col(name).cast(pl.Float64) for name in names), *as_they_are,
        pl.col(table.source).alias("source"), pl.col(unit_of(table)).cast(pl.Int64).alias("unit"),
    ).gather(order["row"])  # fmt: skip
    state, place = _with_new(
        before[*KEYS, "time", "since", *names, *held],
        rows[*KEYS, "time"].filter(order["begins"]).rename({"time": "since"}),
    )
    entity = order["begins"].cast(pl.Int64).cum_sum() - 1
    known = state.select(
        "since", *held, time_known="time", **{f"{name}_known": pl.col(name) for name in names}
    ).gather(place.gather(entity))  # fmt: skip
    walked = rows.hstack([*known, order["begins"], place.gather(entity).alias("place")])
    begins = pl.col("begins")
    walked = walked.with_columns(
        *(
            pl.when(begins).then(pl.coalesce(name, f"{name}_known", pl.lit(UNKNOWN))).otherwise(name).forward_fill()
            .alias(f"{name}_now") for name in names
        ),
        elapsed_seconds=pl.when(begins).then(pl.col("time") - pl.col("time_known")).otherwise(pl.col("time").diff())
        .dt.total_microseconds() * 1e-6,
    ).with_columns(
        pl.when(begins).then(pl.col(f"{name}_known").fill_null(UNKNOWN)).otherwise(pl.col(f"{name}_now").shift(1))
        .alias(f"{name}_before") for name in names
    )  # fmt: skip
    ends = order["begins"].shift(-1, fill_value=True)
    last = walked.filter(ends).select(
        "time", *(pl.when(pl.col(f"{name}_now") >= 0).then(f"{name}_now").alias(name) for name in names)
    )
    unneeded = ("begins", "time_known", *(f"{name}_{what}" for name in names for what in ("known", "now")))
    return Walked(walked.drop(unneeded), put(state, place.to_numpy(), last), ends)


def _with_new(before: pl.DataFrame, firsts: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """The state with rows for entities that it lacks, whose time and values are unknown; and the place of each."""
    sources = firsts["source"].unique()

    def places(state: pl.DataFrame) -> pl.Series:
        # A join with the whole state would cost more than all the rest.
        begin, end = (state["source"].search_sorted(sources, side).to_numpy().astype(np.int64) for side in SIDES)
        length = end - begin
        rows = np.arange(length.sum()) + np.repeat(begin - (np.cumsum(length) - length), length)
        at = state[KEYS][rows].with_columns(pl.Series("place", rows))
        return firsts.select(KEYS).join(at, on=KEYS, how="left", maintain_order="left")["place"]

    place = places(before)
    if not place.null_count():
        return before, place
    new = firsts.filter(place.is_null()).select(*KEYS, "since")
    state = pl.concat([before, new], how="diagonal").sort(KEYS)
    return state, places(state)
