"""OpenTelemetry metrics (OTLP) to gpu, in both encodings: numbers of gauges and sums, with the resource's attributes.

The tree is the one of OTLP/JSON; the protobuf reader makes the same. Names: DCGM's own, and the semantic conventions
for hardware (hw.*, https://opentelemetry.io/docs/specs/semconv/hardware/gpu). Histograms and summaries are left.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.gpu_labels import GpuSamples, first
from schemas.formats.gpu_samples import DCGM_FIELDS
from schemas.formats.json_values import MICROSECONDS_MAXIMUM

GPU_TYPE = "gpu"
# hw.temperature, hw.power, hw.energy and hw.errors are of any component; hw.type says of which. Units by the
# conventions are SI: 1, By, Cel, W, J. The factor of a column is DCGM's, so values are brought to DCGM's unit first.
HARDWARE = {
    "hw.gpu.utilization": ("utilization_percent", 100.0),
    "hw.gpu.memory.usage": ("memory_used_bytes", 2.0**-20),
    "hw.temperature": ("temperature_celsius", 1.0),
    "hw.power": ("power_watts", 1.0),
    "hw.energy": ("energy_joules_total", 1e3),
    "hw.errors corrected": ("ecc_correctable_total", 1.0),
    "hw.errors uncorrected": ("ecc_uncorrectable_total", 1.0),
}
FIELDS = tuple(
    replace(
        field, metrics=(*field.metrics, *(name for name, (column, _) in HARDWARE.items() if column == field.column))
    )
    for field in DCGM_FIELDS
)
POINTS_MAXIMUM = 5_000_000


def rows(tree: Any, surroundings: Surroundings, format_name: str) -> Decoded:
    """Rows of gpu, one per host, GPU and time. Raises Unreadable when the tree is no OTLP metrics."""
    resources = tree.get("resourceMetrics") if isinstance(tree, dict) else None
    if not isinstance(resources, list):
        raise Unreadable(f"{format_name}: no resourceMetrics")
    samples = GpuSamples(FIELDS, surroundings, place="data point")
    at = left = 0
    for resource in resources:
        shared = attributes(part(part(resource, "resource"), "attributes"))
        for metric in _metrics(resource):
            name = part(metric, "name")
            if not isinstance(name, str):
                continue
            if any(part(metric, kind) is not None for kind in ("histogram", "exponentialHistogram", "summary")):
                left += name.startswith(("DCGM_", "hw."))
                continue
            for point in _points(metric):
                at += 1
                if at > POINTS_MAXIMUM:
                    raise Unreadable(f"{format_name}: more than {POINTS_MAXIMUM} data points")
                _take(samples, at, name, point, shared)
    if left:
        reason = f"{left} histogram(s) or summaries of a GPU, which no column holds"
        samples.rejects.append(Reject(rule="metric|left", reason=reason))
    return samples.decoded()


def attributes(pairs: Any) -> dict[str, Any]:
    """Key-value pairs as a dictionary of their texts and whole numbers."""
    found: dict[str, Any] = {}
    for pair in pairs if isinstance(pairs, list) else ():
        key, value = part(pair, "key"), part(pair, "value")
        if not isinstance(key, str):
            continue
        text, whole = part(value, "stringValue"), part(value, "intValue")
        if isinstance(text, str):
            found[key] = text
        elif isinstance(whole, str | int):
            found[key] = whole
    return found


def part(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _metrics(resource: Any) -> Iterator[Any]:
    for scopes in ("scopeMetrics", "instrumentationLibraryMetrics"):  # the second is the name until 0.15
        for scope in part(resource, scopes) or ():
            metrics = part(scope, "metrics")
            yield from metrics if isinstance(metrics, list) else ()


def _points(metric: Any) -> Iterator[Any]:
    for kind in ("gauge", "sum"):
        points = part(part(metric, kind), "dataPoints")
        yield from points if isinstance(points, list) else ()


def _take(samples: GpuSamples, at: int, name: str, point: Any, shared: dict[str, Any]) -> None:
    labels = shared | attributes(part(point, "attributes"))
    factor = 1.0
    if name.startswith("hw."):
        if not name.startswith("hw.gpu.") and labels.get("hw.type") != GPU_TYPE:
            return
        if first(labels, "hw.gpu.task") not in {None, "general"}:
            return  # of the encoder or decoder, not of the GPU
        if name == "hw.errors":
            name = f"{name} {labels.get('error.type')}"
        if name not in HARDWARE:
            return
        factor = HARDWARE[name][1]
        uuid = first(labels, "hw.id")
        labels = labels | {"uuid": uuid} if uuid and uuid.startswith("GPU-") else labels
    column = samples.known.get(name)
    if column is None:
        return
    flags = part(point, "flags")
    if isinstance(flags, int) and flags & 1:
        return  # "no recorded value": the series has ended
    value = part(point, "asDouble")
    number = samples.readings.number(column, part(point, "asInt") if value is None else value, at)
    time = _time(part(point, "timeUnixNano"))
    if time is None:
        reason = f"data point {at}: {name[:80]} without a readable timeUnixNano"
        samples.rejects.append(Reject(rule="time|type", reason=reason, place=at))
        return
    samples.add(at, name, None if number is None else number * factor, time, labels)


def _time(nanoseconds: Any) -> int | None:
    """Microseconds since the epoch; JSON carries 64-bit numbers as text."""
    if isinstance(nanoseconds, str) and nanoseconds.isascii() and nanoseconds.isdigit() and len(nanoseconds) < 21:
        nanoseconds = int(nanoseconds)
    if isinstance(nanoseconds, bool) or not isinstance(nanoseconds, int) or nanoseconds <= 0:
        return None
    return nanoseconds // 1000 if nanoseconds // 1000 <= MICROSECONDS_MAXIMUM else None
