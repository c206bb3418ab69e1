"""Recursions that a column expression cannot say: what is learned depends on what was judged, sample by sample.

A baseline that is frozen while the value is bad feeds its own verdict back, so it must walk. It walks in ticks: the
first sample of every entity at once, then the second of every entity, and so on. A tick is plain arithmetic on arrays
over entities, so one batch of a live stream costs one tick, and a cut of the stream changes no bit of the answer.
Steps use no transcendental functions, whose last bit may depend on a value's place in the array.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from detectors.stats.sorted_state import in_order, places
from schemas.columns import UTC_MICROSECONDS

Floats = npt.NDArray[np.float64]
Arrays = Mapping[str, Floats]
Step = Callable[[Arrays, Arrays], tuple[Arrays, Arrays]]


def scan(  # noqa: PLR0913  # rows, memory, and the names and the rule of the step; all by keyword but two
    rows: pl.DataFrame,
    before: pl.DataFrame,
    *,
    inputs: Sequence[str],
    memory: Sequence[str],
    outputs: Sequence[str],
    step: Step,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Walk each entity's samples with a carried memory.

    rows: entity, time and the inputs, one row per entity and time, sorted by (entity, time); nulls become NaN.
    before: entity, time of its last sample, and the memory columns; one row per entity.
    step: (memory, sample) -> (memory, outputs), arrays over entities; NaN in memory means never seen. The sample
    also holds elapsed_seconds since the entity's sample before (NaN for the first).
    Returns rows with elapsed_seconds and the outputs (NaN as null), and the memory after the batch.
    """
    if rows.is_empty():
        nothing = (pl.lit(None, pl.Float64()).alias(name) for name in ("elapsed_seconds", *outputs))
        return rows.with_columns(nothing), before
    kept = in_order(before)
    at, there = places(kept, rows["entity"])
    if not there.all():
        new = rows.filter(pl.Series(~there)).select("entity").unique()
        kept = pl.concat([kept, new], how="diagonal").sort("entity")
        at, _ = places(kept, rows["entity"])
    place = rows.select("entity", "time", place=pl.Series(at), before_time=kept["time"].gather(at))
    # Rows are sorted, so the row before is the entity's own or the entity is new: no grouping is needed.
    again = pl.col("place") == pl.col("place").shift(1)
    previous = pl.when(again).then(pl.col("time").shift(1)).otherwise("before_time")
    number = pl.int_range(pl.len())
    place = place.select(
        "place",
        elapsed_seconds=(pl.col("time") - previous).dt.total_microseconds() * 1e-6,
        tick=number - pl.when(again).then(None).otherwise(number).forward_fill(),
        last=~again.shift(-1, fill_value=False),
    )
    rows = rows.with_columns(place["elapsed_seconds"])
    held = {name: _floats(kept[name]) for name in memory}
    samples = {name: _floats(rows[name]) for name in (*inputs, "elapsed_seconds")}
    told = {name: np.full(rows.height, np.nan) for name in outputs}
    ticks = place["tick"].to_numpy()
    if rows.height == kept.height and not ticks.any():
        # Everybody once, as when the rows of a cluster come together: each row stands where its memory does.
        after, said = step(held, samples)
        held |= {name: values.astype(np.float64) for name, values in after.items()}
        told |= {name: values.astype(np.float64) for name, values in said.items()}
        ticks = ticks[:0]
    for chosen in _by_tick(ticks):
        where = at[chosen]
        after, said = step(
            {name: values[where] for name, values in held.items()},
            {name: values[chosen] for name, values in samples.items()},
        )
        for name, values in after.items():
            held[name][where] = values
        for name, values in said.items():
            told[name][chosen] = values
    walked = rows.with_columns(pl.Series(name, values).fill_nan(None) for name, values in told.items())
    lasts = kept["time"].cast(UTC_MICROSECONDS).clone()
    lasts.scatter(at[place["last"].to_numpy()], rows["time"].filter(place["last"]))
    remembered = kept.select(
        "entity",
        lasts.alias("time"),
        *(pl.Series(name, held[name]).fill_nan(None).alias(name) for name in memory),
    )
    return walked, remembered


def toward(normal: Floats, value: Floats, weight: Floats) -> Floats:
    """The exponentially weighted mean one sample later; starts at the first value."""
    return np.where(np.isnan(normal), value, normal + weight * (value - normal))


def weight_of(elapsed_seconds: Floats, time_constant_seconds: float) -> Floats:
    """Weight of a sample in a mean that forgets with the time constant: dt / (tau + dt), nearly 1 - exp(-dt / tau)."""
    elapsed = np.nan_to_num(elapsed_seconds, nan=0.0)
    return np.asarray(elapsed / (time_constant_seconds + elapsed))


def _floats(column: pl.Series) -> Floats:
    return np.array(column.cast(pl.Float64()).fill_null(float("nan")).to_numpy())


def _by_tick(ticks: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Row numbers of tick 0, of tick 1, and so on."""
    order = np.argsort(ticks, kind="stable")
    return np.split(order, np.cumsum(np.bincount(ticks))[:-1])
