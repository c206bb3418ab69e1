"""Samples with labels, wherever they come from, collected one by one until they are rows of gpu."""

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.formats.decoded import Decoded, Reject, Surroundings
from schemas.formats.gpu_samples import SAMPLE_COLUMNS, Field, gpu_decoded
from schemas.formats.json_values import Readings, since_epoch

# In order of preference. `instance` is the scraped address: better than nothing, worse than any name of the host.
NODE_LABELS = ("Hostname", "hostname", "exported_hostname", "host.name", "k8s.node.name", "node", "host", "instance")
SLOT_LABELS = ("gpu", "index", "gpu_id", "gpu.number", "gpu.index", "hw.id", "device")
UUID_LABELS = ("UUID", "uuid", "gpu_uuid", "gpu.uuid", "hw.serial_number")
INSTANCE_LABELS = frozenset({"GPU_I_ID", "gpu_i_id"})
LINK_LABELS = frozenset({"nvlink", "nvswitch"})
SLOT = re.compile(r"(?:gpu|nvidia|card)?[-_]?(\d{1,3})", re.IGNORECASE)
PORT = re.compile(r":\d{1,5}$")


class GpuSamples:
    """place: what a place is in this format, a line or a message."""

    def __init__(self, fields: tuple[Field, ...], surroundings: Surroundings, place: str) -> None:
        self.fields = fields
        self.surroundings = surroundings
        self.place = place
        self.known = {metric: field.column for field in fields for metric in field.metrics}
        self.readings = Readings()
        self.rejects: list[Reject] = []
        self._rows: list[tuple[Any, ...]] = []

    def add(self, at: int, metric: str, value: Any, time: int | None, labels: Mapping[str, Any]) -> None:
        """One sample; time in microseconds since the epoch, None for the time of receipt. Other metrics are passed
        over: a stream carries more than GPUs.
        """
        column = self.known.get(metric)
        if column is None or _says(labels, LINK_LABELS):
            return
        if _says(labels, INSTANCE_LABELS):
            self._refuse(at, "gpu|mig", f"{metric} of a MIG instance, not of the GPU")
            return
        slot = slot_of(labels)
        if slot is None:
            self._refuse(at, "gpu|absent", f"{metric} without the GPU's number")
            return
        number = self.readings.number(column, value, at)  # null is kept: a GPU that answers N/A is there
        if time is None:
            time = since_epoch(self.surroundings.received_at)
        node = first(labels, *NODE_LABELS)
        node = self.surroundings.node if node is None else PORT.sub("", node.strip())
        self._rows.append((at, metric, number, time, node, slot, first(labels, *UUID_LABELS)))

    def decoded(self) -> Decoded:
        frame = pl.DataFrame(self._rows, schema=SAMPLE_COLUMNS | {"time": pl.Int64()}, orient="row")
        frame = frame.with_columns(pl.col("time").cast(UTC_MICROSECONDS))
        return gpu_decoded(frame, self.fields, self.rejects + self.readings.rejects(self.place), self.place)

    def _refuse(self, at: int, rule: str, reason: str) -> None:
        self.rejects.append(Reject(rule=rule, reason=f"{self.place} {at}: {reason}", place=at))


def first(labels: Mapping[str, Any], *names: str) -> str | None:
    """The first of these labels that is there and says something."""
    for name in names:
        value = labels.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)[:20] if abs(value) < 1e18 else None
    return None


def _says(labels: Mapping[str, Any], names: frozenset[str]) -> bool:
    """Whether one of these labels is there and says something; most samples have none of them."""
    return not names.isdisjoint(labels) and first(labels, *names) is not None


def slot_of(labels: Mapping[str, Any]) -> int | None:
    """The GPU's number in its node: 3, "3", "nvidia3", "gpu-3"; None where no label has one (a UUID has none)."""
    for name in SLOT_LABELS:
        value = first(labels, name)
        if value is None:
            continue
        if value.isdecimal() and value.isascii() and len(value) <= 3:
            return int(value)
        match = SLOT.fullmatch(value.strip())
        if match:
            return int(match.group(1))
    return None
