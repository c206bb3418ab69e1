"""Silences of what says whether a power domain lives: its meter, its nodes, and the coolant loops beside them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import Context
from detectors.heard import BY_NODE, heard, rows_of
from detectors.silence import intervals, proven, silences
from schemas.columns import UTC_MICROSECONDS
from schemas.gpu import Gpu
from schemas.job import Heartbeat


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of the silence of a node, of a meter, and of a single beat that is missed."""

    node: timedelta
    meter: timedelta
    missed: timedelta


def limits_of(missed_intervals: float, context: Context) -> Limits:
    beat, sample = (context.intervals_seconds[name] for name in ("heartbeat", "power"))
    return Limits(
        node=intervals(missed_intervals, beat), meter=intervals(missed_intervals, sample), missed=intervals(1, beat)
    )


def silent_meters(
    rows: pl.DataFrame, samples: pl.DataFrame, before: pl.DataFrame, limits: Limits, context: Context
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """samples: of `_normal_volts`, a row for each of the rows."""
    seen = heard(context, rows, ("pdu",))
    last = samples["entity", "time", "volts", "peak"][seen["row"]].hstack([seen["first"], seen["longest"]])
    return silences(
        last, before, by="entity", now=context.now, limit=limits.meter,
        rows_of=lambda meters: samples.filter(pl.col("entity").is_in(meters.implode())),
    )  # fmt: skip


def silent_nodes(
    tables: Mapping[type[dy.Schema], pl.DataFrame], before: pl.DataFrame, limits: Limits, context: Context
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Silences longer than one beat, with proof (see `proven`) and deadline `at`; and the last beat of each node."""
    seen, beats = heard(context, tables[Heartbeat], BY_NODE), tables[Heartbeat]
    fresh = {"told": pl.lit(value=False), "proof": pl.lit(None, UTC_MICROSECONDS)}
    last = seen["id", "time", "first", "longest"].rename({"id": "entity"}).hstack([beats["job"][seen["row"]]])
    paused, after = silences(
        last, before["entity", "time", "job", "told", "proof"], by="entity", now=context.now, limit=limits.missed,
        rows_of=lambda nodes: rows_of(beats, BY_NODE, nodes).with_columns(**fresh, entity="id"),
    )  # fmt: skip
    paused = proven(paused.rename({"entity": "id"}), tables[Gpu], limits.missed).rename({"id": "entity"})
    return paused.with_columns(at=pl.col("time") + limits.node), after
