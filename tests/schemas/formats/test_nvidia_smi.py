from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.admission import admit
from schemas.formats import nvidia_smi_capture, nvidia_smi_csv, nvidia_smi_text, nvidia_smi_xml
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

RECEIVED = datetime(2026, 8, 1, tzinfo=UTC)
SURROUNDINGS = Surroundings(node="n00012", received_at=RECEIVED)
MIB = 2**20
RULE = "#" * 80 + "\n"
LOST = "Unable to determine the device handle for"

HEADING = (
    "timestamp, index, uuid, temperature.gpu, temperature.memory, power.draw [W], memory.used [MiB], "
    "clocks_event_reasons.active, remapped_rows.pending, remapped_rows.failure, ecc.errors.corrected.volatile.total"
)
ROW = "2026/07/14 08:12:53.353, 3, GPU-a, 59, 54, 631.95 W, 19818 MiB, 0x0000000000000080, No, Yes, 2"
XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <timestamp>Fri Aug  4 11:44:30 2023</timestamp>
  <attached_gpus>{attached}</attached_gpus>
  <gpu id="00000000:01:00.0">
    <uuid>GPU-a</uuid><minor_number>5</minor_number>
    <clocks_throttle_reasons>
      <clocks_throttle_reason_hw_thermal_slowdown>Active</clocks_throttle_reason_hw_thermal_slowdown>
      <clocks_throttle_reason_hw_slowdown>Active</clocks_throttle_reason_hw_slowdown>
    </clocks_throttle_reasons>
    <temperature><gpu_temp>88 C</gpu_temp><memory_temp>N/A</memory_temp></temperature>
    <ecc_errors><volatile><sram_correctable>1</sram_correctable><dram_correctable>2</dram_correctable></volatile></ecc_errors>
    <power_readings><power_draw>26.78 W</power_draw></power_readings>
  </gpu>
</nvidia_smi_log>
"""
TEXT = """
==============NVSMI LOG==============

Timestamp                                 : Tue Jul 14 08:12:53 2026
Attached GPUs                             : 1
GPU 00000000:00:09.0
    GPU UUID                              : GPU-a
    PCI
        Replays Since Reset               : 9
    Clocks Event Reasons
        HW Slowdown                       : Active
            HW Power Brake Slowdown       : Active
    Temperature
        GPU Current Temp                  : 59 C
    ECC Errors
        Volatile
            SRAM Correctable              : 1
            DRAM Correctable              : 2
"""

CAPTURE = f"{RULE}# load :: query-gpu (csv)\n{RULE}{HEADING}\n{ROW}\n{RULE}# x :: query (-q)\n{RULE}{TEXT}"


def csv(*lines: str, surroundings: Surroundings = SURROUNDINGS) -> Decoded:
    return nvidia_smi_csv.decode("\n".join(lines).encode(), surroundings)


def gpu(decoded: Decoded) -> pl.DataFrame:
    """The gpu rows, all of which the door lets in."""
    admitted = admit(TABLE_BY_NAME["gpu"], decoded.tables["gpu"])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


def test_a_row_with_units_becomes_a_row_in_the_tables_units() -> None:
    row = gpu(csv(HEADING, ROW)).row(0, named=True)
    assert (datetime(2026, 7, 14, 8, 12, 53, 353000, tzinfo=UTC), "n00012", 3, "GPU-a") == (
        row["time"],
        row["node"],
        row["gpu"],
        row["uuid"],
    )
    assert (
        row["temperature_celsius"], row["memory_temperature_celsius"], row["power_watts"], row["memory_used_bytes"],
    ) == (59, 54, 631.95, 19818 * MIB)  # fmt: skip
    assert (
        row["clocks_event_reasons"], row["row_remap_pending"], row["row_remap_failure"], row["ecc_correctable_total"],
    ) == (0x80, False, True, 2)  # fmt: skip


def test_nounits_takes_the_unit_of_the_heading() -> None:
    assert gpu(csv("index, memory.used [MiB]", "0, 19818"))["memory_used_bytes"].to_list() == [19818 * MIB]


def test_the_clock_of_the_source_is_local() -> None:
    local = Surroundings(utc_offset_minutes=-420)
    assert [datetime(2026, 7, 14, 15, 12, 53, 353000, tzinfo=UTC)] == gpu(csv(HEADING, ROW, surroundings=local))[
        "time"
    ].to_list()


def test_names_of_before_driver_535_mean_the_same() -> None:
    assert gpu(csv("index, clocks_throttle_reasons.active", "0, 0x0000000000000004"))[
        "clocks_event_reasons"
    ].to_list() == [4]


def test_one_column_per_reason_makes_the_same_mask() -> None:
    reasons = ("gpu_idle", "hw_power_brake_slowdown", "hw_slowdown")
    heading = ", ".join(["index", *(f"clocks_event_reasons.{reason}" for reason in reasons)])
    assert gpu(csv(heading, "0, Not Active, Active, Active"))["clocks_event_reasons"].to_list() == [0x88]


@pytest.mark.parametrize(
    "cell",
    ["[N/A]", "N/A", "", "[Not Supported]", "[Requested functionality has been deprecated]", "[Function Not Found]"],
)
def test_a_reading_that_the_gpu_does_not_have_is_null_and_no_fault(cell: str) -> None:
    decoded = csv("index, temperature.memory", f"0, {cell}")
    assert (gpu(decoded)["memory_temperature_celsius"].to_list(), decoded.rejects.height) == ([None], 0)


@pytest.mark.parametrize(
    ("cell", "rule"),
    [
        ("[Unknown Error]", "temperature.gpu|failed"),
        ("ERR!", "temperature.gpu|failed"),
        ("[GPU is lost]", "temperature.gpu|failed"),
        ("hot", "temperature_celsius|type"),
        ("644245923", "temperature_celsius|range"),
    ],
)
def test_a_reading_that_failed_is_null_and_counted(cell: str, rule: str) -> None:
    decoded = csv("index, temperature.gpu", "0, 50", f"1, {cell}")
    assert gpu(decoded)["temperature_celsius"].to_list() == [50, None]
    assert [rule] == decoded.rejects["rule"].to_list()


@pytest.mark.parametrize(
    ("line", "slot", "pci"),
    [
        ("Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error", None, "0000:0b:00"),
        ("Unable to determine the device handle for GPU0000:08:00.0: Unknown Error", None, "0000:08:00"),
        ("Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error", 1, "0000:34:00"),
    ],
)
def test_a_gpu_that_cannot_be_opened_is_an_event_and_a_reject(line: str, slot: int | None, pci: str) -> None:
    decoded = csv(line, HEADING, ROW)
    event = admit(TABLE_BY_NAME["gpu_event"], decoded.tables["gpu_event"]).rows
    assert [("fallen_off_bus", slot, pci)] == event.select("kind", "gpu", "pci").rows()
    assert gpu(decoded)["time"].to_list() == event["time"].to_list()
    assert decoded.rejects["rule"].to_list() == ["gpu|lost"]


def test_slots_without_an_index_keep_the_place_of_a_lost_gpu() -> None:
    lost = "Unable to determine the device handle for GPU 0000:08:00.0: Unknown Error"
    decoded = csv(lost, "pci.bus_id, temperature.gpu", "00000000:01:00.0, 40", "00000000:0B:00.0, 41")
    assert gpu(decoded)["gpu"].to_list() == [0, 2]


def test_rows_of_unknown_slot_are_rejects_when_a_gpu_is_lost() -> None:
    decoded = csv("Unable to determine the device handle for GPU 0000:08:00.0: x", "temperature.gpu", "40")
    assert ("gpu" in decoded.tables, ["gpu|lost", "gpu|slot"]) == (False, decoded.rejects["rule"].to_list())


def test_rows_with_another_number_of_cells_and_bad_times_cost_only_themselves() -> None:
    decoded = csv(HEADING, "1, 2", ROW.replace("2026/07/14", "2026/13/14"), ROW)
    assert (gpu(decoded).height, decoded.rejects["rule"].to_list()) == (1, ["row|cells", "time|type"])


def test_columns_that_were_not_queried_are_missing() -> None:
    missing = csv("index, temperature.gpu", "0, 50").missing
    assert "power_watts" in missing
    assert "temperature_celsius" not in missing


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"59, 631 W\n", b"timestamp, gpu_name, pid\n1, 2, 3", b"\0\1index", b"No devices were found"],
)
def test_what_has_no_heading_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable, match="nvidia-smi CSV"):
        nvidia_smi_csv.decode(data, SURROUNDINGS)


def test_a_shell_that_writes_utf_16_is_understood() -> None:
    assert gpu(nvidia_smi_csv.decode(f"{HEADING}\r\n{ROW}\r\n".encode("utf-16"), SURROUNDINGS)).height == 1


def test_xml_of_an_old_dtd() -> None:
    row = gpu(nvidia_smi_xml.decode(XML.format(attached=1).encode(), SURROUNDINGS)).row(0, named=True)
    assert (datetime(2023, 8, 4, 11, 44, 30, tzinfo=UTC), 0, 88, None, 26.78, 3, 0x48) == (
        row["time"], row["gpu"], row["temperature_celsius"], row["memory_temperature_celsius"], row["power_watts"],
        row["ecc_correctable_total"], row["clocks_event_reasons"],
    )  # fmt: skip


def test_one_gpu_of_several_is_placed_by_its_minor_number() -> None:
    assert gpu(nvidia_smi_xml.decode(XML.format(attached=8).encode(), SURROUNDINGS))["gpu"].to_list() == [5]


def test_truncated_xml_names_the_line() -> None:
    whole = XML.format(attached=1)
    with pytest.raises(Unreadable, match=r"nvidia-smi XML: line \d+: "):
        nvidia_smi_xml.decode(whole[: len(whole) // 2].encode(), SURROUNDINGS)


@pytest.mark.parametrize(
    "xml",
    [
        '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><nvidia_smi_log>&c;</nvidia_smi_log>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><nvidia_smi_log>&b;</nvidia_smi_log>',
        "<nvidia_smi_log>" + "<a>" * 10_000,
        "<rss/>",
        "<nvidia_smi_log/>",
    ],
)
def test_hostile_or_foreign_xml_is_unreadable(xml: str) -> None:
    with pytest.raises(Unreadable, match="nvidia-smi XML"):
        nvidia_smi_xml.decode(xml.encode(), SURROUNDINGS)


def test_the_text_form() -> None:
    row = gpu(nvidia_smi_text.decode(TEXT.encode(), SURROUNDINGS)).row(0, named=True)
    assert (datetime(2026, 7, 14, 8, 12, 53, tzinfo=UTC), 0, 59, 9, 3, 0x88) == (
        row["time"], row["gpu"], row["temperature_celsius"], row["pcie_replay_total"], row["ecc_correctable_total"],
        row["clocks_event_reasons"],
    )  # fmt: skip


def test_a_text_without_gpus_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="NVSMI LOG"):
        nvidia_smi_text.decode(b"==NVSMI LOG==\nAttached GPUs : 0\n", SURROUNDINGS)


@pytest.mark.parametrize(
    ("decoder", "sample"),
    [
        (nvidia_smi_csv, f"{HEADING}\n{ROW}\n"),
        (nvidia_smi_csv, f"{LOST} GPU 0000:08:00.0\npci.bus_id, {HEADING}\n0000:01:00.0, {ROW}"),
        (nvidia_smi_text, TEXT),
        (nvidia_smi_xml, XML.format(attached=2)),
        (nvidia_smi_capture, CAPTURE),
    ],
)  # fmt: skip
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damage_gives_rows_rejects_or_unreadable_and_nothing_else(decoder, sample: str, data: st.DataObject) -> None:
    damaged = bytearray(sample.encode())
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=4)):
        damaged[at : at + data.draw(st.integers(0, 6))] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"N/A", b"9" * 25, b",,", b" : ", b"0x", b"\n", "Ω".encode()])
        )
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    decoder.looks_like(cut, "x.txt")
    try:
        decoded = decoder.decode(cut, SURROUNDINGS)
    except Unreadable as error:
        reason = str(error)
        assert "\n" not in reason
        return
    for name, frame in decoded.tables.items():
        assert admit(TABLE_BY_NAME[name], frame).quarantined.is_empty()
