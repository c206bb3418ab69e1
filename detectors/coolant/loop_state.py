"""How a loop's state is laid out: runs of bad samples, the level beside other memory, parts under one schema."""

import polars as pl

from detectors.levels import LEVEL_COLUMNS
from detectors.stats.adjacent import begins, within


def run_start(rows: pl.DataFrame, since: str) -> pl.DataFrame:
    """Column `since`: when the run of bad samples began that a sample is in; null outside. Carried rows keep theirs.

    rows: entity, time, carried, bad; those of an entity next to each other.
    """
    turned = pl.col("bad") & (begins() | ~pl.col("bad").shift(1))
    began = within(pl.when("carried").then(since).when(turned).then("time"))
    return rows.with_columns(pl.when("bad").then(began).alias(since)).drop("bad")


def level_of(state: pl.DataFrame) -> pl.DataFrame:
    """The level of each loop that has one, as `levels` keeps it."""
    names = {name: "cdu" if name == "entity" else f"level_{name}" for name in LEVEL_COLUMNS}
    return state.select(pl.col(mine).alias(theirs) for theirs, mine in names.items()).filter(
        pl.col("bad").is_not_null()
    )


def stored(level: pl.DataFrame) -> pl.DataFrame:
    """The levels under the names of the state."""
    return level.rename({name: f"level_{name}" for name in LEVEL_COLUMNS if name != "entity"})


def fitted(rows: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """Exactly the columns of the schema; what is not there is null."""
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
    )
