"""Columns of wire messages: from Python values to the table's types, losing only the rows that do not fit."""

import json
import sys
from itertools import accumulate, chain
from typing import Any

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types

from schemas.columns import UTC_MICROSECONDS
from schemas.formats.decoded import Reject
from schemas.tables import Table

Rejected = tuple[int, Reject]
"""Index of the message, and what is wrong with it."""

ROW_REJECTS_MAXIMUM = 1000
MICROSECONDS_MAXIMUM = 253_402_300_799_999_999  # the last microsecond of the year 9999


_KINDS: dict[pl.DataType, set[type]] = {
    pl.Float64(): {float, int},
    pl.Int64(): {int},
    pl.String(): {str},
    pl.Boolean(): {bool},
}


def column(name: str, values: list[Any], dtype: pl.DataType, *, trusted: bool) -> pl.Series:
    """Values as a column: of the table's type when all fit (times as text or integers), else as JSON in a binary
    column, for `conform` to judge one by one. trusted: the decoder has checked the types of the values.
    """
    wanted = dtype
    if dtype == UTC_MICROSECONDS:
        wanted = pl.String() if str in set(map(type, values)) else pl.Int64()
    if trusted or _fits(values, wanted):
        try:
            if isinstance(dtype, pl.List):
                return _lists(name, values, inner_of(dtype))
            return pl.Series(name, values, dtype=wanted, strict=True)
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            pass  # an integer of more than 64 bits, or times of both kinds: one by one, then
    return pl.Series(name, [None if value is None else json.dumps(value).encode() for value in values], dtype=pl.Binary)


def _fits(values: list[Any], dtype: pl.DataType) -> bool:
    """Whether the values are of the Python types that the column is made of. Polars would take True for 1."""
    if isinstance(dtype, pl.List):
        lists = [value for value in values if value is not None]
        parts = [part for value in lists if isinstance(value, list) for part in value]
        return all(isinstance(value, list) for value in lists) and set(map(type, parts)) <= _KINDS[inner_of(dtype)]
    return set(map(type, values)) <= _KINDS[dtype] | {type(None)}


def _lists(name: str, values: list[list[Any] | None], inner: pl.DataType) -> pl.Series:
    """Lists as one run of their parts and where each begins: Polars would make a series of every list."""
    parts = pl.Series(list(chain.from_iterable(filter(None, values))), dtype=inner, strict=True)
    ends = accumulate((len(value) if value else 0 for value in values), initial=0)
    missing = pa.array([value is None for value in values])
    offsets = pa.array(ends, pa.int64())
    return pl.Series(name, pa.LargeListArray.from_arrays(offsets, parts.to_arrow(), mask=missing))


def inner_of(dtype: pl.List) -> pl.DataType:
    return pl.Series([], dtype=dtype.inner).dtype


def conform(
    frame: pl.DataFrame, table: Table, message: str, messages: list[bytes], rejects: list[Rejected]
) -> pl.DataFrame:
    """The frame with every column of the table, typed. Rows with a value that is not of its column's type are left
    out, with one reject each (and, past a bound, one in all for the rest of the batch).
    """
    cast: dict[str, pl.Series] = {}
    broken: list[pl.Series] = []
    for name, dtype in table.columns.items():
        if name not in frame.columns or frame.schema[name] == dtype:
            continue
        cast[name] = typed = _typed(frame[name], dtype)
        lost = frame[name].is_not_null() & typed.is_null()
        if lost.any():
            at = lost.arg_true()
            for row in at.head(ROW_REJECTS_MAXIMUM):
                index = frame[message][row]
                reason = f"column {name}: {_shown(frame[name][row])} is not {_wanted(dtype)}"
                rejects.append((index, Reject(rule=f"{name}|type", reason=reason, raw=messages[index])))
            if len(at) > ROW_REJECTS_MAXIMUM:
                more = len(at) - ROW_REJECTS_MAXIMUM
                reason = f"column {name}: {more} further row(s) of this batch are not {_wanted(dtype)}"
                rejects.append((frame[message][at[-1]], Reject(rule=f"{name}|type", reason=reason)))
            broken.append(lost)
    unknown = [name for name in frame.columns if name not in table.columns]
    conforming = frame.select(
        *(
            cast.get(name, pl.col(name)) if name in frame.columns else pl.lit(None, dtype).alias(name)
            for name, dtype in table.columns.items()
        ),
        *unknown,
    )
    return conforming.filter(~pl.any_horizontal(broken)) if broken else conforming


def timed(series: pl.Series) -> pl.Series:
    """Times from RFC 3339 text (with a zone) or integer microseconds; null where the value is no time between 1970 and
    9999. Polars would take any 64-bit integer and then panic when it has to show it.
    """
    time = pl.col(series.name)
    whole = time.cast(pl.Int64, strict=False)
    whole = pl.when(whole.is_between(0, MICROSECONDS_MAXIMUM)).then(whole).cast(UTC_MICROSECONDS)
    if series.dtype == pl.String:
        parsed = time.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
        since = parsed.dt.timestamp("us").is_between(0, MICROSECONDS_MAXIMUM)
        return series.to_frame().select(pl.when(since).then(parsed).otherwise(whole))[series.name]
    return series.to_frame().select(whole)[series.name]


def _typed(series: pl.Series, dtype: pl.DataType) -> pl.Series:
    if series.dtype != pl.Binary:
        return timed(series) if dtype == UTC_MICROSECONDS else series.cast(dtype, strict=False)
    values = [None if text is None else json.loads(text) for text in series]
    if dtype == UTC_MICROSECONDS:
        words = pl.Series(series.name, [value if isinstance(value, str) else None for value in values], dtype=pl.String)
        whole = pl.Series(series.name, [_whole(value) for value in values], dtype=pl.Int64)
        return timed(words).fill_null(timed(whole))
    return pl.Series(series.name, [_exact(value, dtype) for value in values], dtype=dtype)


def _exact(value: Any, dtype: pl.DataType) -> Any:
    """The value when it is of the type, else None. A number that is written as a text is a text."""
    if isinstance(dtype, pl.List):
        parts = [_exact(part, inner_of(dtype)) for part in value] if isinstance(value, list) else [None]
        return None if None in parts else parts
    if dtype == pl.Int64:
        return _whole(value)
    if dtype == pl.Float64:
        return float(value) if _is_number(value) and abs(value) <= sys.float_info.max else None
    return value if isinstance(value, bool if dtype == pl.Boolean else str) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(value: Any) -> int | None:
    """Integers of 64 bits; a float only where it is exact."""
    if not _is_number(value) or abs(value) >= (2**63 if isinstance(value, int) else 2**53):
        return None
    return int(value) if value == int(value) else None


def _shown(value: Any) -> str:
    return repr(value[:80].decode()) if isinstance(value, bytes) else repr(str(value)[:80])


def _wanted(dtype: pl.DataType) -> str:
    if dtype == UTC_MICROSECONDS:
        return "a time (RFC 3339 with a zone, or integer microseconds since the epoch)"
    return {pl.Float64(): "a number", pl.Int64(): "a whole number of 64 bits", pl.Boolean(): "true or false"}.get(
        dtype, "a text" if dtype == pl.String else "a list of its kind"
    )
