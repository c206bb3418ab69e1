"""OTLP metrics in protobuf to gpu (otlp_metrics.py says what is read).

A reader of our own for the few messages that carry numbers: the depth is that of the schema below, so no payload can
nest deeper, nothing is copied twice, and unknown fields are skipped by their wire type. Field numbers are from
opentelemetry-proto, metrics/v1/metrics.proto and common/v1/common.proto (stable since 1.0).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.formats.json_values import DOCUMENT_BYTES_MAXIMUM
from schemas.formats.otlp_metrics import rows

NAME = "OTLP protobuf"
VERSIONS = "OTLP 1.x ExportMetricsServiceRequest"
LEAVES = "histograms, summaries, metrics but DCGM_* and hw.* of a GPU"
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
FIRST_TAG = b"\x0a"  # field 1, a message: resource_metrics


@dataclass(frozen=True)
class _Field:
    name: str
    kind: "Literal['text', 'uint', 'sint', 'fixed', 'sfixed', 'double'] | dict[int, _Field]"
    repeated: bool = False


_VALUE = {1: _Field("stringValue", "text"), 3: _Field("intValue", "sint")}
_ATTRIBUTE = {1: _Field("key", "text"), 2: _Field("value", _VALUE)}
_POINT = {
    3: _Field("timeUnixNano", "fixed"),
    4: _Field("asDouble", "double"),
    6: _Field("asInt", "sfixed"),
    7: _Field("attributes", _ATTRIBUTE, repeated=True),
    8: _Field("flags", "uint"),
}
_NUMBERS = {1: _Field("dataPoints", _POINT, repeated=True)}
_METRIC = {
    1: _Field("name", "text"),
    5: _Field("gauge", _NUMBERS),
    7: _Field("sum", _NUMBERS),
    9: _Field("histogram", {}),
    10: _Field("exponentialHistogram", {}),
    11: _Field("summary", {}),
}
_SCOPE = {2: _Field("metrics", _METRIC, repeated=True)}
_RESOURCE = {1: _Field("attributes", _ATTRIBUTE, repeated=True)}
_RESOURCE_METRICS = {1: _Field("resource", _RESOURCE), 2: _Field("scopeMetrics", _SCOPE, repeated=True)}
_REQUEST = {1: _Field("resourceMetrics", _RESOURCE_METRICS, repeated=True)}


def looks_like(head: bytes, name: str) -> bool:
    """The head is a resource_metrics whose first field is a resource or a scope. Nothing else marks this format, so
    the name must say it too.
    """
    if not name.lower().endswith((".otlp", ".pb", ".binpb", ".proto")) or not head.startswith(FIRST_TAG):
        return False
    try:
        _, at = _varint(head, 1, len(head))
    except Unreadable:
        return False
    return head[at : at + 1] in {b"\x0a", b"\x12"}


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows of gpu at the times of the data points. Raises Unreadable, with the byte, for what is no export request."""
    payload.bounded(data, surroundings, NAME)
    if len(data) > DOCUMENT_BYTES_MAXIMUM:
        raise Unreadable(f"{NAME}: a message of {len(data)} bytes, the limit is {DOCUMENT_BYTES_MAXIMUM}")
    tree = _message(data, 0, len(data), _REQUEST)
    if not tree:
        raise Unreadable(f"{NAME}: no resource_metrics in {len(data)} bytes")
    return rows(tree, surroundings, NAME)


def _message(data: bytes, at: int, end: int, fields: dict[int, _Field]) -> dict[str, Any]:
    """The message between two bytes as a dictionary with the names of OTLP/JSON."""
    found: dict[str, Any] = {}
    for number, wire_type, value, start in _fields(data, at, end):
        known = fields.get(number)
        if known is None:
            continue
        if isinstance(known.kind, dict):
            if wire_type != LENGTH:
                raise Unreadable(f"{NAME}: byte {start}: {known.name} is no message")
            inner = _message(data, start, start + value, known.kind)
            if known.repeated:
                found.setdefault(known.name, []).append(inner)
            else:
                found[known.name] = inner
        else:
            found[known.name] = _scalar(data, known.kind, wire_type, value, start)
    return found


def _scalar(data: bytes, kind: str, wire_type: int, value: int, start: int) -> Any:
    wanted = {"text": LENGTH, "uint": VARINT, "sint": VARINT}.get(kind, FIXED64)
    if wire_type != wanted:
        raise Unreadable(f"{NAME}: byte {start}: wire type {wire_type} where {wanted} is wanted")
    if kind == "text":
        return data[start : start + value].decode("utf-8", errors="replace")
    if kind == "double":
        return struct.unpack("<d", value.to_bytes(8, "little"))[0]
    if kind in {"sint", "sfixed"}:
        return value - (1 << 64) if value >> 63 else value
    return value


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(field, wire type, value or length, place of the content) of each field between two bytes."""
    while at < end:
        tag, at = _varint(data, at, end)
        number, wire_type = tag >> 3, tag & 7
        start = at
        if wire_type == VARINT:
            value, at = _varint(data, at, end)
        elif wire_type in {FIXED64, FIXED32}:
            at += 8 if wire_type == FIXED64 else 4
            value = int.from_bytes(data[start:at], "little")
        elif wire_type == LENGTH:
            value, start = _varint(data, at, end)
            at = start + value
        else:
            raise Unreadable(f"{NAME}: byte {start}: wire type {wire_type}")
        if at > end or number == 0:
            raise Unreadable(f"{NAME}: byte {start}: truncated, or no protobuf")
        yield number, wire_type, value, start


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise Unreadable(f"{NAME}: byte {at}: truncated in a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise Unreadable(f"{NAME}: byte {at}: a number of more than ten bytes")
