"""dcgm-exporter's Prometheus text to gpu: one wide row per GPU and time from one line per GPU and field.

Traps (formats.md A1, field.md 5): label names differ by release; blanks are numbers; MEMORY_TEMP 0 is a missing
sensor; energy is in mJ and frame buffer in MiB; MIG rows carry the UUID of their parent.

DCGM_FI_DEV_XID_ERRORS is not turned into events: it is a gauge that stays at the last Xid until the exporter restarts,
so it repeats one event for days, hides two equal ones, and never shows some codes. Xids come from the kernel log.

Vectorised: regular expressions over a column of lines, since a general Prometheus parser takes about 0.09 M samples/s.
"""

import re
from dataclasses import dataclass

import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.gpu_readings import GPU_COLUMNS, GPU_KEY, is_blank, within_range
from schemas.gpu import Gpu

NAME = "dcgm-exporter text"
SAMPLE = (
    r'^(?P<metric>[a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"\s*(?P<value>[^\s{}]+)(?:\s+(?P<stamp>-?\d{1,16}))?\s*(?:#.*)?$"
)
LOOKS = re.compile(r"^(# (HELP|TYPE) DCGM_\w+ |DCGM_\w+\{)", re.MULTILINE)
MILLISECONDS_MAXIMUM = 253_402_300_799_999  # the year 9999


@dataclass(frozen=True)
class Field:
    """A gpu column, the DCGM fields it is read from in order of preference, and the factor to the table's unit."""

    column: str
    metrics: tuple[str, ...]
    factor: float = 1.0
    zero_is_blank: bool = False


# Units: https://docs.nvidia.com/datacenter/dcgm, field identifiers. Volatile ECC counts move at once, so they come
# first. NVLink CRC: flit errors; data CRC errors are counted apart and are not added, so that a blank in one of two
# fields cannot look like a reset of their sum.
FIELDS = (
    Field("temperature_celsius", ("DCGM_FI_DEV_GPU_TEMP",)),
    Field("thermal_margin_celsius", ("DCGM_FI_DEV_GPU_TEMP_LIMIT",)),
    Field("memory_temperature_celsius", ("DCGM_FI_DEV_MEMORY_TEMP",), zero_is_blank=True),
    Field("power_watts", ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT")),
    Field("sm_clock_megahertz", ("DCGM_FI_DEV_SM_CLOCK",)),
    Field("utilization_percent", ("DCGM_FI_DEV_GPU_UTIL",)),
    Field("memory_used_bytes", ("DCGM_FI_DEV_FB_USED",), 2.0**20),
    Field(
        "clocks_event_reasons",
        (
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
            "DCGM_FI_DEV_CLOCKS_THROTTLE_REASONS",
            "DCGM_FI_DEV_CLOCK_EVENT_REASONS",
        ),
    ),
    Field("ecc_correctable_total", ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL")),
    Field("ecc_uncorrectable_total", ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL")),
    Field("rows_remapped_correctable_total", ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",)),
    Field("rows_remapped_uncorrectable_total", ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",)),
    Field("row_remap_pending", ("DCGM_FI_DEV_ROW_REMAP_PENDING",)),
    Field("row_remap_failure", ("DCGM_FI_DEV_ROW_REMAP_FAILURE",)),
    Field("pcie_replay_total", ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER",)),
    Field("pcie_generation", ("DCGM_FI_DEV_PCIE_LINK_GEN",)),
    Field("pcie_width", ("DCGM_FI_DEV_PCIE_LINK_WIDTH",)),
    Field("nvlink_crc_error_total", ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",)),
    Field("nvlink_replay_total", ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",)),
    Field("nvlink_recovery_total", ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",)),
    Field("energy_joules_total", ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",), 1e-3),
)


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
    samples, repeated = _once(samples)
    frame = samples.group_by(GPU_KEY, maintain_order=True).agg(pl.col("uuid").drop_nulls().first())
    columns = []
    for field in FIELDS:
        shown = samples.filter(pl.col("metric").is_in(field.metrics))
        if shown.is_empty():
            continue
        column, wrong = _column(field, shown)
        rejects += wrong
        frame = frame.join(column, on=GPU_KEY, how="left", maintain_order="left")
        columns.append(field.column)
    frame, outside = within_range(frame)
    return Decoded(
        tables={"gpu": frame} if frame.height else {},
        rejects=rejects_frame(rejects + repeated + outside, "gpu"),
        missing=tuple(name for name in GPU_COLUMNS if name not in frame.columns),
    )


def _label(*names: str) -> pl.Expr:
    """Value of the first of these labels. A quote inside a value is escaped, so the pattern cannot match inside one."""
    values = (pl.col("labels").str.extract(rf'(?:^|[,\s]){name}="((?:[^"\\]|\\.)*)"') for name in names)
    value = pl.coalesce(values)
    return pl.when(value != "").then(value.str.replace_all(r'\\(["\\])', "$1"))


def _samples(text: str) -> tuple[pl.DataFrame, list[Reject]]:
    """Lines as metric, value, stamp (ms), node, gpu, uuid, line; and what was no sample of a whole GPU."""
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
    return good.select("line", "metric", "number", "stamp", "node", "gpu", "uuid"), rejects


def _once(samples: pl.DataFrame) -> tuple[pl.DataFrame, list[Reject]]:
    """Each series once per time. Scrapes without times in one file cannot be told apart: the first one holds."""
    first = samples.select(pl.struct("metric", *GPU_KEY).is_first_distinct()).to_series()
    repeated = samples.filter(~first).select("line", "metric")
    rejects = [
        Reject(rule="series|repeated", reason=f"line {line}: {metric} of this GPU and time stands above", place=line)
        for line, metric in repeated.iter_rows()
    ]
    return samples.filter(first), rejects


def _column(field: Field, shown: pl.DataFrame) -> tuple[pl.DataFrame, list[Reject]]:
    """Key and the column, in the table's unit and type; the rejects count what was blank."""
    number = pl.col("number")
    blank = is_blank(number) | ~number.is_finite() | ((number == 0) if field.zero_is_blank else pl.lit(False))
    marked = shown.with_columns(blank.alias("blank"))
    blanks = marked.filter("blank")
    rejects = []
    if not blanks.is_empty():
        line, metric, value = blanks.select("line", "metric", "number").row(0)
        reason = f"{metric}: blank in {blanks.height} sample(s), first {value!r} on line {line}"
        rejects.append(Reject(rule=f"{field.column}|blank", reason=reason, place=line, raw=repr(value).encode()))
    scaled: pl.Expr = pl.when(~pl.col("blank")).then(number * field.factor)
    dtype = Gpu.columns()[field.column].dtype
    if dtype == pl.Boolean:
        scaled = pl.when(scaled.is_in([0.0, 1.0])).then(scaled != 0)
    elif dtype == pl.Int64:
        scaled = scaled.round().cast(pl.Int64, strict=False)
    rank = pl.col("metric").replace_strict(
        {metric: at for at, metric in enumerate(field.metrics)}, return_dtype=pl.Int64
    )
    values = marked.with_columns(rank.alias("rank"), scaled.alias(field.column)).sort("rank", maintain_order=True)
    return values.group_by(GPU_KEY, maintain_order=True).agg(pl.col(field.column).drop_nulls().first()), rejects
