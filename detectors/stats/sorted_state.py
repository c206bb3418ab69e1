"""State with a row per entity, in order of entity: found by bisection and changed in place of being joined again.

A live batch speaks of a few of hundreds of thousands of entities. A join hashes them all, each time; so a detector
takes the rows of those that speak (`rows_of`), works on them alone, and puts them back (`with_rows`).
"""

from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt
import polars as pl

from detectors.stats.adjacent import differs

Numbers = npt.NDArray[np.int64]


def in_order(state: pl.DataFrame) -> pl.DataFrame:
    """The state sorted by entity; as it is when it is so already."""
    return state if state["entity"].is_sorted() else state.sort("entity")


def part(state: pl.DataFrame, column: str, value: str) -> pl.DataFrame:
    """The rows of a value of a column in whose order the state is; nothing is copied."""
    begin, end = span(state, column, value)
    return state.slice(begin, end - begin)


def span(state: pl.DataFrame, column: str, value: str) -> tuple[int, int]:
    """Where those rows begin and end; where they would be, if there are none."""
    names = state[column]
    # In Python, as a search by Polars is a query: a tenth of a millisecond, several times a step of every detector.
    return bisect_left(names, value), bisect_right(names, value)


def stretches(state: pl.DataFrame, column: str) -> dict[str, pl.DataFrame]:
    """The rows of each value of a column whose rows stand together; nothing is copied."""
    names, found, begin = state[column], {}, 0
    while begin < state.height:
        value = names[begin]
        end = bisect_left(names, True, begin, key=lambda name: name != value)
        found[value] = state.slice(begin, end - begin)
        begin = end
    return found


def rows_of(state: pl.DataFrame, entities: pl.Series) -> pl.DataFrame:
    """The ordered state's rows of these entities, each once and in order. entities: in order, repeats together."""
    once = entities.filter(pl.Series(differs(entities)))
    at, there = places(state, once)
    return state if len(once) == state.height and there.all() else state[at[there]]


def places(state: pl.DataFrame, entities: pl.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Row numbers of the entities in the ordered state, and whether each is there at all."""
    return located(state["entity"], entities)


def located(names: pl.Series, asked: pl.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Where each asked name is in the sorted names, and whether it is there at all."""
    if names.is_empty() or asked.is_empty():
        return np.zeros(len(asked), dtype=np.int64), np.zeros(len(asked), dtype=np.bool_)
    if names.equals(asked):  # everybody has spoken, once: the usual batch of a cluster whose rows come together
        return np.arange(len(names)), np.ones(len(names), dtype=np.bool_)
    at = names.search_sorted(asked).to_numpy().astype(np.int64)
    at = np.minimum(at, len(names) - 1)
    return at, (names[at] == asked).to_numpy()


def with_new(state: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The ordered state, and a row for each entity that it lacks: the first of its rows."""
    _, there = places(state, rows["entity"])
    if there.all():
        return state
    new = rows.select(state.columns).filter(pl.Series(~there)).unique("entity", keep="first", maintain_order=True)
    return pl.concat([state, new]).sort("entity")


def interleaved(samples: pl.DataFrame, few: pl.DataFrame) -> pl.DataFrame:
    """Samples by entity and time with a few others of the same kind, mostly none, in their places among them."""
    both = pl.concat([samples, few], how="diagonal")
    return both if few.is_empty() else both.sort("entity", "time")


def beside(state: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """The ordered state with the other columns of `more`, one row an entity too; null where it has none."""
    columns = more.drop("entity")
    if state["entity"].equals(more["entity"]):
        return state.hstack(columns)
    at, there = places(state, more["entity"])
    row = np.full(state.height, more.height)
    row[at[there]] = np.flatnonzero(there)
    nobody = pl.DataFrame([{}], schema=columns.schema)
    return state.hstack(pl.concat([columns, nobody]).gather(row))


def with_rows(state: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The ordered state in which these rows, one an entity, stand for what was there of their entities."""
    at, there = places(state, rows["entity"])
    return merged(state, rows, at, there, by="entity")


def merged(
    state: pl.DataFrame, rows: pl.DataFrame, at: npt.NDArray[np.int64], there: npt.NDArray[np.bool_], *, by: str
) -> pl.DataFrame:
    """The state, ordered by `by`, with the rows in place of those at `at`; rows that are not there come in order."""
    if rows.is_empty():
        return state
    rows = rows[state.columns]
    if rows.height == state.height and there.all() and (at[1:] > at[:-1]).all():
        return rows  # everybody's
    kept = put(state, at[there], rows.filter(pl.Series(there)).drop(by))
    if there.all():
        return kept
    return pl.concat([kept, rows.filter(pl.Series(~there))]).sort(by)


def put(state: pl.DataFrame, at: npt.NDArray[np.int64], rows: pl.DataFrame) -> pl.DataFrame:
    """The state with these values, of some of its columns, in the rows at these places. A column in which they are what
    was there is the same as before; of the others a copy is changed, which is all that this costs.
    """
    where, before = pl.Series(at), state[rows.columns][at]
    return state.with_columns(
        state[name].clone().scatter(where, rows[name])
        for name in rows.columns if not before[name].equals(rows[name], null_equal=True)
    )  # fmt: skip


def fitted(rows: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """Exactly the columns of the schema; what is not there is null."""
    return pl.DataFrame(
        [
            rows[name].cast(dtype) if name in rows.columns
            else pl.Series(name, [None], dtype).new_from_index(0, rows.height)
            for name, dtype in schema.items()
        ]
    )  # fmt: skip
