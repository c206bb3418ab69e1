from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.topics import FORMATS, HEAD_BYTES, decode_otdr_message, recognise, topic
from schemas.formats.decoded import Surroundings, Unreadable
from schemas.tables import TABLES

CORPUS = Path(__file__).parents[3] / "shared/corpus"
NO_TELEMETRY = {"expected.json"}
INVALID = {"redfish_dell_thermalinvalid.json"}
FILES = [file for room in ("gpu", "otdr", "coolant") for file in sorted((CORPUS / room).glob("*"))]


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("shot.sor", b"Map\0\xc8\0", "SOR"),
        ("shot.sor", b"\x64\0\x7c\0\0\0\x09\0GenParams\0", "SOR"),
        ("a.xml", b'<?xml version="1.0" ?>\n<nvidia_smi_log>', "nvidia-smi XML"),
        ("a.txt", b"#" * 80 + b"\n# x\n" + b"#" * 80 + b"\n# $ nvidia-smi", "nvidia-smi capture"),
        ("a.txt", b"\n==============NVSMI LOG==============\n", "nvidia-smi -q text"),
        ("a.csv", b"index, temperature.gpu\n", "nvidia-smi CSV"),
        ("a.csv", "index, temperature.gpu\n".encode("utf-16"), "nvidia-smi CSV"),
        ("a.txt", b'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 45\n', "dcgm-exporter text"),
        ("a.csv", b"# Format\nDCGM_FI_DEV_SM_CLOCK,  gauge, SM clock\n", "dcgm-exporter counters"),
        ("a", b'{"resourceMetrics":[]}', "OTLP JSON"),
        ("a.pb", b"\x0a\x10\x0a\x0e", "OTLP protobuf"),
        ("a", b'{"value":"1","name":"up","labels":{"__name__":"up"}}', "Prometheus JSON"),
        ("a", b'{"fields":{},"name":"cpu","tags":{},"timestamp":1}', "Telegraf JSON"),
        ("a", b'{\n  "@odata.id": "/redfish/v1/Chassis/1/Thermal"', "Redfish JSON"),
        ("a", b'[{"gpu": 0, "usage": {"gfx_activity": "N/A"}}]', "amd-smi JSON"),
        ("a", b'{"card0": {"GPU use (%)": "3"}}', "rocm-smi JSON"),
        ("a", b'{"time": "2021-12-06 04:19:35", "gpu_usage:0": 56}', "SuperBench monitor"),
        ("a", b'[{"id":1,"time":1507266395000,"timeEnd":0,"text":"x","tags":["deploy"]}]', "outside events"),
        ("a.csv", b"time,kind,title\n", "outside events"),
        ("a.log", b"[Feb 25 2025 13:59:45] [INFO] [tid 1803] started\n", "fabric manager log"),
        ("a", b"[  1.0] NVRM: Xid (PCI:0000:9b:00): 79\n", "kernel log"),
        ("kern.log", b"Feb 23 16:24:18 n1 kernel: usb 1-1\n", "kernel log"),
        ("/x/gpu.jsonl", b'{"time":1}\n', "wire JSON gpu"),
        ("power.arrow", b"ARROW1\0\0", "Arrow IPC power"),
    ],
)
def test_content_is_recognised(name: str, head: bytes, expected: str) -> None:
    form = recognise(name, head)
    assert form is not None
    assert expected == form.name


@pytest.mark.parametrize(
    ("name", "head"), [("a", b""), ("a.jsonl", b'{"time":1}'), ("a.csv", b"a,b\n1,2\n"), ("a.bin", b"\0\1")]
)
def test_what_is_none_of_ours_is_not_recognised(name: str, head: bytes) -> None:
    assert recognise(name, head) is None


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=20), st.binary(max_size=200))
def test_no_head_makes_recognition_fail(name: str, head: bytes) -> None:
    recognise(name, head)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(FORMATS), st.binary(max_size=200))
def test_any_bytes_are_decoded_or_unreadable(form, data: bytes) -> None:
    try:
        form.decode(data, Surroundings())
    except Unreadable as error:
        reason = str(error)
        assert "\n" not in reason


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("data", [b"", b"x" * 101], ids=["empty", "oversized"])
def test_empty_and_oversized_payloads_are_unreadable_in_one_line(form, data: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        form.decode(data, Surroundings(bytes_maximum=100))
    assert "\n" not in str(caught.value)


def test_every_table_has_a_topic_and_shots_have_their_own() -> None:
    for table in TABLES:
        known = topic(f"hotspare.{table.name}")
        assert known is not None
        assert table == known.table
    otdr = topic("hotspare.otdr")
    assert otdr is not None
    assert (otdr.table, otdr.tables) == (None, ("otdr_trace", "otdr_event"))
    assert topic("hotspare.unheard_of") is None


@pytest.mark.skipif(not FILES, reason="the shared corpus is not here")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_real_files_load_or_are_told_not_to_be_telemetry(file: Path) -> None:
    data = file.read_bytes()
    form = recognise(file.name, data[:HEAD_BYTES])
    if file.name in NO_TELEMETRY:
        assert form is None
        return
    assert form is not None
    if file.name in INVALID:
        with pytest.raises(Unreadable, match="line 20, column"):
            form.decode(data, Surroundings())
        return
    decoded = form.decode(data, Surroundings())
    assert decoded.tables or decoded.rejects.height


@pytest.mark.skipif(not FILES, reason="the shared corpus is not here")
def test_a_shot_takes_cable_and_direction_from_its_headers() -> None:
    data = (CORPUS / "otdr/demo_ab.sor").read_bytes()
    decoded = decode_otdr_message(data, [("cable", b"c17"), ("direction", b"BA"), ("trace", b"x")], Surroundings())
    assert decoded.tables["otdr_trace"].select("cable", "direction").rows() == [("c17", "BA")]
