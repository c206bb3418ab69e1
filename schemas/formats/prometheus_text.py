"""Prometheus' text exposition as a column of samples, for every exporter that is read.

Vectorised, since a general parser takes about 0.09 M samples/s: a line that ends in `} number` or `} number stamp` is
cut at literals, and the names and labels that remain are few and looked at once each. Any other line, and one whose
labels hold a brace, goes through the one regular expression that says what a sample is.
"""

import polars as pl

from schemas.columns import UTC_MICROSECONDS

METRIC = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r'(?:[^"}]|"(?:[^"\\]|\\.)*")*'
SAMPLE = (
    rf"^(?P<metric>{METRIC})\s*(?:\{{(?P<labels>{LABELS})\}})?"
    r"\s*(?P<value>[^\s{}]+)(?:\s+(?P<stamp>-?\d{1,16}))?\s*(?:#.*)?$"
)
MILLISECONDS_MAXIMUM = 253_402_300_799_999  # the year 9999
SAMPLES = ("line", "text", "metric", "labels", "value", "number", "stamp", "rule")


def samples_of(text: str) -> pl.DataFrame:
    """Each line that is no comment: line (from 1), text, metric, labels, value, number (null for a blank or no number),
    stamp (ms since the epoch), rule ("line|sample" or "line|value" where it is no sample, else null).
    """
    lines = pl.DataFrame({"text": [text]}).select(pl.col("text").str.split("\n").explode(empty_as_null=False))
    lines = lines.with_row_index("line", offset=1).with_columns(pl.col("text").str.strip_chars()).filter(
        (pl.col("text") != "") & ~pl.col("text").str.starts_with("#")
    )  # fmt: skip
    plain, others = _plain(lines)
    if others.is_empty():
        return plain.select(SAMPLES)
    parsed = others.with_columns(pl.col("text").str.extract_groups(SAMPLE).alias("groups")).unnest("groups")
    parsed = parsed.with_columns(
        pl.col("labels").fill_null(""),
        pl.col("value").cast(pl.Float64, strict=False).alias("number"),
        pl.col("stamp").cast(pl.Int64, strict=False),
    )
    rule = (
        pl.when(pl.col("metric").is_null()).then(pl.lit("line|sample"))
        .when(pl.col("number").is_null() & ~pl.col("value").str.contains(r"(?i)^[+-]?(nan|inf)$"))
        .then(pl.lit("line|value"))
    )  # fmt: skip
    slow = parsed.with_columns(rule.alias("rule"))
    return pl.concat([plain.select(SAMPLES), slow.select(SAMPLES)]).sort("line")


def _plain(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Lines `name{labels} number` and `name{labels} number stamp` as samples, and the other lines."""
    cut = lines.with_columns(pl.col("text").str.splitn("{", 2).struct.rename_fields(["metric", "rest"])).unnest("text")
    cut = cut.with_columns(pl.col("rest").str.splitn("} ", 2).struct.rename_fields(["labels", "tail"])).unnest("rest")
    cut = cut.with_columns(pl.col("tail").str.splitn(" ", 2).struct.rename_fields(["value", "stamp"])).unnest("tail")
    cut = cut.with_columns(
        lines["text"],
        pl.col("value").cast(pl.Float64, strict=False).alias("number"),
        pl.col("stamp").cast(pl.Int64, strict=False).alias("milliseconds"),
    )
    for column, pattern in (("metric", METRIC), ("labels", LABELS)):
        known = cut[column].drop_nulls().unique()
        wrong = known.filter(~known.str.contains(f"^{pattern}$"))
        if not wrong.is_empty():  # such a line is the regular expression's to judge
            cut = cut.with_columns(pl.when(~pl.col(column).is_in(wrong.implode())).then(pl.col(column)).alias(column))
    whole = pl.all_horizontal(pl.col("metric", "labels", "number").is_not_null()) & (
        pl.col("stamp").is_null() | (pl.col("milliseconds").abs() < 10**16)
    )
    plain = cut.filter(whole)
    others = lines.filter(~cut.select(whole.alias("whole"))["whole"])
    return plain.with_columns(stamp="milliseconds", rule=pl.lit(None, pl.String)), others


def with_labels(samples: pl.DataFrame, **columns: pl.Expr) -> pl.DataFrame:
    """Samples with columns read from `labels`. Labels repeat over metrics and times, so each set is read once."""
    known = samples.select(pl.col("labels").unique()).with_columns(**columns)
    return samples.join(known, on="labels", how="left", maintain_order="left")


def label(*names: str) -> pl.Expr:
    """Value of the first of these labels. A quote inside a value is escaped, so the pattern cannot match inside one."""
    values = (pl.col("labels").str.extract(rf'(?:^|[,\s]){name}="((?:[^"\\]|\\.)*)"') for name in names)
    value = pl.coalesce(values)
    return pl.when(value != "").then(value.str.replace_all(r'\\(["\\])', "$1"))


def time_of(received_at: pl.Expr) -> pl.Expr:
    """The sample's own stamp, or received_at."""
    stamp = pl.when(pl.col("stamp").is_between(0, MILLISECONDS_MAXIMUM)).then(pl.col("stamp") * 1000)
    return pl.coalesce(stamp, received_at.cast(UTC_MICROSECONDS).cast(pl.Int64)).cast(UTC_MICROSECONDS)
