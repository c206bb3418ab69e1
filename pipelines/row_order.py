"""Quick answers about many rows, so that the usual batch, in order and without repeats, skips the slow path.

Each may say no where a slower look would say yes; none says yes wrongly.
"""

from collections.abc import Sequence
from datetime import timedelta

import polars as pl


def is_increasing(rows: pl.DataFrame, columns: Sequence[str]) -> bool:
    """Whether each row is greater than the one before, compared column by column; a null compares as no."""
    if rows.height <= 1:
        return True
    less, equal = pl.lit(value=False), pl.lit(value=True)
    for column in columns:
        before = pl.col(column).shift(1)
        less |= equal & (before < pl.col(column))
        equal &= before == pl.col(column)
    return bool(rows.select(less.slice(1).fill_null(value=False).all()).item())


def in_order(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The rows by these columns, nulls last; equal ones as they came."""
    return rows if is_increasing(rows, columns) else rows.sort(columns, nulls_last=True, maintain_order=True)


def is_unique(rows: pl.DataFrame, columns: Sequence[str]) -> bool:
    """Whether no two rows agree in all these columns. Two that only share a hash count as agreeing."""
    if rows.height <= 1:
        return True
    return int(rows.select(pl.struct(columns).hash().n_unique()).item()) == rows.height


def is_nobody_behind(times: pl.Series, newest: pl.Series, allowed: timedelta) -> bool:
    """Whether no row is further behind than `allowed`: not even behind all others that came before it, whoever sent
    them. newest: of each sender, before these rows.
    """
    spans = [(times.cum_max() - times).max()]
    if not newest.is_empty():
        spans.append((newest.max() - times).max())
    return all(isinstance(span, timedelta) and span <= allowed for span in spans)


def without(rows: pl.DataFrame, known: pl.DataFrame, columns: Sequence[str], time: str) -> pl.DataFrame:
    """Rows that are not among the known ones, in their order. Nulls are equal."""
    if rows.is_empty() or known.is_empty():
        return rows
    latest = known[time].max()
    numbered = rows.select(columns).with_row_index("_number").filter(pl.col(time) <= latest)
    again = numbered.join(known, on=columns, how="semi", nulls_equal=True)["_number"]
    if again.is_empty():
        return rows
    return rows.filter(~pl.int_range(pl.len(), dtype=pl.UInt32).is_in(again.implode()))
