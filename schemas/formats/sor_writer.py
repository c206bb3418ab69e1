"""otdr_trace and otdr_event to a minimal SR-4731 version 2 file, the inverse of sor.decode.

What the file can hold is coarser than the tables: distances are steps of 0.1 ns (about 2 cm), levels and losses of
0.001 dB, times of 1 s.
"""

import binascii
import struct
from typing import Any

import polars as pl

from schemas.formats.sor import EVENT_TIME_SECONDS, SPACING_TIME_SECONDS, SPEED_OF_LIGHT_METERS_PER_SECOND

VERSION = 200
SAMPLE_MAXIMUM = 65534  # 65535 says "below noise"


def encode(trace: pl.DataFrame, events: pl.DataFrame) -> bytes:
    """The bytes of one shot. trace: one row of otdr_trace; events: its otdr_event rows, in order.

    Raises ValueError when trace has not one row or no group index, sample spacing or samples.
    """
    if trace.height != 1:
        raise ValueError(f"a .sor file holds one trace, not {trace.height}")
    row = trace.row(0, named=True)
    if row.get("group_index") is None or row.get("sample_spacing_meters") is None or not row.get("samples_db"):
        raise ValueError("a .sor file needs group_index, sample_spacing_meters and samples_db")
    bodies = [
        ("GenParams", _general(row)),
        ("SupParams", b"hotspare\0" + b" \0" * 6),
        ("FxdParams", _fixed(row)),
        ("KeyEvents", _events(row, events)),
        ("DataPts", _samples(row["samples_db"])),
    ]
    blocks = [(name, name.encode() + b"\0" + body) for name, body in bodies]
    entries = b"".join(
        name.encode() + b"\0" + struct.pack("<HI", VERSION, length)
        for name, length in [*((name, len(block)) for name, block in blocks), ("Cksum", 8)]
    )
    head = b"Map\0" + struct.pack("<HIH", VERSION, 12 + len(entries), len(blocks) + 2) + entries
    content = head + b"".join(block for _, block in blocks) + b"Cksum\0"
    return content + struct.pack("<H", binascii.crc_hqx(content, 0xFFFF))


def _text(value: str | None) -> bytes:
    return (value or " ").replace("\0", " ").encode() + b"\0"


def _ticks(meters: float, index: float) -> int:
    """Time of travel in 0.1 ns."""
    return round(meters * index / SPEED_OF_LIGHT_METERS_PER_SECOND / EVENT_TIME_SECONDS)


def _general(row: dict[str, Any]) -> bytes:
    wavelength = round(row.get("wavelength_nanometers") or 0)
    return (
        b"EN" + _text(row["cable"]) + _text(row["fiber"]) + struct.pack("<HH", 652, wavelength)
        + _text(None) * 3 + b"BC" + struct.pack("<ii", 0, 0) + _text(None) * 2
    )  # fmt: skip


def _fixed(row: dict[str, Any]) -> bytes:
    index = row["group_index"]
    samples = row["samples_db"]
    spacing = row["sample_spacing_meters"] * index / SPEED_OF_LIGHT_METERS_PER_SECOND / SPACING_TIME_SECONDS
    offset = _ticks((row.get("first_sample_meters") or 0.0), index)
    time = row["time"]
    return (
        struct.pack("<I", int(time.timestamp())) + b"mt"
        + struct.pack("<Hii", round((row.get("wavelength_nanometers") or 0) * 10), offset, 0)
        + struct.pack("<HH", 1, round(row.get("pulse_nanoseconds") or 0))
        + struct.pack("<III", round(spacing), len(samples), round(index * 100_000))
        + struct.pack("<HIHIii", 800, 1, 0, 0, 0, 0) + struct.pack("<HhHHHH", 0, 1000, 0, 0, 65535, 0)
        + b"ST" + struct.pack("<iiii", 0, 0, 0, 0)
    )  # fmt: skip


def _events(row: dict[str, Any], events: pl.DataFrame) -> bytes:
    index = row["group_index"]
    parts = [struct.pack("<H", events.height)]
    for event in events.iter_rows(named=True):
        code = (event["code"] or "0F9999LS").encode("latin-1", errors="replace")[:8].ljust(8)
        parts.append(
            struct.pack(
                "<Hihhi", event["number"], _ticks(event["distance_meters"] or 0.0, index), 0,
                round((event["loss_db"] or 0.0) * 1000), round((event["reflectance_db"] or 0.0) * 1000),
            ) + code + struct.pack("<5i", 0, 0, 0, 0, 0) + _text(None)
        )  # fmt: skip
    end = _ticks((row.get("length_meters") or 0.0), index)
    loss = round((row.get("total_loss_db") or 0.0) * 1000)
    orl = min(round((row.get("return_loss_db") or 0.0) * 1000), 65535)
    return b"".join(parts) + struct.pack("<iiiHii", loss, 0, end, orl, 0, end)


def _samples(samples: list[float]) -> bytes:
    top = max(samples)
    raw = [min(round((top - level) * 1000), SAMPLE_MAXIMUM) for level in samples]
    return struct.pack("<IHIH", len(raw), 1, len(raw), 1000) + struct.pack(f"<{len(raw)}H", *raw)
