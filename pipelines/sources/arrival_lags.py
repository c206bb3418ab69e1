"""How much later than others' the rows of a node come: a slow clock, or a slow way to us, and no silence.

Recordings say when each row arrived. From Kafka it is measured as it goes: from a row's time to the time of its message
(pipelines.sources.message_delays), a node's median over its last seconds, and what of it is over the median of all.

Limits. What all nodes share is nobody's lag. Fewer than three nodes, or half of them slow, have no usual delay. A
message carries the time of its producer (CreateTime) or of the broker (LogAppendTime): an agent that writes with its
own slow clock is measured by the messages around its own, so it needs others in its partition; LogAppendTime has no
such need. Nothing is measured of what is played again from the past. A clock that steps back while it is watched is
known after three seconds; until then its rows are late, which telemetry.clock_skew tells. A slow way looks like a slow
clock.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import polars as pl

from schemas.columns import UTC_MICROSECONDS

LAG_MINIMUM = timedelta(seconds=2)
"""design.md section 2: a clock more than 2 s off; networks that delay give up to 1 s."""
NEEDED = ("time", "node", "arrived_at")
MEASURED = ("heartbeat", "gpu")
"""Tables by whose rows a node is measured, by the first that has any: beats are what is waited for."""
DELAY_COLUMNS = pl.Schema({"table": pl.String(), "node": pl.String(), "written": UTC_MICROSECONDS, "took": pl.Int64()})
"""took: microseconds from the time of the newest row of the node in messages written then to when they were."""
SECONDS_KEPT = 5
"""So that a median tells two odd seconds from a clock."""
LIVE_MAXIMUM = timedelta(minutes=10)
"""What is usually under way longer is played again from the past, and says nothing of clocks."""


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
    """How much longer than the median one they are, where that is more than clocks and networks explain; below zero for
    those that are shorter, of clocks that are fast.
    """
    if not delays:
        return {}
    usual = sorted(delays.values())[len(delays) // 2]
    return {node: delay - usual for node, delay in delays.items() if abs(delay - usual) > LAG_MINIMUM}


@dataclass
class LiveLags:
    """The lags of what comes from Kafka, kept up to date. A node that has fallen silent keeps its own."""

    lags: Mapping[str, timedelta] = field(default_factory=dict)
    _kept: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=DELAY_COLUMNS))
    _waiting: list[pl.DataFrame] = field(default_factory=list)
    _second: object = None
    _known: set[str] = field(default_factory=set)

    def seen(self, delays: pl.DataFrame) -> Mapping[str, timedelta]:
        """The lags after these DELAY_COLUMNS, looked at once for each second in which messages were written, and when a
        node is heard that was not before.
        """
        if not delays.is_empty():
            self._waiting.append(delays)
            second, nodes = delays["written"].dt.truncate("1s").max(), set(delays["node"])
            if second != self._second or not nodes <= self._known:
                self._known |= nodes
                self._kept = _latest(pl.concat([self._kept, *self._waiting]))
                self._waiting, self._second = [], second
                self.lags = lags_of(self._kept)
        return self.lags


def lags_of(delays: pl.DataFrame) -> dict[str, timedelta]:
    """Lags from DELAY_COLUMNS, in whole seconds, rounded up: how messages were polled must not show in a finding."""
    medians = delays.group_by("table", "node").agg(pl.col("took").median())
    found: dict[str, timedelta] = {}
    for table in reversed(MEASURED):
        own = medians.filter(table=table).select("node", pl.col("took").cast(pl.Int64)).rows()
        took = {node: timedelta(microseconds=micros) for node, micros in own}
        if took and abs(sorted(took.values())[len(took) // 2]) <= LIVE_MAXIMUM:
            found = {node: lag for node, lag in found.items() if node not in took} | over_usual(took)
    return {node: timedelta(seconds=math.ceil(lag.total_seconds())) for node, lag in sorted(found.items())}


def _latest(delays: pl.DataFrame) -> pl.DataFrame:
    """The least delay of each of a node's last seconds: what waits on its way for others is no clock."""
    second = pl.col("written").dt.truncate("1s").alias("second")
    least = delays.group_by("table", "node", second).agg(pl.col("written").max(), pl.col("took").min())
    ordered = least.sort("table", "node", "second").drop("second")
    return ordered.group_by("table", "node", maintain_order=True).tail(SECONDS_KEPT).select(DELAY_COLUMNS.names())
