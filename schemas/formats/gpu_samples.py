"""GPU readings that come as samples, one value of one metric a row, to rows of gpu. Exporters' text, remote write,
Telegraf, OTLP and the AMD tools differ in how they name and carry samples; from here on they are alike.
"""

from dataclasses import dataclass

import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.formats.decoded import Decoded, Reject, rejects_frame
from schemas.formats.gpu_readings import GPU_COLUMNS, GPU_KEY, is_blank, within_range
from schemas.gpu import Gpu

SAMPLE_COLUMNS: dict[str, pl.DataType] = {
    "place": pl.Int64(), "metric": pl.String(), "number": pl.Float64(), "time": UTC_MICROSECONDS, "node": pl.String(),
    "gpu": pl.Int64(), "uuid": pl.String(),
}  # fmt: skip
"""place: line or message, whichever the format counts in. number: as sent; blanks are still numbers."""


@dataclass(frozen=True)
class Field:
    """A gpu column, the metrics it is read from in order of preference, and the factor to the table's unit."""

    column: str
    metrics: tuple[str, ...]
    factor: float = 1.0
    zero_is_blank: bool = False


# Units: https://docs.nvidia.com/datacenter/dcgm, field identifiers. Volatile ECC counts move at once, so they come
# first. NVLink CRC: flit errors; data CRC errors are counted apart and are not added, so that a blank in one of two
# fields cannot look like a reset of their sum.
DCGM_FIELDS = (
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


def gpu_decoded(samples: pl.DataFrame, fields: tuple[Field, ...], rejects: list[Reject], place: str) -> Decoded:
    """Rows of gpu, one per time, node and GPU, from SAMPLE_COLUMNS; gpu columns without any sample are `missing`.

    Rejects, added to those given: blanks and readings out of range, one per metric or column with their count, and
    each repeated sample. place: what a place is, a line or a message.
    """
    samples, repeated = _once(samples, place)
    frame = samples.group_by(GPU_KEY, maintain_order=True).agg(pl.col("uuid").drop_nulls().first())
    for field in fields:
        shown = samples.filter(pl.col("metric").is_in(field.metrics))
        if shown.is_empty():
            continue
        column, wrong = _column(field, shown, place)
        rejects = rejects + wrong
        frame = frame.join(column, on=GPU_KEY, how="left", maintain_order="left")
    frame, outside = within_range(frame)
    return Decoded(
        tables={"gpu": frame} if frame.height else {},
        rejects=rejects_frame(rejects + repeated + outside, "gpu"),
        missing=tuple(name for name in GPU_COLUMNS if name not in frame.columns),
    )


def _once(samples: pl.DataFrame, place: str) -> tuple[pl.DataFrame, list[Reject]]:
    """Each series once per time. Scrapes without times in one file cannot be told apart: the first one holds."""
    first = samples.select(pl.struct("metric", *GPU_KEY).is_first_distinct()).to_series()
    repeated = samples.filter(~first).select("place", "metric")
    rejects = [
        Reject(rule="series|repeated", reason=f"{place} {at}: {metric} of this GPU and time stands above", place=at)
        for at, metric in repeated.iter_rows()
    ]
    return samples.filter(first), rejects


def _column(field: Field, shown: pl.DataFrame, place: str) -> tuple[pl.DataFrame, list[Reject]]:
    """Key and the column, in the table's unit and type; the rejects count what was blank."""
    number = pl.col("number")
    blank = is_blank(number) | ~number.is_finite() | ((number == 0) if field.zero_is_blank else pl.lit(False))
    marked = shown.with_columns(blank.alias("blank"))
    blanks = marked.filter("blank")
    rejects = []
    if not blanks.is_empty():
        at, metric, value = blanks.select("place", "metric", "number").row(0)
        reason = f"{metric}: blank in {blanks.height} sample(s), first {value!r} on {place} {at}"
        rejects.append(Reject(rule=f"{field.column}|blank", reason=reason, place=at, raw=repr(value).encode()))
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
