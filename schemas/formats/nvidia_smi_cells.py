"""From the words nvidia-smi prints to rows of gpu. CSV, `-q` and `-q -x` print the same words; their readers bring
them into one shape, a frame of text whose columns are `--query-gpu` field names, and this page does the rest.
"""

from dataclasses import dataclass

import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.formats.decoded import Reject, Surroundings
from schemas.formats.gpu_readings import GPU_COLUMNS, is_blank, within_range
from schemas.gpu import (
    CLOCKS_EVENT_APPLICATION_CLOCKS,
    CLOCKS_EVENT_HARDWARE_POWER_BRAKE,
    CLOCKS_EVENT_HARDWARE_SLOWDOWN,
    CLOCKS_EVENT_HARDWARE_THERMAL,
    CLOCKS_EVENT_IDLE,
    CLOCKS_EVENT_SOFTWARE_POWER_CAP,
    CLOCKS_EVENT_SOFTWARE_THERMAL,
    CLOCKS_EVENT_SYNC_BOOST,
    Gpu,
)

# Both spellings occur in one healthy row; they mean "this GPU has no such reading" and are no fault.
NOT_REPORTED = (
    r"(?i)^\[?(|n/?a|not supported|requested functionality has been deprecated|function not found"
    r"|insufficient permissions)\]?$"
)
# The driver answered with an error: the reading is lost and somebody should know.
FAILED = r"(?i)(unknown error|^\[?err!?\]?$|gpu is lost|requires reset|gpu error|timed? ?out)"
NUMBER = r"^(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(?:[A-Za-z%/]+)?$"
UNIT_FACTORS = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "GHz": 1e3, "kW": 1e3, "mW": 1e-3}
TIMESTAMP_FORMATS = ("%Y/%m/%d %H:%M:%S%.f", "%a %b %d %H:%M:%S %Y")


@dataclass(frozen=True)
class Reading:
    """A gpu column and where it comes from: alternatives in order of preference, each the sum of its fields."""

    column: str
    alternatives: tuple[tuple[str, ...], ...]


def _ecc(kind: str, span: str) -> tuple[tuple[str, ...], ...]:
    prefix = f"ecc.errors.{kind}.{span}"
    if kind == "corrected":
        return ((f"{prefix}.total",), (f"{prefix}.sram", f"{prefix}.dram"))
    split = (f"{prefix}.sram.parity", f"{prefix}.sram.secded", f"{prefix}.dram")
    return ((f"{prefix}.total",), (f"{prefix}.sram", f"{prefix}.dram"), split)


# Volatile ECC counts come first: they move at once, the aggregate ones only when the InfoROM is written.
READINGS = (
    Reading("temperature_celsius", (("temperature.gpu",),)),
    Reading("thermal_margin_celsius", (("temperature.gpu.tlimit",),)),
    Reading("memory_temperature_celsius", (("temperature.memory",),)),
    Reading("power_watts", (("power.draw",), ("power.draw.average",), ("power.draw.instant",))),
    Reading("sm_clock_megahertz", (("clocks.current.sm",), ("clocks.sm",))),
    Reading("utilization_percent", (("utilization.gpu",),)),
    Reading("memory_used_bytes", (("memory.used",),)),
    Reading("ecc_correctable_total", (*_ecc("corrected", "volatile"), *_ecc("corrected", "aggregate"))),
    Reading("ecc_uncorrectable_total", (*_ecc("uncorrected", "volatile"), *_ecc("uncorrected", "aggregate"))),
    Reading("rows_remapped_correctable_total", (("remapped_rows.correctable",),)),
    Reading("rows_remapped_uncorrectable_total", (("remapped_rows.uncorrectable",),)),
    Reading("pcie_replay_total", (("pcie.replay",),)),
    Reading("pcie_generation", (("pcie.link.gen.gpucurrent",), ("pcie.link.gen.current",))),
    Reading("pcie_width", (("pcie.link.width.current",),)),
)
FLAGS = (("row_remap_pending", "remapped_rows.pending"), ("row_remap_failure", "remapped_rows.failure"))
REASONS = (
    ("gpu_idle", CLOCKS_EVENT_IDLE),
    ("applications_clocks_setting", CLOCKS_EVENT_APPLICATION_CLOCKS),
    ("sw_power_cap", CLOCKS_EVENT_SOFTWARE_POWER_CAP),
    ("hw_slowdown", CLOCKS_EVENT_HARDWARE_SLOWDOWN),
    ("sync_boost", CLOCKS_EVENT_SYNC_BOOST),
    ("sw_thermal_slowdown", CLOCKS_EVENT_SOFTWARE_THERMAL),
    ("hw_thermal_slowdown", CLOCKS_EVENT_HARDWARE_THERMAL),
    ("hw_power_brake_slowdown", CLOCKS_EVENT_HARDWARE_POWER_BRAKE),
)
WHOLE = tuple(name for name, column in Gpu.columns().items() if column.dtype == pl.Int64)
FIELDS = frozenset(
    {field for reading in READINGS for fields in reading.alternatives for field in fields}
    | {field for _, field in FLAGS}
    | {f"clocks_event_reasons.{reason}" for reason in ("active", *(name for name, _ in REASONS))}
    | {"timestamp", "index", "uuid", "pci.bus_id", "hostname"}
)


def field_name(heading: str) -> tuple[str, str]:
    """Field and unit of a CSV heading: `power.draw [W]`. Drivers before 535 say throttle where later ones say event."""
    name, _, unit = heading.strip().partition(" [")
    return name.strip().replace("clocks_throttle_reasons", "clocks_event_reasons"), unit.rstrip("] ")


def rows(cells: pl.DataFrame, units: dict[str, str], surroundings: Surroundings) -> tuple[pl.DataFrame, list[Reject]]:
    """Rows of gpu from cells.

    cells: text columns named after `--query-gpu` fields, and `slot` (Int64), which the reader has decided.
    units: field -> unit of its heading, for cells that do not repeat it (nounits). Rows whose time cannot be read are
    left out, with a reject each; readings that failed or are out of range are null, with a reject per column.
    """
    rejects = _failures(cells)
    columns = [_time(cells, surroundings), pl.lit(surroundings.node).alias("node"), pl.col("slot").alias("gpu")]
    if "uuid" in cells.columns:
        columns.append(_word("uuid").alias("uuid"))
    for reading in READINGS:
        value, used = _value(reading, cells, units)
        if value is None:
            continue
        rejects += _miscast(reading.column, cells, used)
        columns.append(value)
    columns += [_flag(field).alias(column) for column, field in FLAGS if field in cells.columns]
    mask = _reasons(cells)
    if mask is not None:
        columns.append(mask)
    frame = cells.select(columns).with_columns(pl.col("node").cast(pl.String))
    rejects += [
        Reject(rule="time|type", reason=f"row {at + 1}: cannot read timestamp {cells['timestamp'][at]!r}", place=at + 1)
        for at in frame["time"].is_null().arg_true()
    ]
    frame, outside = within_range(frame.filter(pl.col("time").is_not_null()))
    return frame, rejects + outside


def missing(frame: pl.DataFrame) -> tuple[str, ...]:
    """Gpu columns that the source did not show."""
    return tuple(column for column in GPU_COLUMNS if column not in frame.columns)


def _word(field: str) -> pl.Expr:
    cell = pl.col(field).str.strip_chars()
    return pl.when(~cell.str.contains(NOT_REPORTED) & ~cell.str.contains(FAILED)).then(cell)


def _number(field: str) -> pl.Expr:
    number = _word(field).str.extract(NUMBER).cast(pl.Float64, strict=False)
    return pl.when(~is_blank(number)).then(number)


def _scaled(field: str, unit: str) -> pl.Expr:
    """The number in the table's unit; the cell's own unit wins over the heading's."""
    own = (
        pl.col(field)
        .str.extract(r"([A-Za-z]+)\s*$")
        .replace_strict(UNIT_FACTORS, default=None, return_dtype=pl.Float64)
    )
    return _number(field) * own.fill_null(UNIT_FACTORS.get(unit, 1.0))


def _value(reading: Reading, cells: pl.DataFrame, units: dict[str, str]) -> tuple[pl.Expr | None, tuple[str, ...]]:
    shown = [fields for fields in reading.alternatives if all(field in cells.columns for field in fields)]
    if not shown:
        return None, ()
    sums = []
    for fields in shown:
        parts = [_scaled(field, units.get(field, "")) for field in fields]
        sums.append(pl.when(pl.any_horizontal(part.is_not_null() for part in parts)).then(pl.sum_horizontal(parts)))
    value = pl.coalesce(sums)
    if reading.column == "memory_temperature_celsius":
        value = pl.when(value != 0).then(value)  # 0 C on HBM is a missing sensor
    if reading.column in WHOLE:
        value = value.round().cast(pl.Int64, strict=False)
    return value.alias(reading.column), tuple(dict.fromkeys(field for fields in shown for field in fields))


def _flag(field: str) -> pl.Expr:
    words = {"yes": True, "no": False, "1": True, "0": False, "true": True, "false": False}
    return _word(field).str.to_lowercase().replace_strict(words, default=None, return_dtype=pl.Boolean)


def _reasons(cells: pl.DataFrame) -> pl.Expr | None:
    """The bit mask, or the same mask put together from one Active / Not Active column per reason."""
    alternatives = []
    if "clocks_event_reasons.active" in cells.columns:
        digits = _word("clocks_event_reasons.active").str.to_lowercase().str.extract(r"^0x([0-9a-f]{1,16})$")
        alternatives.append(digits.str.to_integer(base=16, strict=False, dtype=pl.Int64))
    bits = [
        (pl.col(field) == "Active").cast(pl.Int64) * bit
        for field, bit in ((f"clocks_event_reasons.{reason}", bit) for reason, bit in REASONS)
        if field in cells.columns
    ]
    known = [
        pl.col(f"clocks_event_reasons.{reason}").is_in(["Active", "Not Active"])
        for reason, _ in REASONS
        if f"clocks_event_reasons.{reason}" in cells.columns
    ]
    if bits:
        alternatives.append(pl.when(pl.any_horizontal(known)).then(pl.sum_horizontal(bits)))
    return pl.coalesce(alternatives).alias("clocks_event_reasons") if alternatives else None


def _time(cells: pl.DataFrame, surroundings: Surroundings) -> pl.Expr:
    """Local time without a zone, so the source's offset is taken off; the time of receipt when none was queried."""
    if "timestamp" not in cells.columns:
        return pl.lit(surroundings.received_at).cast(UTC_MICROSECONDS).alias("time")
    cell = pl.col("timestamp").str.strip_chars().str.replace_all(r"\s+", " ")
    parsed = pl.coalesce(
        cell.str.to_datetime(form, time_unit="us", strict=False, ambiguous="null") for form in TIMESTAMP_FORMATS
    )
    return (parsed - pl.duration(minutes=surroundings.utc_offset_minutes)).dt.replace_time_zone("UTC").alias("time")


def _failures(cells: pl.DataFrame) -> list[Reject]:
    """One reject for each field in which the driver printed an error instead of a reading."""
    rejects = []
    for field in cells.columns:
        if cells.schema[field] != pl.String:
            continue
        failed = cells[field].filter(cells[field].str.contains(FAILED).fill_null(value=False))
        if not failed.is_empty():
            reason = f"{field}: {len(failed)} cell(s) say {failed[0]!r} instead of a reading"
            rejects.append(Reject(rule=f"{field}|failed", reason=reason, raw=failed[0].encode()))
    return rejects


def _miscast(column: str, cells: pl.DataFrame, fields: tuple[str, ...]) -> list[Reject]:
    rejects = []
    for field in fields:
        lost = cells.select(_word(field).alias("word"), _number(field).alias("number")).filter(
            pl.col("word").is_not_null() & pl.col("number").is_null()
        )["word"]
        if not lost.is_empty():
            reason = f"{field}: {len(lost)} cell(s) are no number, first {lost[0][:80]!r}"
            rejects.append(Reject(rule=f"{column}|type", reason=reason, raw=lost[0].encode()))
    return rejects
