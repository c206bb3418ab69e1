"""How much later than others' the beats of a node come: a slow clock, or a slow way to us, and no silence."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import polars as pl

LAG_MINIMUM = timedelta(seconds=2)
"""design.md section 2: a clock more than 2 s off; networks that delay give up to 1 s."""
NEEDED = ("time", "node", "arrived_at")


def recorded_lags(folder: Path) -> dict[str, timedelta]:
    """Lags of a recording in order of arrival: each node's median from a beat to its arrival, over that of all."""
    path = folder / "heartbeat.parquet"
    if not path.is_file():
        return {}
    beats = pl.scan_parquet(path)
    schema = beats.collect_schema()
    if any(name not in schema for name in NEEDED) or any(
        schema[name].base_type() is not pl.Datetime for name in ("time", "arrived_at")
    ):
        return {}
    took = beats.select("node", took=pl.col("arrived_at") - pl.col("time")).drop_nulls()
    return over_usual(dict(took.group_by("node").agg(pl.col("took").median()).collect().iter_rows()))


def over_usual(delays: Mapping[str, timedelta]) -> dict[str, timedelta]:
    """Those of the delays that are longer than the median one by more than clocks and networks explain."""
    if not delays:
        return {}
    usual = sorted(delays.values())[len(delays) // 2]
    return {node: delay - usual for node, delay in delays.items() if delay - usual > LAG_MINIMUM}
