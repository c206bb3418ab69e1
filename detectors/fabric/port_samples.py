"""Samples of ports as detectors of errors need them: counters as growth, bits, and whether the link has settled."""

import numpy as np
import polars as pl

from detectors.stats.scan import Arrays, Floats
from schemas.fabric import CLASSIC_COUNTER_BITS

TRAINING = ("downed", "since_trained_seconds")
"""Memory of `settled`; its inputs are `up` and `downed`."""


def ordered_ports(rows: pl.DataFrame) -> pl.DataFrame:
    """FabricPort rows by entity (device:port) and time. For `Context.once`: every detector of ports needs them so."""
    named = rows.with_columns(entity=pl.format("{}:{}", "device", "port"))
    return named.sort("entity", "time", maintain_order=True)


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


def bits_since(sample: Arrays, gigabits: float) -> Floats:
    """Bits that a port can have moved since the sample before. gigabits: its rate where it does not tell one."""
    rate = np.where(np.isnan(sample["gigabits"]), gigabits, sample["gigabits"])
    return rate * 1e9 * sample["elapsed_seconds"]


def raw_rate(memory: Arrays, sample: Arrays, bits: Floats) -> Floats:
    """Errors before correction a bit: counted since the sample before, or else what the port says of now. A reading
    since the last clearing (seconds_since_clear) is no rate of now where errors are counted.
    """
    corrected = grown(memory["fec_corrected_total"], sample["fec_corrected_total"])
    counted = corrected / np.where(bits > 0, bits, np.nan)
    told = np.where(np.isnan(sample["seconds_since_clear"]) | np.isnan(counted), sample["raw_bit_error_rate"], np.nan)
    return np.fmax(counted, told)


def settled(
    memory: Arrays, sample: Arrays, settle_seconds: float
) -> tuple[Arrays, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The memory of TRAINING, and which links have not retrained for so long: a link adapts first."""
    broke = (sample["up"] == 0) | (grown(memory["downed"], sample["downed"]) > 0)
    since = np.where(broke, 0.0, memory["since_trained_seconds"] + np.nan_to_num(sample["elapsed_seconds"]))
    calm = ~(since <= settle_seconds)
    return {"downed": held(memory["downed"], sample["downed"]), "since_trained_seconds": since}, calm
