"""Our tables as Arrow IPC, stream or file.

Reading is pyarrow's, with full validation, and only plain column types go on to Polars: Polars' own reader panics on
some damaged files (measured: 4 of 3,000 with flipped bits), and a panic is no exception that a caller can catch.
"""

import io

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types

from schemas.columns import UTC_MICROSECONDS
from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.wire_columns import MICROSECONDS_MAXIMUM, timed
from schemas.tables import Table

NAME = "Arrow IPC"
VERSIONS = "Arrow IPC, stream and file"
LEAVES = "columns that no table knows, which are counted"
FILE_MARK = b"ARROW1"
STREAM_MARK = b"\xff\xff\xff\xff"
MARKS = (FILE_MARK, STREAM_MARK)
EXPANSION_MAXIMUM = 32  # of a compressed payload


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return head.startswith(MARKS)


def encode_arrow(frame: pl.DataFrame) -> bytes:
    """The frame as an uncompressed Arrow IPC stream (Kafka compresses), text as the plain string type."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="uncompressed", compat_level=pl.CompatLevel.oldest())
    return buffer.getvalue()


def decode_arrow(data: bytes, table: Table, surroundings: Surroundings | None = None) -> Decoded:
    """Rows of the table as they were sent, still to be admitted. Rejects: rows whose time is out of the calendar, and
    columns of a type that no column of ours could be cast from. Raises Unreadable for what is no valid Arrow IPC.
    """
    limits = surroundings or Surroundings()
    payload.bounded(data, limits, NAME)
    source = pa.py_buffer(data)
    try:
        opened = pa.ipc.open_file(source) if data.startswith(FILE_MARK) else pa.ipc.open_stream(source)
        batches = opened.read_all()
        batches.validate(full=True)
        names = [str(name) for name in batches.schema.names]
        plain = [_plain(kind) for kind in batches.schema.types]  # here, as a damaged time zone fails when it is read
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise Unreadable(f"{NAME}: {str(error).splitlines()[0][:200] if str(error) else 'invalid'}") from error
    if batches.nbytes > max(EXPANSION_MAXIMUM * len(data), 2**20):
        raise Unreadable(f"{NAME}: {len(data)} bytes expand to {batches.nbytes}")
    rejects, columns = [], {}
    for name, values, usable in zip(names, batches.columns, plain, strict=True):
        if not usable:
            reason = f"column {name[:80]}: an Arrow type that no column of ours is cast from"
            rejects.append(Reject(rule=f"{name[:200]}|type", reason=reason))
        elif name not in columns:
            columns[name] = pl.Series(name, pl.from_arrow(values))
    frame = pl.DataFrame(list(columns.values()))
    for name, dtype in table.columns.items():
        if dtype != UTC_MICROSECONDS or name not in frame.columns or frame.schema[name] == pl.String:
            continue
        time = timed(_microseconds(frame[name]))
        lost = frame[name].is_not_null() & time.is_null()
        if lost.any():
            rejects.append(
                Reject(rule=f"{name}|range", reason=f"column {name}: {lost.sum()} time(s) outside 1970..9999")
            )
        frame = frame.with_columns(time).filter(~lost)
    return Decoded(tables={table.name: frame} if frame.height else {}, rejects=rejects_frame(rejects, table.name))


def decode(data: bytes, surroundings: Surroundings, *, table: Table) -> Decoded:
    """A file of one table."""
    return decode_arrow(data, table, surroundings)


def _microseconds(series: pl.Series) -> pl.Series:
    """Times as integers; milliseconds that would overflow become null."""
    kind = series.dtype
    if not isinstance(kind, pl.Datetime):
        return series.cast(pl.Int64, strict=False)
    ticks = pl.col(series.name).to_physical()
    ticks = ticks // 1000 if kind.time_unit == "ns" else ticks
    if kind.time_unit == "ms":
        ticks = pl.when(ticks.abs() < MICROSECONDS_MAXIMUM // 1000).then(ticks * 1000)
    return series.to_frame().select(ticks)[series.name]


def _plain(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _scalar(kind.value_type)
    return _scalar(kind)


def _scalar(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
        or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        or (types.is_timestamp(kind) and kind.tz in (None, "UTC", "Etc/UTC", "+00:00"))
    )  # fmt: skip
