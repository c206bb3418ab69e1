"""Who a batch has rows of, and when: found once a step for every detector that asks, by numbers in place of names.

Rows of a cluster are millions. To write or hash the name of each row's GPU costs more than all that is then asked of
them, so names are only made of what is found: one a GPU, in their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from detectors.contract import Context
from detectors.stats.sorted_state import beside
from schemas.columns import UTC_MICROSECONDS

BY_NODE, BY_GPU = ("node",), ("node", "gpu")
HEARD_COLUMNS = pl.Schema(
    {"id": pl.String(), "first": UTC_MICROSECONDS, "time": UTC_MICROSECONDS, "longest": pl.Duration("us"),
     "first_row": pl.UInt32(), "row": pl.UInt32()}
)  # fmt: skip
NOBODY = pl.DataFrame(schema=HEARD_COLUMNS)
SHORT = np.iinfo(np.uint16).max
DIGITS = 10
Numbers = npt.NDArray[np.integer[Any]]


def heard(context: Context, rows: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """HEARD_COLUMNS of the entities of these rows of the step, in order of id: first and last (`time`) row, the longest
    pause between two, and the numbers of the first and the last row. by: the column of the id, or BY_GPU.
    """
    return NOBODY if rows.is_empty() else context.once(HeardBy(by), rows, in_order(context, rows, by))


def in_order(context: Context, rows: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """Numbers of rows (row) and begins: the rows of an entity one behind the other, entities in no particular order."""
    return context.once(InOrder(by), rows, context.once(Numbered(by[0]), rows))


def heard_in(rows: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """The same of rows that this detector alone has."""
    return HeardBy(by)(rows, InOrder(by)(rows, Numbered(by[0])(rows)))


def rows_of(rows: pl.DataFrame, by: tuple[str, ...], ids: pl.Series) -> pl.DataFrame:
    """The rows of a few entities, with their id."""
    sources = ids if len(by) == 1 else ids.str.split("/").list.first().unique()
    few = rows.filter(pl.col(by[0]).is_in(sources.implode()))
    return few.with_columns(ids_of(few, by)).filter(pl.col("id").is_in(ids.implode()))


def ids_of(rows: pl.DataFrame, by: tuple[str, ...]) -> pl.Series:
    """The id that each row is of."""
    return rows.select(pl.concat_str(*by, separator="/").alias("id"))["id"] if len(by) > 1 else rows[by[0]].alias("id")


def standing_of(  # noqa: PLR0913  # nodes as they were and are, and what says so
    before: pl.DataFrame, after: pl.DataFrame, beats: pl.DataFrame, gpus: pl.DataFrame, *, by: str, context: Context
) -> pl.DataFrame:
    """`by`, first (beat) and host (whether it sends more than beats) of every node of `after`.

    before: the same columns of the nodes known before. after: the nodes known now. beats, gpus: rows of the step.
    """
    known = before[by, "first", "host"]
    if beats.is_empty() and gpus.is_empty():
        return known
    names, seen = after[[by]].rename({by: "entity"}), heard(context, beats, BY_NODE)["id", "first"]
    known = beside(names, known.rename({by: "entity"}))
    first = beside(names, seen.rename({"id": "entity"}))["first"].alias("seen")
    is_host = pl.col("host").fill_null(value=False)
    if not gpus.is_empty():
        is_host |= pl.col("entity").is_in(heard(context, gpus, BY_NODE)["id"].implode())
    return known.select(pl.col("entity").alias(by), pl.min_horizontal("first", first), host=is_host)


@dataclass(frozen=True)
class Numbered:
    """For `Context.once`: a number for the name in each row, from 0 without gaps."""

    name: str

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        return pl.DataFrame({"number": _numbers(rows[self.name])})


@dataclass(frozen=True)
class InOrder:
    """For `Context.once`; see in_order. sources: of Numbered, the first column's."""

    by: tuple[str, ...]

    def __call__(self, rows: pl.DataFrame, sources: pl.DataFrame) -> pl.DataFrame:
        if rows.is_empty():
            return pl.DataFrame(schema={"row": pl.UInt32(), "begins": pl.Boolean()})
        numbers: Numbers = sources["number"].to_numpy()
        for name in self.by[1:]:
            numbers = _finer(numbers, rows[name])
        entities = int(numbers.max()) + 1
        begins = np.ones(len(numbers), dtype=np.bool_)
        if entities == len(numbers):  # one row of each, as when a live batch is shorter than the interval
            return pl.DataFrame({"row": np.arange(entities, dtype=np.uint32), "begins": begins})
        # Numbers of sixteen bits are put in order by their digits, longer ones by comparing them.
        order = np.argsort(numbers.astype(np.uint16) if entities <= SHORT else numbers, kind="stable")
        sorted_numbers = numbers[order]
        begins[1:] = sorted_numbers[1:] != sorted_numbers[:-1]
        return pl.DataFrame({"row": order.astype(np.uint32), "begins": begins})  # as Polars counts rows


@dataclass(frozen=True)
class HeardBy:
    """For `Context.once`; see heard."""

    by: tuple[str, ...]

    def __call__(self, rows: pl.DataFrame, order: pl.DataFrame) -> pl.DataFrame:
        if rows.is_empty():
            return NOBODY
        row, first = order["row"].to_numpy(), np.flatnonzero(order["begins"].to_numpy())
        single = len(first) == rows.height  # one row of each, in their own order: see InOrder
        times = (rows["time"] if single else rows["time"][order["row"]]).to_physical().to_numpy()
        last = np.append(first[1:], len(row)) - 1
        pauses = np.diff(times, prepend=times[:1])
        pauses[first] = 0
        units = rows[list(self.by)] if single else rows[list(self.by)][pl.Series(row[first])]
        ids = ids_of(units, self.by)
        by_id = _by_id(units, ids)
        found = {
            "first": times[first], "time": times[last], "longest": np.maximum.reduceat(pauses, first),
            "first_row": row[first], "row": row[last],
        }  # fmt: skip
        return pl.DataFrame([
            ids[by_id], *(pl.Series(name, values[by_id]).cast(HEARD_COLUMNS[name]) for name, values in found.items())
        ])  # fmt: skip


def _by_id(units: pl.DataFrame, ids: pl.Series) -> Numbers:
    """Row numbers in order of id. Slots of one digit are put in order within their node, and only nodes by name."""
    if units.width == 1 or not units.to_series(1).dtype.is_integer() or int(units.to_series(1).max() or 0) >= DIGITS:  # type: ignore[arg-type]  # integers
        return ids.arg_sort().to_numpy()
    sources, slots = units.to_series(0), units.to_series(1).to_numpy()
    numbers = _numbers(sources)
    of_number = np.zeros(int(numbers.max()) + 1, dtype=np.int64)
    of_number[numbers] = np.arange(len(numbers))
    # As in the id: "a/0" comes behind "a-b/0", though "a" comes before "a-b".
    rank = np.empty(len(of_number), dtype=np.int64)
    rank[(sources[of_number] + "/").arg_sort().to_numpy()] = np.arange(len(of_number))
    return np.argsort(rank[numbers] * DIGITS + slots)


def numbers_of(rows: pl.DataFrame, by: Sequence[str]) -> Numbers:
    """A number for the entity of each row, from 0 without gaps."""
    numbers = _numbers(rows[by[0]])
    for name in by[1:]:
        numbers = _finer(numbers, rows[name])
    return numbers


def _finer(numbers: Numbers, part: pl.Series) -> Numbers:
    """The same with a part told apart: slots and ports are small numbers, none below zero; pumps have names."""
    units = part.to_numpy() if part.dtype.is_integer() else _numbers(part)
    return _without_gaps(numbers * (int(units.max()) + 1) + units)


def _numbers(names: pl.Series) -> Numbers:
    """A number for each name, from 0 without gaps."""
    if names.is_empty():
        return np.zeros(0, dtype=np.int64)
    return _without_gaps(names.cast(pl.Categorical).to_physical().to_numpy())


def _without_gaps(numbers: Numbers) -> Numbers:
    used = np.zeros(int(numbers.max()) + 1, dtype=np.bool_)
    used[numbers] = True
    if used.all():
        return numbers.astype(np.int64)
    return (np.cumsum(used) - 1)[numbers]
