"""GPU rows as samples for `detectors.levels`: the verdict, the evidence, and only the GPUs that it concerns."""

import polars as pl

GPU_ID = pl.format("{}/{}", "node", "gpu").alias("entity")


def slot_samples(
    rows: pl.DataFrame, bad: pl.Expr, levels_state: pl.DataFrame, *seen: str, **more: pl.Expr
) -> pl.DataFrame:
    """entity, time, bad, the columns `seen` and those of `more`, of GPUs that are bad here or have been before.

    A GPU that has never been bad needs no state: good samples before the first bad one change nothing. So a batch of
    a healthy cluster costs one comparison a row.
    """
    verdicts = rows.select(GPU_ID, "time", bad.alias("bad"), *seen, **more)
    concerned = pl.concat([levels_state["entity"], verdicts.filter("bad")["entity"]]).unique()
    return verdicts.filter(pl.col("entity").is_in(concerned.implode()))
