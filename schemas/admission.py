"""The door: what comes in becomes rows of a table or goes to quarantine with the rule it broke. Nothing else passes.

Order: unknown columns are dropped and counted; missing ones become null; values are cast (what cannot be cast is a
broken rule, not a null); NaN and infinities become null, as no table holds a sentinel; then the schema's own rules.
"""

from dataclasses import dataclass
from functools import cache

import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.intake import Quarantine
from schemas.tables import Table

RAW_CHARACTERS_MAXIMUM = 4096
LAST_MICROSECOND = 253_402_300_799_999_999  # of the year 9999, the last that a calendar shows
QUARANTINE_COLUMNS = pl.Schema({name: column.dtype for name, column in Quarantine.columns().items()})


@dataclass(frozen=True)
class Origin:
    """Where rows came from: topic and offset, or a file."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Admitted:
    """rows: good ones, typed, in the order they came. quarantined: the others. ignored: unknown column -> rows."""

    rows: pl.DataFrame
    quarantined: pl.DataFrame
    ignored: dict[str, int]


def admit(table: Table, frame: pl.DataFrame, origin: Origin | None = None) -> Admitted:
    """Split a frame of any shape into rows of the table and quarantined rows. Never raises for what the data says."""
    wanted = table.columns
    ignored = {column: frame.height for column in frame.columns if column not in wanted}
    given = frame.select(column for column in wanted if column in frame.columns)
    if frame.is_empty() or given.width == 0:
        return Admitted(pl.DataFrame(schema=wanted), pl.DataFrame(schema=QUARANTINE_COLUMNS), ignored)
    typed = given.select(
        _typed(column, given.schema[column], dtype) if column in given.columns else pl.lit(None, dtype).alias(column)
        for column, dtype in wanted.items()
    )
    miscast = _miscast(given, typed)
    if miscast is None and _keeps_rules(table, typed):  # as nearly always: no row is copied, none looked at again
        return Admitted(typed, pl.DataFrame(schema=QUARANTINE_COLUMNS), ignored)
    castable = typed if miscast is None else typed.filter(miscast.is_null())
    split = table.schema.filter(castable)
    rows = pl.DataFrame(split.result)
    refused: list[pl.DataFrame] = []
    if miscast is not None:
        lost = miscast.is_not_null()
        refused.append(typed.filter(lost).with_columns(rule=miscast.filter(lost), raw=_as_json(given.filter(lost))))
    if rows.height < castable.height:
        failed = _first_broken_rule(split.failure.details())
        refused.append(failed.with_columns(raw=_as_json(failed.drop("rule"))))
    return Admitted(rows, _quarantine(table, pl.concat(refused), origin or Origin()), ignored)


def _typed(column: str, given: pl.DataType, wanted: pl.DataType) -> pl.Expr:  # noqa: PLR0911  one return per kind
    """The column cast to its type: text is parsed, a bare integer time is microseconds since the epoch."""
    value = pl.col(column)
    if given == wanted:
        return pl.when(value.is_finite()).then(value) if wanted.is_float() else value
    if given.is_nested() != wanted.is_nested() or isinstance(given, pl.Struct):
        return pl.lit(None, wanted).alias(column)  # a list where one value is wanted, or the other way round
    if wanted == UTC_MICROSECONDS:
        if given == pl.String:
            return value.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
        if isinstance(given, pl.Datetime):
            zoned = value.dt.replace_time_zone("UTC") if given.time_zone is None else value.dt.convert_time_zone("UTC")
            return zoned.dt.cast_time_unit("us")
        whole = value.cast(pl.Int64, strict=False)
        return pl.when(whole.is_between(0, LAST_MICROSECOND)).then(whole).cast(UTC_MICROSECONDS)
    if wanted.is_integer() and given.is_float():
        value = pl.when(value.is_finite() & (value == value.round())).then(value)
    if wanted == pl.Boolean and given == pl.String:
        return value.str.to_lowercase().replace_strict({"true": True, "false": False}, default=None)
    cast = value.cast(wanted, strict=False)
    return pl.when(cast.is_finite()).then(cast) if wanted.is_float() else cast


def _miscast(given: pl.DataFrame, typed: pl.DataFrame) -> pl.Series | None:
    """For each row the first column whose value was there and did not survive its cast, as a rule. None: all did."""
    rule: pl.Series | None = None
    for column in reversed(given.columns):
        series = given[column]
        if series.dtype == typed[column].dtype:
            continue  # not cast; NaN and infinities, which became null, are no values
        lost = series.is_not_null() & typed[column].is_null()
        if series.dtype.is_float():
            lost &= series.is_finite()
        if lost.any():
            before = pl.lit(None, pl.String) if rule is None else rule
            rule = pl.select(pl.when(lost).then(pl.lit(f"{column}|type")).otherwise(before).alias("rule"))["rule"]
    return rule


def _keeps_rules(table: Table, rows: pl.DataFrame) -> bool:
    """As schema.is_valid, which makes its rules anew for every frame, and longer than most frames take to check."""
    rules = _rules(table)
    said = [name for name, column in table.schema.columns().items()
            if not column.nullable or rows[name].null_count() < rows.height]  # fmt: skip
    return all(
        rows.select(rule.all().alias(f"{name}|{at}") for name in said for at, rule in enumerate(rules[name])).row(0)
    )


@cache
def _rules(table: Table) -> dict[str, tuple[pl.Expr, ...]]:
    """Of each column. A table has no others: what tells of several columns or rows is a detector's to say."""
    columns = table.schema.columns().items()
    return {name: tuple(column.validation_rules(pl.col(name)).values()) for name, column in columns}


def _first_broken_rule(details: pl.DataFrame) -> pl.DataFrame:
    """Failed rows with the name of the first rule that each broke, in the order of the table's columns."""
    rules = [column for column in details.columns if "|" in column or details.schema[column] == pl.Enum]
    verdicts = [pl.when(pl.col(rule).cast(pl.String) == "invalid").then(pl.lit(rule)) for rule in rules]
    first = pl.coalesce(verdicts) if verdicts else pl.lit(None, pl.String)
    return details.select(pl.exclude(rules), first.fill_null("rule").alias("rule"))


def _as_json(rows: pl.DataFrame) -> pl.Series:
    if rows.is_empty() or rows.width == 0:
        return pl.Series("raw", [None] * rows.height, dtype=pl.Binary)
    return rows.select(
        pl.struct(pl.all()).struct.json_encode().str.head(RAW_CHARACTERS_MAXIMUM).cast(pl.Binary).alias("raw")
    )["raw"]


def _quarantine(table: Table, refused: pl.DataFrame, origin: Origin) -> pl.DataFrame:
    return refused.select(
        pl.col(table.time).alias("time"),
        pl.lit(table.name).alias("table"),
        pl.col(table.source).alias("source"),
        pl.col("rule"),
        pl.format("row of {} breaks {}", pl.lit(table.name), "rule").alias("reason"),
        pl.lit(origin.topic, pl.String).alias("topic"),
        pl.lit(origin.partition, pl.Int64).alias("partition"),
        pl.lit(origin.offset, pl.Int64).alias("offset"),
        pl.col("raw"),
    ).cast(QUARANTINE_COLUMNS)  # fmt: skip
