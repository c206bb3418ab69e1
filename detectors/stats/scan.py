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

from detectors.stats.adjacent import differs
from detectors.stats.sorted_state import in_order, places
from schemas.columns import UTC_MICROSECONDS

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Arrays = Mapping[str, Floats]
Step = Callable[[Arrays, Arrays], tuple[Arrays, Arrays]]
BLOCK = 8192
"""So many entities at once: a step makes some sixty arrays, which then stay in the processor's cache."""


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

    rows: entity, time and the inputs, one row per entity and time; those of an entity stand together in order of
    time; nulls become NaN.
    before: entity, time of its last sample, and the memory columns; one row per entity.
    step: (memory, sample) -> (memory, outputs), arrays over entities; NaN in memory means never seen. The sample
    also holds elapsed_seconds since the entity's sample before (NaN for the first).
    Returns rows with elapsed_seconds and the outputs (NaN as null), and the memory after the batch.
    """
    if rows.is_empty():
        nothing = (pl.lit(None, pl.Float64()).alias(name) for name in ("elapsed_seconds", *outputs))
        return rows.with_columns(nothing), before
    kept = in_order(before)
    # Those of an entity are a run, and each run has to be found only once.
    first = np.flatnonzero(differs(rows["entity"]))
    last = np.append(first[1:], rows.height) - 1
    named = rows["entity"][first]
    at, there = places(kept, named)
    if not there.all():
        new = pl.DataFrame({"entity": named.filter(pl.Series(~there))})
        kept = pl.concat([kept, new], how="diagonal").sort("entity")
        at, _ = places(kept, named)
    times, lasts = rows["time"].to_numpy(), kept["time"].cast(UTC_MICROSECONDS).to_numpy().copy()
    previous = np.append(times[:1], times[:-1])
    previous[first] = lasts[at]
    elapsed_seconds = (times - previous) / np.timedelta64(1, "us") * 1e-6
    rows = rows.with_columns(pl.Series("elapsed_seconds", elapsed_seconds, nan_to_null=True))
    known = {name: _floats(kept[name]) for name in memory}
    samples = {name: _floats(rows[name]) for name in (*inputs, "elapsed_seconds")}
    lengths = np.diff(first, append=rows.height)
    told = {name: np.empty(rows.height) for name in outputs}
    if len(first) == kept.height and (lengths == lengths[0]).all() and (at[1:] > at[:-1]).all():
        held = _walk_all(known, samples, told, step)
    else:
        held = {name: values.copy() for name, values in known.items()}
        _walk_some(held, samples, told, step, at, first, lengths)
    walked = rows.with_columns(pl.Series(name, values, nan_to_null=True) for name, values in told.items())
    lasts[at] = times[last]
    remembered = [pl.Series(name, held[name], nan_to_null=True) for name in memory]
    return walked, pl.DataFrame([kept["entity"], pl.Series("time", lasts).cast(UTC_MICROSECONDS), *remembered])


def toward(normal: Floats, value: Floats, weight: Floats) -> Floats:
    """The exponentially weighted mean one sample later; starts at the first value."""
    return np.where(np.isnan(normal), value, normal + weight * (value - normal))


def weight_of(elapsed_seconds: Floats, time_constant_seconds: float) -> Floats:
    """Weight of a sample in a mean that forgets with the time constant: dt / (tau + dt), nearly 1 - exp(-dt / tau)."""
    elapsed = np.nan_to_num(elapsed_seconds, nan=0.0)
    return np.asarray(elapsed / (time_constant_seconds + elapsed))


def _floats(column: pl.Series) -> Floats:
    return column.cast(pl.Float64()).to_numpy()  # null as NaN


def _walk_all(known: Arrays, samples: Arrays, told: Arrays, step: Step) -> Arrays:
    """Everybody equally often, as when the rows of a cluster come together: each row stands where its memory does."""
    entities = len(next(iter(known.values())))
    each = len(samples["elapsed_seconds"]) // entities
    held = {name: np.empty(entities) for name in known}
    for begin in range(0, entities, BLOCK):
        end = min(begin + BLOCK, entities)
        memory = {name: values[begin:end] for name, values in known.items()}
        for tick in range(each):
            chosen = slice(begin * each + tick, end * each, each)
            after, said = step(memory, {name: values[chosen] for name, values in samples.items()})
            memory |= {name: np.asarray(values, dtype=np.float64) for name, values in after.items()}
            for name, values in told.items():
                values[chosen] = said[name]
        for name, values in held.items():
            values[begin:end] = memory[name]
    return held


def _walk_some(  # noqa: PLR0913, PLR0917  # what is walked, and who walks how far
    held: Arrays, samples: Arrays, told: Arrays, step: Step, at: Places, first: Places, lengths: Places
) -> None:
    """Change what is held and told. first: of each entity that has rows, where they begin. at: which one it is."""
    for begin in range(0, len(first), BLOCK):
        some = slice(begin, begin + BLOCK)
        for tick in range(int(lengths[some].max())):
            has = lengths[some] > tick
            who, chosen = at[some][has], first[some][has] + tick
            after, said = step(
                {name: values[who] for name, values in held.items()},
                {name: values[chosen] for name, values in samples.items()},
            )
            for name, values in after.items():
                held[name][who] = values
            for name, values in told.items():
                values[chosen] = said[name]
