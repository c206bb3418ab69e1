from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.admission import admit
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.formats.kernel_log import decode, looks_like
from schemas.tables import TABLE_BY_NAME

CORPUS = Path(__file__).parents[4] / "shared/corpus/gpu"
RECEIVED = datetime(2026, 3, 1, 12, tzinfo=UTC)
SURROUNDINGS = Surroundings(node="n00012", received_at=RECEIVED)
XID = "NVRM: Xid (PCI:0000:9B:00): 48, pid=7, name=python3, DBE"

corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")


def decoded(*lines: str, surroundings: Surroundings = SURROUNDINGS) -> Decoded:
    return decode("\n".join(lines).encode(), surroundings)


def events(*lines: str, surroundings: Surroundings = SURROUNDINGS) -> pl.DataFrame:
    frame = decoded(*lines, surroundings=surroundings).tables["gpu_event"]
    assert admit(TABLE_BY_NAME["gpu_event"], frame).quarantined.is_empty()
    return frame


@pytest.mark.parametrize(
    ("head", "time"),
    [
        ("[Sun Feb 23 16:24:18 2025] ", datetime(2025, 2, 23, 16, 24, 18, tzinfo=UTC)),
        ("2025-02-23T16:24:18+0100 n00012 kernel: ", datetime(2025, 2, 23, 15, 24, 18, tzinfo=UTC)),
        ("2025-02-23T16:24:18.250000Z n00012 kernel: ", datetime(2025, 2, 23, 16, 24, 18, 250000, tzinfo=UTC)),
        ("2025-02-23T16:24:18,250000-01:30 ", datetime(2025, 2, 23, 17, 54, 18, 250000, tzinfo=UTC)),
        ("Feb 23 16:24:18 n00012 kernel: [  111.111111] ", datetime(2026, 2, 23, 16, 24, 18, tzinfo=UTC)),
        ("Aug 17 06:18:01 n00012 kernel: ", datetime(2025, 8, 17, 6, 18, 1, tzinfo=UTC)),
        ("<4>Feb  3 06:18:01 n00012 kernel: ", datetime(2026, 2, 3, 6, 18, 1, tzinfo=UTC)),
        ("Feb 29 06:18:01 n00012 kernel: ", datetime(2024, 2, 29, 6, 18, 1, tzinfo=UTC)),
        ("", RECEIVED),
    ],
)
def test_stamps_of_every_style_become_utc(head: str, time: datetime) -> None:
    frame = events(head + XID)
    assert [(time, "n00012", "0000:9b:00", "xid", 48)] == frame.select("time", "node", "pci", "kind", "code").rows()


@pytest.mark.parametrize("head", ["[Sun Feb 23 16:24:18 2025] ", "2025-02-23T16:24:18 n kernel: "])
def test_local_stamps_lose_the_offset_of_their_source(head: str) -> None:
    local = Surroundings(received_at=RECEIVED, utc_offset_minutes=120)
    assert [datetime(2025, 2, 23, 14, 24, 18, tzinfo=UTC)] == events(head + XID, surroundings=local)["time"].to_list()


@pytest.mark.parametrize("stamp", ["[{:.6f}] ", "<4>[{:.6f}] "])
def test_seconds_since_boot_end_at_the_time_of_receipt_and_keep_their_differences(stamp: str) -> None:
    frame = events(stamp.format(100) + XID, stamp.format(130) + XID, stamp.format(190.5) + "usb 1-1: new device")
    assert [RECEIVED - timedelta(seconds=90.5), RECEIVED - timedelta(seconds=60.5)] == frame["time"].to_list()


def test_kmsg_counts_microseconds_since_boot() -> None:
    frame = events(f"6,3964,1000000,-;{XID}", "6,3965,3500000,-;usb")
    assert [RECEIVED - timedelta(seconds=2.5)] == frame["time"].to_list()


def test_lines_before_a_reboot_are_no_later_than_the_boot() -> None:
    frame = events(f"[5000.0] {XID}", f"[  10.0] {XID}")
    assert [RECEIVED - timedelta(seconds=10), RECEIVED] == frame["time"].to_list()


def test_a_syslog_of_many_hosts_keeps_them_apart() -> None:
    lines = [f"Feb 23 16:24:18 {host} kernel: {XID}" for host in ("n1", "n2")]
    assert events(*lines)["node"].to_list() == ["n1", "n2"]


@pytest.mark.parametrize(
    ("message", "pci", "code"),
    [
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "0000:03:00", 14),
        ("NVRM: Xid : 32, pid=2280636", None, 32),
        (
            "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "0000:05:00",
            79,
        ),
        ("NVRM: Xid (PCI:0000:41:00 GPU-I:05): 31, pid=1", "0000:41:00", 31),
        ("NVRM: Xid (PCI:00000000:9B:00.0): 63, Row Remapper", "0000:9b:00", 63),
        ("NVRM: Xid (PCI:0018:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x0)", "0018:01:00", 149),
    ],
)
def test_xid_grammars(message: str, pci: str | None, code: int) -> None:
    assert [(pci, code, message)] == events(message).select("pci", "code", "message").rows()


def test_xid_154_carries_what_the_driver_asks_for() -> None:
    line = "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    assert events(line)["recovery_action"].to_list() == ["GPU Reset Required"]


def test_a_secondary_xid_keeps_its_cause_in_the_message() -> None:
    line = "NVRM: Xid (PCI:0000:97:00): 45, pid=1, name=python3, Ch 00000003 caused by previous Xid 145"
    assert events(line)["message"][0].endswith("caused by previous Xid 145")


def test_an_sxid_of_three_lines_is_one_event() -> None:
    head = "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034,"
    frame = events(
        f"{head} Fatal, Link 30 LTSSM Fault Up", f"{head} Severity 1 Engine instance 30", f"{head} Data {{0x50610002}}"
    )
    assert frame.select("kind", "code", "pci").rows() == [("sxid", 20034, "0000:00:00")]
    assert "Data {0x50610002}" in frame["message"][0]


def test_details_of_an_sxid_whose_head_is_missing_are_a_reject() -> None:
    answer = decoded("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Severity 1 Engine instance 30")
    assert (answer.tables, answer.rejects.height) == ({}, 1)


def test_a_gpu_that_falls_off_the_bus_without_an_xid_is_one_event() -> None:
    frame = events(
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    assert frame.select("kind", "code", "pci").rows() == [("fallen_off_bus", 79, "0000:b3:00")]


def test_words_that_repeat_an_xid_79_are_no_second_loss() -> None:
    frame = events(
        "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
        "NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.",
        "NVRM: GPU 0000:42:00.0: GPU has fallen off the bus.",
    )
    assert frame.select("kind", "pci").rows() == [("xid", "0000:41:00"), ("fallen_off_bus", "0000:42:00")]


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.48",
        "NVRM: Possible bad register read: addr: 0x1",
        "usb 1-1",
    ],
)
def test_noise_is_neither_event_nor_reject(line: str) -> None:
    answer = decoded(line)
    assert (answer.tables, answer.rejects.height) == ({}, 0)


@pytest.mark.parametrize(
    "line",
    ["NVRM: Xid error: xyz, invalid data", "NVRM: Xid (invalid): some error", "NVRM: Xid (0000:03:00): 9999999999, x"],
)
def test_a_line_that_says_xid_and_cannot_be_read_is_a_reject_with_its_place(line: str) -> None:
    answer = decoded(XID, line)
    assert (answer.tables["gpu_event"].height, answer.rejects["offset"].to_list()) == (1, [2])


def test_damaged_bytes_cost_nothing_else() -> None:
    answer = decode(b"\0\0\xff\xfe junk\n" + XID.encode() + b" \xff\0tail\n" + XID.encode(), SURROUNDINGS)
    assert answer.tables["gpu_event"]["code"].to_list() == [48, 48]


@pytest.mark.parametrize("data", [b"", b"\n \n", b"\0\0"])
def test_an_empty_log_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable, match="kernel log: empty"):
        decode(data, SURROUNDINGS)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.builds(
            lambda head, body, cut: (head + body)[:cut],
            st.sampled_from(
                [
                    "",
                    "[1.5] ",
                    "[99999999999.9] ",
                    "6,1,2,-;",
                    "Feb 30 25:61:61 h kernel: ",
                    "9999-12-31T23:59:59-2359 ",
                    "0001-01-01T00:00:00+2359 ",
                    "[Sun Feb 31 16:24:18 0000] ",
                ]
            )
            | st.text(max_size=10),
            st.sampled_from(
                [
                    XID,
                    "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 1, Data {",
                    "NVRM: The NVIDIA GPU 0000:b3:00.0",
                    "NVRM: fallen off the bus",
                ]
            )
            | st.text(max_size=20),
            st.integers(0, 90),
        ),
        max_size=6,
    )
)
def test_no_log_makes_it_fail(lines: list[str]) -> None:
    data = "\n".join(lines).encode()
    looks_like(data, "kern.log")
    try:
        answer = decode(data, SURROUNDINGS)
    except Unreadable:
        return
    for frame in answer.tables.values():
        assert admit(TABLE_BY_NAME["gpu_event"], frame).quarantined.is_empty()


@corpus
def test_a_real_gsp_timeout_storm_has_five_xid_119() -> None:
    answer = decode((CORPUS / "dmesg_xid_119.log").read_bytes(), SURROUNDINGS)
    frame = answer.tables["gpu_event"]
    assert (frame["code"].to_list(), answer.rejects.height) == ([119] * 5, 0)
    assert datetime(2025, 2, 23, 16, 30, 13, tzinfo=UTC) == frame["time"][-1]


@corpus
def test_real_lines_give_one_event_each_but_for_the_invalid_one() -> None:
    data = (CORPUS / "kernel_xid_lines.txt").read_bytes()
    answer = decode(data, SURROUNDINGS)
    assert (len(data.splitlines()) - 1, 1) == (answer.tables["gpu_event"].height, answer.rejects.height)
    assert {14, 13, 31, 32, 43, 45, 74, 79, 94, 119, 144, 145, 146, 148, 149, 154, 99999} == set(
        answer.tables["gpu_event"]["code"]
    )
