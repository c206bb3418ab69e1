"""Events of two shots that are one place."""

import polars as pl


def paired(left: pl.DataFrame, right: pl.DataFrame, within_meters: float, *, of_distance: float = 0.0) -> pl.DataFrame:
    """left, right: one column at, in metres from one zero. Closest first, each at most once: at and at_right.

    within_meters, and of_distance as a share of the distance: so far apart two readings may be of one event.
    """
    near = (
        left.join(right, how="cross")
        .with_columns(apart=(pl.col("at") - pl.col("at_right")).abs())
        .filter(pl.col("apart") <= within_meters + of_distance * pl.col("at").abs())
        .sort("apart", "at", "at_right")
    )
    return (
        near.unique("at", keep="first", maintain_order=True)
        .unique("at_right", keep="first", maintain_order=True)
        .select("at", "at_right")
    )
