"""How a loop's state is laid out: runs of bad samples, the level beside other memory."""

import numpy as np
import polars as pl

from detectors.levels import LEVEL_COLUMNS
from detectors.stats.adjacent import before, differs, newest
from schemas.columns import UTC_MICROSECONDS


def run_start(rows: pl.DataFrame, since: str) -> pl.DataFrame:
    """Column `since`: when the run of bad samples began that a sample is in; null outside. Carried rows keep theirs.

    rows: entity, time, carried, bad; those of an entity next to each other.
    """
    carried, bad, good = (flags.to_numpy() for flags in (rows["carried"], *map(rows["bad"].eq_missing, (True, False))))
    begins = differs(rows["entity"])
    began = np.where(carried, rows[since].to_numpy(), rows["time"].to_numpy())
    spoke = newest(np.where(carried, ~np.isnat(began), bad & (begins | before(good))))
    is_known = bad & (spoke >= newest(begins))
    found = np.where(is_known, began[spoke], np.datetime64("NaT", "us"))
    return rows.drop("bad").with_columns(pl.Series(since, found).cast(UTC_MICROSECONDS))


def level_of(state: pl.DataFrame) -> pl.DataFrame:
    """The level of each loop that has one, as `levels` keeps it."""
    names = {name: "cdu" if name == "entity" else f"level_{name}" for name in LEVEL_COLUMNS}
    return state.select(pl.col(mine).alias(theirs) for theirs, mine in names.items()).filter(
        pl.col("bad").is_not_null()
    )


def stored(level: pl.DataFrame) -> pl.DataFrame:
    """The levels under the names of the state."""
    return level.rename({name: f"level_{name}" for name in LEVEL_COLUMNS if name != "entity"})
