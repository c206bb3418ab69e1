"""Samples of ports as detectors of errors need them: counters as growth, bits, and whether the link has settled."""

import numpy as np
import polars as pl

from detectors.stats.scan import Arrays, Floats
from schemas.fabric import CLASSIC_COUNTER_BITS

TRAINING = ("downed", "since_trained_seconds")
"""Memory of `settled`; its inputs are `up` and `downed`."""


def ordered_ports(rows: pl.DataFrame) -> pl.DataFrame:
    """FabricPort rows by entity (device:port) and time. For `Context.once`: every detector of ports needs them so."""
    return rows.with_columns(entity=pl.format("{}:{}", "device", "port")).sort("entity", "time")


def port_samples(rows: pl.DataFrame, counters: tuple[str, ...], readings: tuple[str, ...] = ()) -> pl.DataFrame:
    """rows: of ordered_ports. Adds up, downed, gigabits, the counters and the readings as floats.

    A counter that stands at the top of its classic width tells nothing and is null.
    """
    classic = pl.col("counter_width").fill_null("classic") == "classic"

    def counter(name: str) -> pl.Expr:
        bits = CLASSIC_COUNTER_BITS.get(name)
        stuck = pl.lit(False) if bits is None else classic & (pl.col(name) == 2**bits - 1)
        return pl.when(~stuck.fill_null(value=False)).then(pl.col(name)).cast(pl.Float64())

    return rows.select(
        "time", "device", "port", "entity",
        up=(pl.col("state") == "active").cast(pl.Float64()), downed=counter("link_downed_total"),
        gigabits="rate_gigabits_per_second", **{name: counter(name) for name in counters},
        **{name: pl.col(name) for name in readings},
    )  # fmt: skip


def grown(before: Floats, now: Floats) -> Floats:
    """What a counter has counted since; NaN when either is unknown or it fell, as nobody knows how much is old."""
    return np.where(now >= before, now - before, np.nan)


def held(before: Floats, now: Floats) -> Floats:
    return np.where(np.isnan(now), before, now)


def settled(
    memory: Arrays, sample: Arrays, settle_seconds: float
) -> tuple[Arrays, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The memory of TRAINING, and which links have not retrained for so long: a link adapts first."""
    broke = (sample["up"] == 0) | (grown(memory["downed"], sample["downed"]) > 0)
    since = np.where(broke, 0.0, memory["since_trained_seconds"] + np.nan_to_num(sample["elapsed_seconds"]))
    calm = ~(since <= settle_seconds)
    return {"downed": held(memory["downed"], sample["downed"]), "since_trained_seconds": since}, calm
