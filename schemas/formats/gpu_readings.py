"""What all GPU sources share: how a PCI address is written, and which numbers are no readings."""

import re

import polars as pl

from schemas.formats.decoded import Reject
from schemas.gpu import Gpu

GPU_COLUMNS: tuple[str, ...] = tuple(Gpu.columns())
GPU_KEY = ("time", "node", "gpu")

_PCI = re.compile(r"(?:PCI:)?([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.[0-9A-Fa-f])?")

# DCGM's blanks (dcgmi structures; seen in the field as data in slurm-job-exporter#30 and dcgm-exporter#418). The
# 64-bit ones are compared as floats because that is what every exporter makes of them.
_BLANK_INT32 = (2147483632, 2147483635)
_BLANK_FP64 = (140737488355328.0, 140737488355331.0)
_BLANK_INT64_FROM = 9.2233720368547e18
_BLANK_UINT32 = 4294967295.0


def pci_address(text: str) -> str | None:
    """`00000000:9B:00.0`, `PCI:0000:9b:00` and `0000:9B:00` are one device: `0000:9b:00`. None: no address."""
    match = _PCI.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device = match.groups()
    return f"{domain.lower().lstrip('0').zfill(4)}:{bus.lower()}:{device.lower()}"


def is_blank(value: pl.Expr) -> pl.Expr:
    """True where a Float64 column holds one of DCGM's sentinels, which parse as numbers."""
    return (
        value.is_between(*_BLANK_INT32)
        | value.is_between(*_BLANK_FP64)
        | (value >= _BLANK_INT64_FROM)
        | (value == _BLANK_UINT32)
    )


def within_range(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[Reject]]:
    """A frame of gpu columns in which a reading outside the table's range is null; one reject per column, with the
    count. Key columns are left alone: a row without its key is the door's business.
    """
    rejects: list[Reject] = []
    cleared: list[pl.Expr] = []
    for name, column in Gpu.columns().items():
        if name not in frame.columns or name in GPU_KEY or not column.dtype.is_numeric():
            continue
        minimum, maximum = getattr(column, "min", None), getattr(column, "max", None)
        value = pl.col(name)
        outside = pl.lit(False)
        outside = outside | (value < minimum) if minimum is not None else outside
        outside = outside | (value > maximum) if maximum is not None else outside
        values = frame.filter(outside)[name]
        if values.is_empty():
            continue
        cleared.append(pl.when(~outside).then(value).alias(name))
        reason = f"{name}: {len(values)} reading(s) outside {minimum}..{maximum}, first {values[0]}"
        rejects.append(Reject(rule=f"{name}|range", reason=reason, raw=str(values[0]).encode()))
    return frame.with_columns(cleared), rejects
