import io
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.admission import admit
from schemas.columns import UTC_MICROSECONDS
from schemas.formats.decoded import Surroundings, Unreadable
from schemas.formats.wire_arrow import decode_arrow, encode_arrow, looks_like
from schemas.tables import TABLE_BY_NAME

GPU = TABLE_BY_NAME["gpu"]
FRAME = pl.DataFrame(
    {"time": [datetime(2026, 1, 1, tzinfo=UTC)] * 2, "node": ["a", "b"], "gpu": [0, None], "power_watts": [1.5, None]},
    schema_overrides={"time": UTC_MICROSECONDS},
)


def as_file(compression: str) -> bytes:
    buffer = io.BytesIO()
    FRAME.write_ipc(buffer, compression=compression)  # type: ignore[call-overload]  # parametrised
    return buffer.getvalue()


@pytest.mark.parametrize("data", [encode_arrow(FRAME), as_file("uncompressed"), as_file("zstd"), as_file("lz4")])
def test_streams_and_files_are_read(data: bytes) -> None:
    assert looks_like(data[:64], "")
    assert FRAME.equals(decode_arrow(data, GPU).tables["gpu"])


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_any_unit_of_time_becomes_microseconds(unit: str) -> None:
    other = FRAME.with_columns(pl.col("time").dt.cast_time_unit(unit))  # type: ignore[arg-type]  # parametrised
    assert FRAME.equals(decode_arrow(encode_arrow(other), GPU).tables["gpu"])


def test_a_time_that_no_calendar_holds_is_a_reject_of_its_row() -> None:
    wild = FRAME.with_columns(time=pl.Series([1, 2**63 - 1]).cast(UTC_MICROSECONDS))
    decoded = decode_arrow(encode_arrow(wild), GPU)
    assert decoded.tables["gpu"]["node"].to_list() == ["a"]
    assert decoded.rejects["rule"].to_list() == ["time|range"]


def test_a_column_of_a_foreign_type_is_a_reject_and_the_others_stay() -> None:
    decoded = decode_arrow(encode_arrow(FRAME.with_columns(uuid=pl.struct("gpu"))), GPU)
    assert FRAME.equals(decoded.tables["gpu"])
    assert decoded.rejects["rule"].to_list() == ["uuid|type"]


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"\xff\xff\xff\xff", b"hello", encode_arrow(FRAME)[:100]])
def test_what_is_no_arrow_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable, match="Arrow IPC"):
        decode_arrow(data, GPU)


def test_an_oversized_payload_is_refused() -> None:
    with pytest.raises(Unreadable, match="over the limit of 10"):
        decode_arrow(encode_arrow(FRAME), GPU, Surroundings(bytes_maximum=10))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([encode_arrow(FRAME), as_file("uncompressed"), as_file("zstd")]), st.data())
def test_damage_never_fails_in_another_way(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    for at in draw.draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=3)):
        damaged[at] ^= 1 << draw.draw(st.integers(0, 7))
    try:
        decoded = decode_arrow(bytes(damaged[: draw.draw(st.integers(1, len(data)))]), GPU)
    except Unreadable as error:
        reason = str(error)
        assert "\n" not in reason
        return
    for frame in decoded.tables.values():
        admit(GPU, frame)
