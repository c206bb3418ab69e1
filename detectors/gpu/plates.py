"""GPUs, their cold plates and their loops at one instant, as often as is enough for what changes slowly.

Plates clog over weeks and valves stick for hours: one sample in `every_seconds` of each GPU tells as much as all of
them and costs a tenth. A bucket of that length is judged by the first row that each sender has in it, when all senders
have had the time to send one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import dataframely as dy
import polars as pl

from detectors.contract import Context
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import ColdPlate, CoolantLoop
from schemas.gpu import Gpu

GPU_READINGS = ("temperature_celsius", "power_watts", "clocks_event_reasons", "thermal_margin_celsius")
PLATE_READINGS = ("inlet_celsius", "outlet_celsius", "flow_liters_per_minute", "valve_percent")
LOOP_READINGS = (
    "supply_celsius", "return_celsius", "facility_supply_celsius", "facility_return_celsius", "loop_liters_per_minute",
)  # fmt: skip
READINGS = {name: pl.Float64() for name in (*GPU_READINGS, *PLATE_READINGS, *LOOP_READINGS)} | {
    "clocks_event_reasons": pl.Int64()
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AT = ("place", "gpu", "bucket")
# Rows of buckets that are not complete yet. place: the node or the loop.
PENDING_COLUMNS = pl.Schema(
    {"table": pl.String(), "place": pl.String(), "gpu": pl.Int64(), "bucket": UTC_MICROSECONDS, **READINGS}
)


@dataclass(frozen=True, eq=False)
class Together:
    """gpus: node, gpu, cdu, time and the readings of GPU and plate; a plate without a sensor has the supply of its
    loop as inlet. loops: cdu, time and LOOP_READINGS. waiting: PENDING_COLUMNS, for the next call.
    time is when the bucket was complete, which is before now. Where nothing came and nothing was complete, waiting is
    the very frame that was pending.
    """

    gpus: pl.DataFrame
    loops: pl.DataFrame
    waiting: pl.DataFrame


def together(
    tables: Mapping[type[dy.Schema], pl.DataFrame], pending: pl.DataFrame, context: Context, *, every_seconds: float
) -> Together:
    """One sample of everything in each bucket. tables: Gpu, ColdPlate and CoolantLoop. pending: what waited."""
    lasts = max(context.intervals_seconds[name] for name in ("gpu", "cold_plate", "coolant_loop"))
    window, width = timedelta(seconds=lasts), timedelta(seconds=max(every_seconds, lasts))
    loops = tables[CoolantLoop].rename({"flow_liters_per_minute": "loop_liters_per_minute"})
    first = (
        _firsts(tables[Gpu], "gpu", "node", GPU_READINGS, width, context),
        _firsts(tables[ColdPlate], "cold_plate", "node", PLATE_READINGS, width, context),
        _firsts(loops.with_columns(gpu=0), "coolant_loop", "cdu", LOOP_READINGS, width, context),
    )
    if not any(frame.height for frame in first) and not (pending["bucket"] < context.now - window).any():
        return replace(_NOTHING, waiting=pending)
    rows = pl.concat([pending, *(frame for frame in first if frame.height)], how="diagonal")
    complete = pl.col("bucket") + window < context.now
    done = rows.filter(complete).unique(["table", *AT], keep="first", maintain_order=True)
    done = done.with_columns(time=pl.col("bucket") + window)
    return Together(
        gpus=_with_plates(done, context),
        loops=done.filter(table="coolant_loop").select("time", *LOOP_READINGS, cdu="place").sort("cdu", "time"),
        waiting=rows.filter(~complete).sort("table", *AT, maintain_order=True),
    )


def _firsts(  # noqa: PLR0913, PLR0917  # one table: its rows, names and times
    rows: pl.DataFrame, table: str, place: str, readings: Sequence[str], width: timedelta, context: Context
) -> pl.DataFrame:
    """PENDING_COLUMNS of the rows within one interval of the beginning of their bucket."""
    interval = timedelta(seconds=context.intervals_seconds[table])
    if rows.is_empty() or _between_beginnings(rows["time"][0], rows["time"][-1], width, interval):
        return PENDING_COLUMNS.to_frame()
    bucket = pl.col("time").dt.truncate(width)
    early = pl.col("time") - bucket < interval
    return rows.filter(early).select(
        pl.col("gpu").cast(pl.Int64), *(pl.col(name).cast(READINGS[name]) for name in readings), bucket=bucket,
        place=place, table=pl.lit(table),
    )  # fmt: skip


def _between_beginnings(first: datetime, last: datetime, width: timedelta, interval: timedelta) -> bool:
    """Whether rows from first to last lie in one bucket, all later than its first interval."""
    bucket = first - (first - EPOCH) % width
    return first >= bucket + interval and last < bucket + width


def _with_plates(done: pl.DataFrame, context: Context) -> pl.DataFrame:
    """Every GPU with its plate and its loop's supply."""
    plates = done.filter(table="cold_plate").select(*AT, *PLATE_READINGS)
    loops = done.filter(table="coolant_loop").select("bucket", "supply_celsius", cdu="place")
    readings = [name for name in READINGS if name not in LOOP_READINGS]
    return (
        done.filter(table="gpu").select(*AT, "time", *GPU_READINGS)
        .join(plates, on=AT, how="left", maintain_order="left")
        .join(context.topology.nodes.select("cdu", place="node"), on="place", how="left", maintain_order="left")
        .join(loops, on=["cdu", "bucket"], how="left", maintain_order="left")
        .with_columns(pl.coalesce("inlet_celsius", "supply_celsius"))
        .select("gpu", "cdu", "time", *readings, node="place").sort("node", "gpu", "time")
    )  # fmt: skip


# Of schemas alone: an expression that ran here would start Polars' threads, and a process that forks after that hangs.
_NOTHING = Together(
    gpus=pl.DataFrame(
        schema={
            "gpu": pl.Int64(), "cdu": pl.String(), "time": UTC_MICROSECONDS,
            **{name: kind for name, kind in READINGS.items() if name not in LOOP_READINGS}, "node": pl.String(),
        }
    ),
    loops=pl.DataFrame(
        schema={"time": UTC_MICROSECONDS, **{name: READINGS[name] for name in LOOP_READINGS}, "cdu": pl.String()}
    ),
    waiting=pl.DataFrame(schema=PENDING_COLUMNS),
)  # fmt: skip
