"""Truncated, spliced and bit-flipped samples of the stream and facility formats: rows, rejects, or Unreadable."""

import json
import struct
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.admission import admit
from schemas.formats import (
    amd_smi,
    dcgm_counters,
    fabric_manager_log,
    mapped_table,
    modbus,
    otlp_json,
    otlp_protobuf,
    prometheus_json,
    redfish,
    rocm_smi,
    superbench,
    telegraf_json,
)
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

LABELS = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "3", "UUID": "GPU-a", "Hostname": "n7"}
PROMETHEUS = [
    {"timestamp": "2026-07-31T12:00:00Z", "value": "45", "name": "DCGM_FI_DEV_GPU_TEMP", "labels": LABELS},
    {"timestamp": 1785499200, "value": 9, "name": "infiniband_switch_port_link_downed_total",
     "labels": {"guid": "0x7cfe9003009ce5b0", "port": "1", "switch": "leaf"}},
]  # fmt: skip
TELEGRAF = {
    "metrics": [
        {"name": "nvidia_smi", "timestamp": 1785499200, "tags": {"host": "h", "index": "1"},
         "fields": {"temperature_gpu": 50, "memory_used": 557, "remapped_rows_pending": "No"}},
    ]
}  # fmt: skip
POINT = {"timeUnixNano": "1785499200000000000", "asInt": "45",
         "attributes": [{"key": "gpu", "value": {"stringValue": "2"}}]}  # fmt: skip
OTLP = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [
    {"name": "DCGM_FI_DEV_GPU_TEMP", "gauge": {"dataPoints": [POINT]}}]}]}]}  # fmt: skip
AMD = [{"gpu": 0, "power": {"socket_power": {"value": 650, "unit": "W"}},
        "pcie": {"speed": {"value": 32, "unit": "GT/s"}}, "temperature": {"hotspot": "N/A"}}]  # fmt: skip
ROCM = {"card0": {"Temperature (Sensor edge) (C)": "53.0", "sclk clock speed:": "(1700Mhz)"}}
REDFISH = [
    {"@odata.type": "#CoolantConnector.v1_0_0.CoolantConnector",
     "@odata.id": "/redfish/v1/ThermalEquipment/CDUs/1/SecondaryCoolantConnectors/1",
     "FlowGallonsPerMinute": {"Reading": 10, "ReadingTime": "2026-07-31T12:00:00Z"},
     "SupplyPressurekPa": {"Reading": None}},
    {"@odata.type": "#LeakDetection.v1_0_0.LeakDetection",
     "@odata.id": "/redfish/v1/ThermalEquipment/CDUs/1/LeakDetection",
     "LeakDetectorGroups": [{"Detectors": [{"DetectorState": "OK"}]}], "Status": {"State": "Enabled"}},
    {"@odata.type": "#Circuit.v1_7_0.Circuit", "@odata.id": "/redfish/v1/PowerEquipment/RackPDUs/1/Mains/AC1",
     "BreakerState": "Normal", "PolyPhaseVoltage": {"Line1ToLine2": {"Reading": 202.8}}},
]  # fmt: skip
MODBUS = {"unit": "cdu-07", "time": "2026-07-31T12:00:00Z", "registers": {"40001": 215, "40002": "0x03E8"}}
REGISTERS = modbus.RegisterMap(
    table="coolant_loop", source="cdu",
    registers=(modbus.Register(column="supply_celsius", address=40001, encoding="float32"),
               modbus.Register(column="flow_liters_per_minute", address=40002)),
)  # fmt: skip
MAPPING = mapped_table.ColumnMapping(
    table="gpu", columns={"t": "time", "h": "node", "i": "gpu", "c": "temperature_celsius", "p": "row_remap_pending"}
)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field, shorter than 128 bytes."""
    return bytes([number * 8 + 2, len(content)]) + content


GPU_LABEL = field(1, b"gpu") + field(2, field(1, b"2"))
VALUES = b"\x19" + struct.pack("<Q", 1785499200 * 10**9) + b"\x21" + struct.pack("<d", 45.0)
METRIC = field(1, b"DCGM_FI_DEV_GPU_TEMP") + field(5, field(1, field(7, GPU_LABEL) + VALUES))
PROTOBUF = field(1, field(2, field(2, METRIC)))
FABRIC_MANAGER = (
    b"[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id "
    b"00000000:86:00.0 physical id 3 port 33\n"
)
SUPERBENCH = b'{"time": "2021-12-06 04:19:35", "gpu_usage:0": 56, "gpu_temperature:1": NaN}\n'
POLL = b"unit,time,address,value\ncdu-07,1785499200,40002,9\n"

SAMPLES: tuple[tuple[str, Callable[[bytes, Surroundings], Decoded], bytes], ...] = (
    ("prometheus", prometheus_json.decode, json.dumps(PROMETHEUS).encode()),
    ("prometheus lines", prometheus_json.decode, b"\n".join(json.dumps(item).encode() for item in PROMETHEUS)),
    ("telegraf", telegraf_json.decode, json.dumps(TELEGRAF).encode()),
    ("otlp", otlp_json.decode, json.dumps(OTLP).encode()),
    ("otlp protobuf", otlp_protobuf.decode, PROTOBUF),
    ("amd-smi", amd_smi.decode, json.dumps(AMD).encode()),
    ("rocm-smi", rocm_smi.decode, json.dumps(ROCM).encode()),
    ("superbench", superbench.decode, SUPERBENCH * 2),
    ("counters", dcgm_counters.decode, b"# x\nDCGM_FI_DEV_SM_CLOCK, gauge, y\n"),
    ("fabric manager", fabric_manager_log.decode, FABRIC_MANAGER),
    ("redfish", redfish.decode, json.dumps(REDFISH).encode()),
    ("modbus", partial(modbus.decode, register_map=REGISTERS), json.dumps(MODBUS).encode()),
    ("modbus csv", partial(modbus.decode, register_map=REGISTERS), POLL),
    ("mapped csv", partial(mapped_table.decode, mapping=MAPPING), b"t,h,i,c,p\n2026-07-31T12:00:00Z,n1,0,45.5,yes\n"),
)  # fmt: skip


WORDS = (b"null", b"[]", b"{}", b"-1", b'"', b"1e999", b"9" * 30, b"\xff", b"true", b"\n")


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A piece cut off, a piece put in twice, another text in the middle, a bit turned; several of them."""
    data = whole
    for _ in range(draw(st.integers(1, 4))):
        at, end = sorted(draw(st.tuples(st.integers(0, len(data)), st.integers(0, len(data)))))
        data = draw(
            st.sampled_from(
                (
                    data[:at], data[:at] + data[end:], data[:end] + data[at:],
                    data[:at] + bytes([byte ^ (1 << at % 8) for byte in data[at : at + 1]]) + data[at + 1 :],
                    data[:at] + draw(st.sampled_from(WORDS)) + data[end:],
                )
            )
        )  # fmt: skip
    return data


@pytest.mark.parametrize(("decode", "whole"), [entry[1:] for entry in SAMPLES], ids=[entry[0] for entry in SAMPLES])
def test_the_whole_sample_is_read(decode: Callable[[bytes, Surroundings], Decoded], whole: bytes) -> None:
    answer = decode(whole, Surroundings(node="n1"))
    assert answer.tables or answer.missing


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SAMPLES).flatmap(lambda entry: st.tuples(st.just(entry), damaged(entry[2]))))
def test_damaged_samples_give_rows_that_the_door_takes_or_are_unreadable_in_one_line(drawn) -> None:
    (_, decode, _), data = drawn
    try:
        answer = decode(data, Surroundings(node="n1"))
    except Unreadable as error:
        text = str(error)
        assert "\n" not in text
        return
    for name, frame in answer.tables.items():
        admit(TABLE_BY_NAME[name], frame)
