"""Quick answers about many rows, so that the usual batch, in order and without repeats, skips the slow path.

Each may say no where a slower look would say yes; none says yes wrongly.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from detectors.heard import numbers_of

FEW = 4  # rows are few where there are so many times as many


def is_increasing(rows: pl.DataFrame, columns: Sequence[str]) -> bool:
    """Whether each row is greater than the one before, compared column by column; a null compares as no."""
    if rows.height <= 1:
        return True
    less, equal = pl.Series([False]), pl.Series([True])
    for column in columns:
        before, after = rows[column].head(-1), rows[column].slice(1)
        less, equal = less | (equal & (before < after)), equal & (before == after)
        if not equal.any():
            break
    return less.all(ignore_nulls=False) is True


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
    spans = [] if times.is_sorted() else [(times.cum_max() - times).max()]
    if not newest.is_empty():
        spans.append((newest.max() - times).max())
    return all(isinstance(span, timedelta) and span <= allowed for span in spans)


def is_near_newest(  # noqa: PLR0913, PLR0917  # rows, who else spoke, and the rule
    rows: pl.DataFrame, later: pl.DataFrame, sender: Sequence[str], time: str, allowed: timedelta, spoke: pl.Series
) -> npt.NDArray[np.bool_]:
    """Whether each row is no further than `allowed` behind the newest of its sender, be that among the later rows.

    spoke: sources (the first column of the sender) of rows that have come since all others were found to be. Where they
    are few, as of a table that is sampled seldom, nobody else is looked at.
    """
    if FEW * len(spoke) <= rows.height:
        near = ~rows[sender[0]].is_in(spoke.unique().implode()).to_numpy()
        some = np.flatnonzero(~near)
        near[some] = _is_near(rows[some], later, sender, time, allowed)
        return near
    return _is_near(rows, later, sender, time, allowed)


def _is_near(
    rows: pl.DataFrame, later: pl.DataFrame, sender: Sequence[str], time: str, allowed: timedelta
) -> npt.NDArray[np.bool_]:
    if rows.is_empty():
        return np.zeros(0, dtype=np.bool_)
    every = pl.concat([rows[[time, *sender]], later[[time, *sender]]])
    numbers, times = numbers_of(every, sender), every[time].to_physical().to_numpy()
    newest = np.full(int(numbers.max()) + 1, times.min())
    np.maximum.at(newest, numbers, times)
    is_near: npt.NDArray[np.bool_] = newest[numbers] - times <= allowed // timedelta(microseconds=1)
    return is_near[: rows.height]


def is_after(times: pl.Series, others: pl.Series) -> bool:
    """Whether all of these come later than all the others."""
    first, last = times.min(), others.max()
    return not (isinstance(first, datetime) and isinstance(last, datetime) and first <= last)


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
