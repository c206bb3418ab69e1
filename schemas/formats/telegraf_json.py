"""Telegraf's JSON output, {"name", "tags", "fields", "timestamp"} or many in {"metrics": [...]}, to gpu and
hardware_sensor.

Read are the inputs nvidia_smi and prometheus, the latter in both of its layouts (the metric is the measurement, or it
is a field), and redfish. All else that Telegraf sends is passed over in silence.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.gpu_labels import GpuSamples
from schemas.formats.gpu_samples import DCGM_FIELDS
from schemas.formats.json_values import documents, microseconds
from schemas.formats.telegraf_redfish import MEASUREMENTS, RedfishSensors

NAME = "Telegraf JSON"
VERSIONS = "Telegraf 1.x json output, single and batch; inputs nvidia_smi, redfish, prometheus (metric_version 1, 2)"
LEAVES = "all other inputs, text fields, thresholds"
SMI = "nvidia_smi"
# https://github.com/influxdata/telegraf, plugins/inputs/nvidia_smi: the units are DCGM's (MiB, W, MHz, percent).
SMI_FIELDS = {
    "temperature_celsius": "temperature_gpu",
    "memory_temperature_celsius": "temperature_memory",
    "power_watts": "power_draw",
    "sm_clock_megahertz": "clocks_current_sm",
    "utilization_percent": "utilization_gpu",
    "memory_used_bytes": "memory_used",
    "pcie_generation": "pcie_link_gen_current",
    "pcie_width": "pcie_link_width_current",
    "rows_remapped_correctable_total": "remapped_rows_correctable",
    "rows_remapped_uncorrectable_total": "remapped_rows_uncorrectable",
    "row_remap_pending": "remapped_rows_pending",
    "row_remap_failure": "remapped_rows_failure",
}
FIELDS = tuple(
    replace(field, metrics=(*field.metrics, f"{SMI}.{SMI_FIELDS[field.column]}"))
    if field.column in SMI_FIELDS
    else field
    for field in DCGM_FIELDS
)
FLAGS = {"yes": 1, "no": 0}
VALUE_FIELDS = ("gauge", "counter", "value")  # of a metric that is a measurement of its own


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return all(word in text for word in ('"fields"', '"tags"', '"name"'))


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu, one per host, GPU and time, and of hardware_sensor, one per sensor and time. timestamp: s, ms, us or
    ns since the epoch, told apart by size.

    Rejects: objects that are no metric and metrics without a readable time, one by one. Raises
    Unreadable when no object is a metric.
    """
    samples = GpuSamples(FIELDS, surroundings, place="metric")
    sensors = RedfishSensors(surroundings.node)
    seen = 0
    for at, metric in _metrics(data, surroundings, samples.rejects):
        name, fields, tags = (
            metric.get(key) if isinstance(metric, dict) else None for key in ("name", "fields", "tags")
        )
        if not isinstance(name, str) or not isinstance(fields, dict) or not isinstance(tags, dict | None):
            reason = f"metric {at}: no object with name, tags and fields"
            samples.rejects.append(Reject(rule="metric|object", reason=reason, place=at))
            continue
        seen += 1
        values = [(metric_name, value) for metric_name, value in _values(name, fields) if metric_name in samples.known]
        if not values and name not in MEASUREMENTS:
            continue
        time = microseconds(metric.get("timestamp"), surroundings.utc_offset_minutes)
        if time is None:
            reason = f"metric {at}: cannot read timestamp {str(metric.get('timestamp'))[:80]!r}"
            samples.rejects.append(Reject(rule="time|type", reason=reason, place=at))
            continue
        if name in MEASUREMENTS:
            sensors.add(at, name, fields, tags or {}, time)
        for metric_name, value in values:
            samples.add(at, metric_name, value, time, tags or {})
    if not seen:
        raise Unreadable(f"{NAME}: no metric with name, tags and fields among {len(samples.rejects)}")
    samples.rejects.extend(sensors.readings.rejects("metric"))
    gpus = samples.decoded()
    return replace(gpus, tables={**gpus.tables, **sensors.tables()})


def _metrics(data: bytes, surroundings: Surroundings, rejects: list[Reject]) -> Iterator[tuple[int, Any]]:
    """Metrics of all batches, numbered through."""
    at = 0
    for _, item in documents(data, surroundings, NAME, rejects):
        batch = item.get("metrics") if isinstance(item, dict) else None
        for metric in batch if isinstance(batch, list) else [item]:
            at += 1
            yield at, metric


def _values(name: str, fields: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if name == SMI:
        for field, value in fields.items():
            yield f"{SMI}.{field}", FLAGS.get(value.lower(), value) if isinstance(value, str) else value
        return
    yield from fields.items()
    for field in VALUE_FIELDS:
        if field in fields:
            yield name, fields[field]
