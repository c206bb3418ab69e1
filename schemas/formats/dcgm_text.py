"""dcgm-exporter's Prometheus text to gpu: one wide row per GPU and time from one line per GPU and field.

Traps (formats.md A1, field.md 5): label names differ by release; blanks are numbers; MEMORY_TEMP 0 is a missing
sensor; energy is in mJ and frame buffer in MiB; MIG rows carry the UUID of their parent.

DCGM_FI_DEV_XID_ERRORS is not turned into events: it is a gauge that stays at the last Xid until the exporter restarts,
so it repeats one event for days, hides two equal ones, and never shows some codes. Xids come from the kernel log.

Vectorised: regular expressions over a column of lines, since a general Prometheus parser takes about 0.09 M samples/s.
"""

import re

import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.gpu_samples import DCGM_FIELDS, gpu_decoded

NAME = "dcgm-exporter text"
SAMPLE = (
    r'^(?P<metric>[a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"\s*(?P<value>[^\s{}]+)(?:\s+(?P<stamp>-?\d{1,16}))?\s*(?:#.*)?$"
)
LOOKS = re.compile(r"^(# (HELP|TYPE) DCGM_\w+ |DCGM_\w+\{)", re.MULTILINE)
MILLISECONDS_MAXIMUM = 253_402_300_799_999  # the year 9999


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return LOOKS.search(payload.head_text(head)) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu, one per host, GPU and time; time is the line's own (ms since the epoch) or received_at.

    missing: gpu columns of which this text has no field. Rejects: lines that are no sample, samples of MIG instances
    (they do not fit a row per GPU) and repeated series one by line; blanks and readings out of range one per field
    with their count. Raises Unreadable when no line is a DCGM sample.
    """
    samples, rejects = _samples(payload.text(data, surroundings, NAME))
    if samples.is_empty() and not any(reject.rule == "gpu|mig" for reject in rejects):
        raise Unreadable(f"{NAME}: no DCGM sample with a gpu label in {len(rejects)} line(s)")
    samples = samples.with_columns(
        pl.col("node").fill_null(surroundings.node),
        pl.coalesce(
            pl.when(pl.col("stamp").is_between(0, MILLISECONDS_MAXIMUM)).then(pl.col("stamp") * 1000),
            pl.lit(surroundings.received_at).cast(UTC_MICROSECONDS).cast(pl.Int64),
        ).cast(UTC_MICROSECONDS).alias("time"),
    )  # fmt: skip
    return gpu_decoded(samples, DCGM_FIELDS, rejects, place="line")


def _label(*names: str) -> pl.Expr:
    """Value of the first of these labels. A quote inside a value is escaped, so the pattern cannot match inside one."""
    values = (pl.col("labels").str.extract(rf'(?:^|[,\s]){name}="((?:[^"\\]|\\.)*)"') for name in names)
    value = pl.coalesce(values)
    return pl.when(value != "").then(value.str.replace_all(r'\\(["\\])', "$1"))


def _samples(text: str) -> tuple[pl.DataFrame, list[Reject]]:
    """Lines as metric, value, stamp (ms), node, gpu, uuid, place; and what was no sample of a whole GPU."""
    lines = pl.DataFrame({"text": text.split("\n")}).with_row_index("line", offset=1)
    lines = lines.with_columns(pl.col("text").str.strip_chars()).filter(
        (pl.col("text") != "") & ~pl.col("text").str.starts_with("#")
    )
    parsed = lines.with_columns(pl.col("text").str.extract_groups(SAMPLE).alias("groups")).unnest("groups")
    parsed = parsed.with_columns(
        pl.col("labels").fill_null(""),
        pl.col("value").cast(pl.Float64, strict=False).alias("number"),
        pl.col("stamp").cast(pl.Int64, strict=False),
    ).with_columns(
        _label("Hostname", "hostname").alias("node"),
        _label("gpu").cast(pl.Int64, strict=False).alias("gpu"),
        _label("UUID", "uuid", "gpu_uuid").alias("uuid"),
        _label("GPU_I_ID").alias("instance"),
        _label("nvlink", "nvswitch").alias("link"),
    )
    reason = (
        pl.when(pl.col("metric").is_null()).then(pl.lit("line|sample"))
        .when(pl.col("number").is_null() & ~pl.col("value").str.contains(r"(?i)^[+-]?(nan|inf)$"))
        .then(pl.lit("line|value"))
        .when(~pl.col("metric").str.starts_with("DCGM_")).then(pl.lit("metric|foreign"))
        .when(pl.col("instance").is_not_null()).then(pl.lit("gpu|mig"))
        .when(pl.col("gpu").is_null()).then(pl.lit("gpu|absent"))
    )  # fmt: skip
    judged = parsed.with_columns(reason.alias("rule"))
    # An exporter also tells of itself (go_*, process_*): no DCGM sample, and no fault either.
    bad = judged.filter(pl.col("rule").is_not_null() & (pl.col("rule") != "metric|foreign"))
    words = {
        "line|sample": "no Prometheus sample",
        "line|value": "value is no number",
        "gpu|mig": "sample of a MIG instance, not of the GPU",
        "gpu|absent": "no gpu label",
    }
    rejects = [
        Reject(rule=rule, reason=f"line {line}: {words[rule]}", place=line, raw=raw.encode())
        for rule, line, raw in bad.select("rule", "line", "text").iter_rows()
    ]
    # One link's or switch's counter is not the GPU's total, which has a field of its own.
    good = judged.filter(pl.col("rule").is_null() & pl.col("link").is_null())
    return good.select(pl.col("line").alias("place"), "metric", "number", "stamp", "node", "gpu", "uuid"), rejects
