"""State with a row per entity, in order of entity: found by bisection and changed in place of being joined again.

A live batch speaks of a few of hundreds of thousands of entities. A join hashes them all, each time.
"""

import numpy as np
import numpy.typing as npt
import polars as pl


def in_order(state: pl.DataFrame) -> pl.DataFrame:
    """The state sorted by entity; as it is when it is so already."""
    return state if state["entity"].is_sorted() else state.sort("entity")


def places(state: pl.DataFrame, entities: pl.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Row numbers of the entities in the ordered state, and whether each is there at all."""
    if state.is_empty() or entities.is_empty():
        return np.zeros(len(entities), dtype=np.int64), np.zeros(len(entities), dtype=np.bool_)
    at = state["entity"].search_sorted(entities).to_numpy().astype(np.int64)
    at = np.minimum(at, state.height - 1)
    return at, (state["entity"].gather(at) == entities).to_numpy()


def with_new(state: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The ordered state, and a row for each entity that it lacks: the first of its rows."""
    _, there = places(state, rows["entity"])
    if there.all():
        return state
    new = rows.select(state.columns).filter(pl.Series(~there)).unique("entity", keep="first", maintain_order=True)
    return pl.concat([state, new]).sort("entity")


def beside(state: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """The state with the other columns of `more`, one row an entity too; null where it has none."""
    if state["entity"].equals(more["entity"]):
        return state.hstack(more.drop("entity"))
    return state.join(more, on="entity", how="left", maintain_order="left")


def with_rows(state: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The ordered state in which these rows, one an entity, stand for what was there of their entities."""
    at, there = places(state, rows["entity"])
    chosen = np.arange(state.height)
    chosen[at[there]] = state.height + np.flatnonzero(there)
    together = pl.concat([state, rows.select(state.columns)])
    kept = together.gather(chosen)
    if there.all():
        return kept
    return pl.concat([kept, rows.select(state.columns).filter(pl.Series(~there))]).sort("entity")
