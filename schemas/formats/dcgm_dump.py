"""A job exporter's debug dump of DCGM values, as pasted into bug reports, to gpu: one `'key': value,` a line and GPU.

It is read because that is how blanks reach a person: numbers like 140737488355328.0 and 9223372036854775792 between
sane ones. Slots are not in it; GPUs are numbered in the order in which they stand.
"""

import re

import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.gpu_readings import GPU_COLUMNS, is_blank, within_range

NAME = "DCGM dump"
VERSIONS = "slurm-job-exporter, its dump of field values"
LEAVES = "fields that no gpu column holds"
GPU = re.compile(r"'(GPU-[0-9a-fA-F-]{4,64})':\s*\{")
PAIR = re.compile(r"'(\w{1,64})':\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*[,}]")
COLUMNS = {"power_usage": "power_watts", "gpu_temp": "temperature_celsius", "gpu_utilization": "utilization_percent"}


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return GPU.search(payload.head_text(head)[:200]) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu at received_at; one reject for each value that is a DCGM blank. Raises Unreadable without any GPU."""
    text = payload.text(data, surroundings, NAME)
    found = list(GPU.finditer(text))
    if not found:
        raise Unreadable(f"{NAME}: no line names a GPU")
    rejects, rows = [], []
    for slot, match in enumerate(found):
        row: dict[str, object] = {"gpu": slot, "uuid": match.group(1)} | dict.fromkeys(COLUMNS.values())
        end = found[slot + 1].start() if slot + 1 < len(found) else len(text)
        for pair in PAIR.finditer(text, match.end(), end):
            key, value = pair.group(1), float(pair.group(2))
            if pl.select(is_blank(pl.lit(value))).item():
                line = text.count("\n", 0, pair.start()) + 1
                reason = f"line {line}: {key} is blank ({pair.group(2)})"
                rejects.append(Reject(rule=f"{key}|blank", reason=reason, place=line, raw=pair.group(0).encode()))
            elif key in COLUMNS:
                row[COLUMNS[key]] = value
        rows.append(row)
    frame = pl.DataFrame(
        rows, schema={"gpu": pl.Int64, "uuid": pl.String} | dict.fromkeys(COLUMNS.values(), pl.Float64)
    )
    frame, outside = within_range(
        frame.select(
            pl.lit(surroundings.received_at).cast(UTC_MICROSECONDS).alias("time"),
            pl.lit(surroundings.node).alias("node"),
            pl.all(),
        )
    )
    missing = tuple(name for name in GPU_COLUMNS if name not in frame.columns)
    return Decoded(tables={"gpu": frame}, rejects=rejects_frame(rejects + outside, "gpu"), missing=missing)
