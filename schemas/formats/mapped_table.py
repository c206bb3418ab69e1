"""Any CSV or Parquet to one of the tables, by a mapping of columns that the settings give.

Cells are text until here, so that a word in a column of numbers costs its cell and not the file. Reading Parquet is
pyarrow's, batch by batch and only the mapped columns, with a limit on what they unpack to.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # same

from schemas.columns import UTC_MICROSECONDS
from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.json_values import MICROSECONDS_MAXIMUM, NOT_REPORTED
from schemas.formats.units import conversion
from schemas.tables import TABLE_BY_NAME, Table

NAME = "mapped table"
PARQUET_MARK = b"PAR1"
EXPANSION_MAXIMUM = 64  # of a compressed file
EXPANSION_FREE_BYTES = 64 * 1024 * 1024
EPOCH_UNITS = {"unix_s": 1e6, "unix_ms": 1e3, "unix_us": 1.0, "unix_ns": 1e-3}
WORDS = rf"(?i)^\s*(?:{NOT_REPORTED.pattern})\s*$"
NUMBER = r"^[+-]?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,4})?$"


@dataclass(frozen=True, kw_only=True)
class ColumnMapping:
    """table: which one. columns: theirs -> ours. constants: ours -> one value for all rows. units: ours -> the unit
    they write (see units.py). scale, applied before the unit: ours -> factor. time_format: "iso", unix_s, unix_ms,
    unix_us, unix_ns, or a strptime pattern. separator: of CSV.
    """

    table: str
    columns: Mapping[str, str]
    constants: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)
    time_format: str = "iso"
    separator: str = ","


def decode(data: bytes, surroundings: Surroundings, *, mapping: ColumnMapping) -> Decoded:
    """Rows of the mapping's table. Times without a zone are local: utc_offset_minutes is taken off.

    Rejects: rows whose time cannot be read, and cells that are no numbers or out of their column's range (null then),
    each counted by column. missing: columns that the mapping gives no source. Raises Unreadable, naming the column,
    when a mapped column is not in the file.
    """
    payload.bounded(data, surroundings, NAME)
    table = TABLE_BY_NAME[mapping.table]
    cells = _parquet(data, mapping) if data.startswith(PARQUET_MARK) else _csv(data, surroundings, mapping)
    rejects: list[Reject] = []
    columns = []
    for theirs, ours in mapping.columns.items():
        if ours == table.time:
            columns.append(_time(cells[theirs], mapping, surroundings).alias(ours))
        else:
            columns.append(_column(cells[theirs], ours, table, mapping, rejects))
    frame = pl.DataFrame(columns).with_columns(
        pl.lit(value, table.columns[ours]).alias(ours) for ours, value in mapping.constants.items()
    )
    if table.time in frame.columns:
        frame = _timed(frame, table, rejects)
    else:
        frame = frame.with_columns(pl.lit(surroundings.received_at).cast(UTC_MICROSECONDS).alias(table.time))
    return Decoded(
        tables={table.name: frame} if frame.height else {},
        rejects=rejects_frame(rejects, table.name),
        missing=tuple(name for name in table.columns if name not in frame.columns),
    )


def _timed(frame: pl.DataFrame, table: Table, rejects: list[Reject]) -> pl.DataFrame:
    lost = frame[table.time].is_null()
    if lost.any():
        at = lost.arg_true()[0] + 1
        reason = f"{lost.sum()} row(s) whose time cannot be read, first row {at}"
        rejects.append(Reject(rule=f"{table.time}|type", reason=reason, place=at))
    return frame.filter(~lost)


def _csv(data: bytes, surroundings: Surroundings, mapping: ColumnMapping) -> pl.DataFrame:
    text = payload.text(data, surroundings, NAME)
    try:
        frame = pl.read_csv(
            io.BytesIO(text.encode()), separator=mapping.separator, infer_schema=False, truncate_ragged_lines=True,
            null_values=[""],
        )  # fmt: skip
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise Unreadable(f"{NAME}: no CSV: {str(error).splitlines()[0][:200]}") from None
    _require(frame.columns, mapping)
    return frame.select(list(mapping.columns))


def _parquet(data: bytes, mapping: ColumnMapping) -> pl.DataFrame:
    limit = max(EXPANSION_MAXIMUM * len(data), EXPANSION_FREE_BYTES)
    batches, size = [], 0
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        _require([str(name) for name in file.schema_arrow.names], mapping)
        for batch in file.iter_batches(batch_size=65536, columns=list(mapping.columns)):
            size += batch.nbytes
            if size > limit:
                raise Unreadable(f"{NAME}: Parquet of {len(data)} bytes expands to more than {limit}")
            batch.validate(full=True)
            batches.append(batch)
        if not batches:
            raise Unreadable(f"{NAME}: Parquet without rows")
        rows = pa.Table.from_batches(batches)
        texts = [rows.column(name).cast(pa.string()) for name in mapping.columns]
    except (pa.ArrowException, OSError, ValueError, MemoryError, NotImplementedError, KeyError) as error:
        if isinstance(error, Unreadable):
            raise
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise Unreadable(f"{NAME}: no Parquet: {reason}") from None
    return pl.DataFrame(
        [pl.Series(name, pl.from_arrow(text)) for name, text in zip(mapping.columns, texts, strict=True)]
    )


def _require(names: list[str], mapping: ColumnMapping) -> None:
    absent = [name for name in mapping.columns if name not in names]
    if absent:
        shown = ", ".join(names[:20])
        raise Unreadable(f"{NAME}: no column {absent[0]!r}; the file has {shown}"[:500].replace("\n", " "))


def _time(cells: pl.Series, mapping: ColumnMapping, surroundings: Surroundings) -> pl.Series:
    """Microseconds since the epoch, UTC; null where the cell is no such time."""
    cell = pl.col(cells.name).str.strip_chars()
    local = pl.duration(minutes=surroundings.utc_offset_minutes)
    if mapping.time_format in EPOCH_UNITS:
        micros = cell.cast(pl.Float64, strict=False) * EPOCH_UNITS[mapping.time_format]
        whole = cell.cast(pl.Int64, strict=False)
        exact = {"unix_s": whole * 1_000_000, "unix_ms": whole * 1000, "unix_us": whole, "unix_ns": whole // 1000}
        small = micros.is_between(0, MICROSECONDS_MAXIMUM)
        value = pl.when(small).then(pl.coalesce(exact[mapping.time_format], micros.cast(pl.Int64, strict=False)))
        parsed = value.cast(UTC_MICROSECONDS)
    elif mapping.time_format == "iso":
        zoned = cell.str.replace(" ", "T", literal=True).str.to_datetime(
            "%+", time_unit="us", time_zone="UTC", strict=False
        )
        plain = pl.coalesce(
            cell.str.to_datetime(form, time_unit="us", strict=False)
            for form in ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
        )
        parsed = pl.coalesce(zoned, (plain - local).dt.replace_time_zone("UTC"))
    else:
        plain = cell.str.to_datetime(mapping.time_format, time_unit="us", strict=False)
        if "%z" in mapping.time_format:
            parsed = plain.dt.convert_time_zone("UTC")
        else:
            parsed = (plain - local).dt.replace_time_zone("UTC")
    in_range = parsed.dt.timestamp("us").is_between(0, MICROSECONDS_MAXIMUM)
    return cells.to_frame().select(pl.when(in_range).then(parsed).alias(cells.name))[cells.name]


def _column(cells: pl.Series, ours: str, table: Table, mapping: ColumnMapping, rejects: list[Reject]) -> pl.Series:
    dtype = table.columns[ours]
    column = table.schema.columns()[ours]
    cell = pl.col("cell").str.strip_chars()
    word = pl.when(~pl.col("cell").str.contains(WORDS)).then(cell)
    if dtype == pl.String:
        return pl.DataFrame({"cell": cells}).select(word.alias(ours))[ours]
    if dtype == pl.Boolean:
        flags = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
        value: pl.Expr = word.str.to_lowercase().replace_strict(flags, default=None, return_dtype=pl.Boolean)
    elif dtype == UTC_MICROSECONDS:
        value = word.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
    else:
        value = pl.when(word.str.contains(NUMBER)).then(word.str.strip_prefix("+")).cast(pl.Float64, strict=False)
        if dtype == pl.Int64 and ours not in mapping.scale and ours not in mapping.units:
            value = pl.coalesce(word.cast(pl.Int64, strict=False), value.round().cast(pl.Int64, strict=False))
        else:
            found = conversion(
                mapping.units.get(ours, (column.metadata or {})["unit"]), (column.metadata or {})["unit"]
            )
            assert found is not None  # the settings were checked
            value = value * mapping.scale.get(ours, 1.0) * found.factor + found.offset
            value = value.round().cast(pl.Int64, strict=False) if dtype == pl.Int64 else value
    judged = pl.DataFrame({"cell": cells}).with_columns(value=value)
    lost = judged.filter(pl.col("cell").is_not_null() & pl.col("value").is_null())
    _count(rejects, f"{ours}|type", f"{ours}: {lost.height} cell(s) no reading", lost["cell"])
    low, high = getattr(column, "min", None), getattr(column, "max", None)
    if dtype.is_numeric() and ours not in table.key:
        outside = pl.lit(False)
        outside = outside | (pl.col("value") < low) if low is not None else outside
        outside = outside | (pl.col("value") > high) if high is not None else outside
        beyond = judged.filter(outside)
        _count(rejects, f"{ours}|range", f"{ours}: {beyond.height} reading(s) outside {low}..{high}", beyond["cell"])
        judged = judged.with_columns(value=pl.when(~outside).then(pl.col("value")))
    return judged["value"].alias(ours)


def _count(rejects: list[Reject], rule: str, reason: str, cells: pl.Series) -> None:
    if not cells.is_empty():
        first = str(cells[0])[:80]
        rejects.append(Reject(rule=rule, reason=f"{reason}, first {first!r}", raw=first.encode(errors="replace")))
