"""From messages to how long their rows were under way: the newest row of each node against the time of its message."""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import msgspec
import polars as pl
from kafka.consumer.fetcher import ConsumerRecord

from pipelines.sources.arrival_lags import DELAY_COLUMNS, MEASURED
from schemas.formats.decoded import Decoded
from schemas.formats.json_values import MICROSECONDS_MAXIMUM, microseconds

MESSAGES_MAXIMUM = 1024
"""Of one poll of a partition: of more, about so many are looked at. A usual second of it is looked at whole."""
STEPS = (1, 3, 5, 7, 11, 13, 17, 19, 23)
"""One message in so many. Hosts send in the same order each second, mostly an even number of them: none is missed."""
AROUND = 31
ASTRAY_MILLISECONDS = 5000
"""A message's own time counts unless it is farther from the median of so many around it: producers have clocks too."""


class Said(msgspec.Struct):
    """What a wire message says of whose and when; the rest of it is skipped."""

    time: int | str | list[int | str | None] | None = None
    node: str | list[str | None] | None = None


_DECODER = msgspec.json.Decoder(Said)


def wire_delays(table: str, records: Sequence[ConsumerRecord]) -> pl.DataFrame:
    """DELAY_COLUMNS of JSON messages of a table. What cannot be read is for the door to name."""
    if table not in MEASURED:
        return pl.DataFrame(schema=DELAY_COLUMNS)
    nodes: list[Any] = []
    times: list[Any] = []
    written: list[int] = []
    for record, moment in _chosen(records):
        try:
            said = _DECODER.decode(record.value or b"")
        except (msgspec.MsgspecError, RecursionError):
            continue
        if isinstance(said.node, str):
            nodes.append(said.node)
            times.append(_newest(said.time))
            written.append(moment)
        elif said.node:
            mine = said.time if isinstance(said.time, list) else repeat(said.time, len(said.node))
            nodes.extend(said.node)
            times.extend(map(_newest, mine))
            written.extend(repeat(moment, len(said.node)))
    if not len(nodes) == len(times) == len(written):
        return pl.DataFrame(schema=DELAY_COLUMNS)  # lists of two lengths, which the door refuses
    return _delays(table, pl.DataFrame({"node": nodes, "time": times, "written": written}, schema=_ROWS, strict=False))


def part_delays(records: Sequence[ConsumerRecord], parts: Sequence[Decoded]) -> pl.DataFrame:
    """DELAY_COLUMNS where each part is what one of the records decoded to."""
    if len(records) != len(parts):
        return pl.DataFrame(schema=DELAY_COLUMNS)
    found = [pl.DataFrame(schema=DELAY_COLUMNS)]
    moments = _moments(records)
    for moment, part in zip(moments, parts, strict=True):
        for table, frame in part.tables.items():
            if table in MEASURED and moment is not None and isinstance(frame.schema.get("time"), pl.Datetime):
                time = pl.col("time").dt.epoch("us")
                rows = frame.select(pl.col("node").cast(pl.String), time, written=pl.lit(moment, pl.Int64))
                found.append(_delays(table, rows))
    return pl.concat(found)


_ROWS = pl.Schema({"node": pl.String(), "time": pl.Int64(), "written": pl.Int64()})


def _delays(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The least delay of each node in each second: rows that a message gathered are older than its newest."""
    took = pl.col("written") - pl.col("time")
    second = pl.col("written") // 1_000_000
    return (
        rows.lazy().drop_nulls().group_by("node", second.alias("second"))
        .agg(pl.col("written").max(), took=took.min())
        .select(pl.lit(table).alias("table"), "node", pl.col("written"), "took").cast(DELAY_COLUMNS).collect()
    )  # fmt: skip


def _chosen(records: Sequence[ConsumerRecord]) -> Iterator[tuple[ConsumerRecord, int]]:
    step = next((step for step in STEPS if len(records) <= step * MESSAGES_MAXIMUM), STEPS[-1])
    first = records[0].offset % step
    moments = _moments(records)
    for record, moment in zip(records[first::step], moments[first::step], strict=True):
        if moment is not None:
            yield record, moment


def _moments(records: Sequence[ConsumerRecord]) -> list[int | None]:
    """When each message came, in microseconds: a log goes on in time, so not before any that stands before it."""
    own = [None if one.timestamp is None or one.timestamp < 0 else one.timestamp for one in records]
    frame = pl.DataFrame({"own": own}, schema={"own": pl.Float64})
    middle = pl.col("own").rolling_median(AROUND, center=True, min_samples=1)
    trusted = pl.when((pl.col("own") - middle).abs() <= ASTRAY_MILLISECONDS).then("own")
    come = pl.coalesce(trusted.cum_max().forward_fill(), middle)
    return frame.select((come * 1000).cast(pl.Int64, strict=False))["own"].to_list()


def _newest(time: Any) -> int | None:
    """In microseconds since the epoch, which an integer of ours is already."""
    given = time if isinstance(time, list) else [time]
    times = (each if isinstance(each, int) else microseconds(each) for each in given)
    return max((each for each in times if each is not None and 0 <= each <= MICROSECONDS_MAXIMUM), default=None)
