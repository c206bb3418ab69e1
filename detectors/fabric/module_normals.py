"""What a transceiver was like when it was first seen, port by port, and how far it is from that now."""

import numpy as np
import polars as pl

from detectors.stats.scan import Arrays

READINGS = ("receive_mean_dbm", "receive_best_dbm", "receive_worst_dbm", "transmit_mean_dbm", "celsius", "volts")
NORMALS = tuple(f"normal_{name}" for name in READINGS)
CHANGES = ("lost_mean_db", "lost_best_db", "lost_worst_db", "transmit_fallen_db", "risen_kelvin", "fallen_volts")
SAID = ("receive_worst_dbm", "celsius", "volts", *CHANGES)
"""The last words of a module."""
MEMORY = (*NORMALS, "samples", *SAID)
FIRST_SAMPLES, ENOUGH_SAMPLES = 5.0, 3.0
"""The normal is the mean of the first five samples, and is known from the third on (an assumption)."""


def module_samples(lanes: pl.DataFrame) -> pl.DataFrame:
    """Rows of ordered_lanes as one row a port and time: its lanes' mean, best and worst light (null where a lane is
    dark or tells none), mean light sent, hottest temperature, lowest supply. Sorted by entity (device:port) and time.
    """
    sample = ["device", "port", "time"]
    again = (lanes["entity"] == lanes["entity"].shift(1)).any()
    # Lanes that have all spoken once stand together port by port; to group runs of rows is to hash nothing.
    rows = lanes.sort(sample, maintain_order=True) if again else lanes
    begins = pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in sample).fill_null(value=True)
    light = pl.col("receive_power_dbm")
    all_lit = light.is_not_null().all()
    samples = rows.group_by(begins.cum_sum().alias("run"), maintain_order=True).agg(
        pl.col(sample).first(),
        receive_mean_dbm=pl.when(all_lit).then(light.sort().mean()),
        receive_best_dbm=pl.when(all_lit).then(light.max()),
        receive_worst_dbm=pl.when(all_lit).then(light.min()),
        transmit_mean_dbm=pl.col("transmit_power_dbm").sort().mean(),
        celsius=pl.col("module_temperature_celsius").max(),
        volts=pl.col("supply_volts").min(),
    )
    named = samples.drop("run").with_columns(entity=pl.format("{}:{}", "device", "port"))
    return named.sort("entity", "time") if again else named


def from_normal(memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
    """A step of `scan`: MEMORY; CHANGES, NaN until the normal is known.

    The normal stays as first seen, so that a slow change shows too; only light that got better moves it, for a cleaned
    connector is the new normal.
    """
    count = np.nan_to_num(memory["samples"])
    learning = count < FIRST_SAMPLES
    after, gone = {}, {}
    for name, normal in zip(READINGS, NORMALS, strict=True):
        value, before = sample[name], memory[normal]
        better = (value > before) & name.startswith("receive")
        share = np.where(learning, 1 / (count + 1), np.where(better, 1 / FIRST_SAMPLES, 0.0))
        learned = np.where(np.isnan(before), value, before + share * (value - before))
        after[normal] = np.where(np.isnan(value), before, learned)
        gone[name] = np.where(count >= ENOUGH_SAMPLES, before - value, np.nan)
    known = ~np.isnan(sample["receive_mean_dbm"])
    after["samples"] = count + known
    fallen = (gone[name] for name in READINGS)
    told = dict(zip(CHANGES, fallen, strict=True))
    told["risen_kelvin"] = -told["risen_kelvin"]
    readings = {name: sample[name] for name in SAID if name not in CHANGES}
    return {**after, **told, **readings}, told
