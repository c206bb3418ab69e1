"""The .sor reader and writer. Values of real files come from the corpus' expected.json, made by another reader."""

import json
import struct
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.admission import admit
from schemas.columns import UTC_MICROSECONDS
from schemas.formats import sor
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.formats.sor_writer import encode
from schemas.tables import TABLE_BY_NAME

CORPUS = Path(__file__).parents[4] / "shared/corpus/otdr"
EXPECTED = json.loads((CORPUS / "expected.json").read_text()) if CORPUS.is_dir() else {}
LIMITS = Surroundings()
STEP_METERS = 1e-10 * 299_792_458 / 1.4677  # what 0.1 ns are in this fibre

corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")

TRACE = pl.DataFrame(
    {
        "time": [datetime(2026, 7, 14, 8, 12, 53, tzinfo=UTC)],
        "cable": ["leaf-017:33"],
        "fiber": ["4"],
        "direction": ["AB"],
        "wavelength_nanometers": [1310.0],
        "pulse_nanoseconds": [5.0],
        "group_index": [1.4677],
        "length_meters": [60.0],
        "total_loss_db": [0.42],
        "return_loss_db": [38.5],
        "first_sample_meters": [-2.0],
        "sample_spacing_meters": [0.08],
        "samples_db": [[0.0, -0.011, 12.4, -0.5, -9.0]],
    },
    schema_overrides={"time": UTC_MICROSECONDS},
)
EVENTS = pl.DataFrame(
    {
        "number": [1, 2, 3],
        "distance_meters": [-1.5, 30.0, 60.0],
        "loss_db": [0.2, -0.15, 0.0],
        "reflectance_db": [-52.5, None, -14.7],
        "code": ["1F9999LS", "0F9999LS", "2E9999LS"],
    }
)
SAMPLE = encode(TRACE, EVENTS)


def shot(data: bytes = SAMPLE) -> Decoded:
    return sor.decode(data, LIMITS, cable="leaf-017:33", direction="AB")


def rows(decoded: Decoded, name: str) -> pl.DataFrame:
    admitted = admit(TABLE_BY_NAME[name], decoded.tables[name])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


def test_what_is_written_is_read() -> None:
    trace = rows(shot(), "otdr_trace")
    for name in (
        "time",
        "cable",
        "fiber",
        "direction",
        "wavelength_nanometers",
        "pulse_nanoseconds",
        "group_index",
        "total_loss_db",
        "return_loss_db",
    ):
        assert TRACE[name][0] == trace[name][0], name
    assert TRACE["length_meters"][0] == pytest.approx(trace["length_meters"][0], abs=STEP_METERS)
    assert TRACE["first_sample_meters"][0] == pytest.approx(trace["first_sample_meters"][0], abs=STEP_METERS)
    assert TRACE["sample_spacing_meters"][0] == pytest.approx(trace["sample_spacing_meters"][0], rel=1e-4)
    assert TRACE["samples_db"][0].to_list() == pytest.approx(trace["samples_db"][0].to_list(), abs=1e-3)


def test_written_events_are_read_with_their_codes_gainers_and_unmeasured_reflectances() -> None:
    events = rows(shot(), "otdr_event")
    assert EVENTS["number"].to_list() == events["number"].to_list()
    assert EVENTS["code"].to_list() == events["code"].to_list()
    assert EVENTS["loss_db"].to_list() == events["loss_db"].to_list()
    assert EVENTS["reflectance_db"].to_list() == events["reflectance_db"].to_list()
    assert EVENTS["distance_meters"].to_list() == pytest.approx(events["distance_meters"].to_list(), abs=STEP_METERS)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-60, 5, allow_nan=False), min_size=1, max_size=200),
    st.lists(st.tuples(st.floats(-500, 5e4), st.floats(-30, 30), st.none() | st.floats(-80, -1)), max_size=20),
    st.floats(1.44, 1.5),
)
def test_any_trace_survives_within_the_steps_of_the_format(levels, events, index) -> None:
    trace = TRACE.with_columns(samples_db=pl.Series([levels]), group_index=pl.lit(index))
    table = pl.DataFrame(
        [
            {"number": at, "distance_meters": d, "loss_db": loss, "reflectance_db": r, "code": "0F9999LS"}
            for at, (d, loss, r) in enumerate(events, 1)
        ],
        schema=EVENTS.schema,
    )
    decoded = sor.decode(encode(trace, table), LIMITS, cable="c")
    got = decoded.tables["otdr_trace"]["samples_db"][0].to_list()
    assert [level - levels[0] for level in levels] == pytest.approx(got, abs=1.01e-3)
    if events:
        assert [loss for _, loss, _ in events] == pytest.approx(
            decoded.tables["otdr_event"]["loss_db"].to_list(), abs=1e-3
        )
        assert [d for d, *_ in events] == pytest.approx(
            decoded.tables["otdr_event"]["distance_meters"].to_list(), rel=1e-5, abs=0.03
        )


@pytest.mark.parametrize(
    "broken",
    [
        TRACE.clear(),
        pl.concat([TRACE, TRACE]),
        TRACE.with_columns(group_index=None),
        TRACE.with_columns(samples_db=None),
    ],
)
def test_what_is_no_single_shot_is_not_written(broken: pl.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"\.sor file"):
        encode(broken, EVENTS)


def test_the_written_checksum_is_right_and_a_wrong_one_only_noted() -> None:
    assert sor.read(SAMPLE, LIMITS).checksum_matches is True
    wrong = SAMPLE[:-2] + struct.pack("<H", struct.unpack("<H", SAMPLE[-2:])[0] ^ 1)
    assert sor.read(wrong, LIMITS).checksum_matches is False
    assert rows(shot(wrong), "otdr_event").height == 3


def test_without_a_cable_from_outside_the_files_own_id_is_taken() -> None:
    assert sor.decode(SAMPLE, LIMITS).tables["otdr_trace"]["cable"].to_list() == ["leaf-017:33"]


def test_a_span_that_runs_out_of_range_has_no_length() -> None:
    endless = encode(TRACE, EVENTS.with_columns(code=pl.lit("1O9999LS")))
    assert rows(shot(endless), "otdr_trace")["length_meters"].to_list() == [None]


def test_a_number_of_points_that_contradicts_the_data_is_noted() -> None:
    at = SAMPLE.rindex(b"FxdParams\0") + 10 + 4 + 2 + 2 + 4 + 4 + 2 + 2 + 4
    assert struct.unpack_from("<I", SAMPLE, at) == (5,)
    answer = shot(SAMPLE[:at] + struct.pack("<I", 6) + SAMPLE[at + 4 :])
    assert (answer.rejects["rule"].to_list(), len(answer.tables["otdr_trace"]["samples_db"][0])) == (
        ["otdr_trace|points"],
        5,
    )


@pytest.mark.parametrize("data", [b"", b"hello world", b"\x64\x00" * 20, b"Map\0", b"\0" * 100])
def test_what_is_no_sor_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable, match="SOR"):
        sor.read(data, LIMITS)


@pytest.mark.parametrize("length", range(1, len(SAMPLE), 7))
def test_every_truncation_names_a_block(length: int) -> None:
    with pytest.raises(Unreadable, match=r"block (Map|GenParams|SupParams|FxdParams|KeyEvents|DataPts|Cksum)"):
        sor.read(SAMPLE[:length], LIMITS)


def test_a_block_named_in_two_lines_is_told_in_one() -> None:
    # As a fuzzer found it: the map names a block "Sup", line feed, "Params", of more bytes than the file has.
    at = SAMPLE.index(b"SupParams\0")
    long = struct.pack("<I", 7_566_598)
    named = SAMPLE[:at] + b"Sup\nParam\0" + SAMPLE[at + 10 : at + 12] + long + SAMPLE[at + 16 :]
    with pytest.raises(Unreadable, match=r"^SOR: block Sup\?Param ends at byte \d+, the file at byte \d+$"):
        sor.read(named, LIMITS)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_gives_a_trace_or_unreadable_and_nothing_else(data: st.DataObject) -> None:
    damaged = bytearray(SAMPLE)
    for at in data.draw(st.lists(st.integers(0, len(SAMPLE) - 1), max_size=4)):
        damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(SAMPLE)), st.integers(0, len(SAMPLE)))))
    if data.draw(st.booleans()):
        damaged[start:end] = SAMPLE[data.draw(st.integers(0, len(SAMPLE))) :][: data.draw(st.integers(0, 64))]
    try:
        answer = shot(bytes(damaged))
    except Unreadable as error:
        reason = str(error)
        assert "\n" not in reason
        return
    for name, frame in answer.tables.items():
        admit(TABLE_BY_NAME[name], frame)


@corpus
@pytest.mark.parametrize("name", EXPECTED)
def test_real_files_agree_with_another_reader(name: str) -> None:
    expected = EXPECTED[name]
    file = sor.read((CORPUS / name).read_bytes(), LIMITS)
    assert expected["format"] == file.format_version
    assert expected["version"] == f"{file.version / 100:.2f}"
    assert expected["supplier"].strip() == file.supplier
    assert expected["wl"] == f"{file.wavelength_tenths / 10:.1f} nm"
    assert expected["pulse"] == f"{file.pulse_nanoseconds} ns"
    assert expected["rng"] == pytest.approx(file.range_meters / 1000, rel=1e-12)
    assert expected["ior"] == f"{file.group_index:.6f}"
    assert f"({int(file.taken_at.timestamp())} sec)" in expected["date"]
    assert (expected["n"], expected["npts"]) == (file.points, len(file.samples))
    assert [block.strip() for block in expected["blocks"]] == list(file.blocks)
    assert expected["events"] == len(file.events)


@corpus
@pytest.mark.parametrize("name", EXPECTED)
def test_real_summaries_agree_with_another_reader(name: str) -> None:
    file = sor.read((CORPUS / name).read_bytes(), LIMITS)
    assert file.summary is not None
    summary = file.summary
    travels = (summary.loss_start, summary.loss_end, summary.return_loss_start, summary.return_loss_end)
    got = [summary.total_loss_db, summary.return_loss_db, *(file.meters(travel) / 1000 for travel in travels)]
    assert list(EXPECTED[name]["summary"].values()) == pytest.approx(got, abs=1e-6)


@corpus
@pytest.mark.parametrize("name", EXPECTED)
def test_real_files_pass_the_door(name: str) -> None:
    answer = sor.decode((CORPUS / name).read_bytes(), LIMITS, cable="c1", direction="BA")
    assert rows(answer, "otdr_trace").height == 1
    assert EXPECTED[name]["events"] == rows(answer, "otdr_event").height


@corpus
@pytest.mark.parametrize(
    ("name", "event", "meters"),
    [
        # The reflection of this event is where the trace has its peak, when both offsets are taken off.
        ("example4-exfo-ftb4ftbx730c-mfdgainer-1310nm.sor", 9, 3628.64),
        ("example2-exfo-maxtester730c.sor", 3, 3739.23),
        ("example5-exfo-rtu2ftbx735c-sm7r-ea-hrd.sor", 3, 536.70),
        ("demo_ab.sor", 5, 50727.88),
    ],
)
def test_events_and_samples_share_one_zero(name: str, event: int, meters: float) -> None:
    answer = sor.decode((CORPUS / name).read_bytes(), LIMITS, cable="c")
    trace = answer.tables["otdr_trace"].row(0, named=True)
    events = answer.tables["otdr_event"]
    assert events.filter(pl.col("number") == event)["distance_meters"][0] == pytest.approx(meters, abs=0.01)
    levels = trace["samples_db"]
    near = [
        (level, trace["first_sample_meters"] + at * trace["sample_spacing_meters"])
        for at, level in enumerate(levels)
        if abs(trace["first_sample_meters"] + at * trace["sample_spacing_meters"] - meters) < 100
    ]
    pulse = 3 * trace["pulse_nanoseconds"] * 0.1 + 2 * trace["sample_spacing_meters"]
    assert max(near)[1] == pytest.approx(meters, abs=max(pulse, 5))


@corpus
def test_one_manufacturer_stores_nanometers_for_tenths() -> None:
    file = sor.read((CORPUS / "example1-noyes-ofl280.sor").read_bytes(), LIMITS)
    assert (file.wavelength_tenths, file.wavelength_nanometers) == (1550, 1550.0)


@corpus
def test_an_instrument_that_did_not_evaluate_the_span_gives_no_loss() -> None:
    answer = sor.decode((CORPUS / "demo_ab.sor").read_bytes(), LIMITS, cable="c")
    assert answer.tables["otdr_trace"].select("total_loss_db", "return_loss_db").rows() == [(None, None)]
