"""amd-smi and rocm-smi JSON, written on the grammar of real outputs."""

import json
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from schemas.admission import admit
from schemas.formats import amd_smi, rocm_smi
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

SURROUNDINGS = Surroundings(node="n1", received_at=datetime(2026, 8, 1, tzinfo=UTC))


def gpu(answer: Decoded) -> pl.DataFrame:
    admitted = admit(TABLE_BY_NAME["gpu"], answer.tables["gpu"])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


def entry(slot: int = 0, **sections: Any) -> dict[str, Any]:
    return {
        "gpu": slot,
        "usage": {"gfx_activity": {"value": 42, "unit": "%"}, "vcn_activity": [{"value": 0, "unit": "%"}, "N/A"]},
        "power": {"socket_power": {"value": 650, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
        "clock": {"gfx_0": {"clk": {"value": 2100, "unit": "MHz"}}, "gfx_1": {"clk": "N/A"}},
        "temperature": {"edge": "N/A", "hotspot": {"value": 63, "unit": "C"}, "mem": {"value": 70, "unit": "C"}},
        "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}, "replay_count": 0},
        "ecc": {"total_correctable_count": 3, "total_uncorrectable_count": 0},
        "energy": {"total_energy_consumption": {"value": 12.5, "unit": "kJ"}},
        "mem_usage": {"used_vram": {"value": 20450, "unit": "MB"}},
    } | sections


@pytest.mark.parametrize("tree", [[entry()], {"gpu_data": [entry()]}], ids=["6.x", "7.x"])
def test_amd_smi_values_with_units_in_the_tables_units(tree: Any) -> None:
    frame = gpu(amd_smi.decode(json.dumps(tree).encode(), SURROUNDINGS))
    assert frame.select(
        "gpu", "utilization_percent", "power_watts", "sm_clock_megahertz", "temperature_celsius",
        "memory_temperature_celsius", "pcie_width", "pcie_generation", "ecc_correctable_total", "energy_joules_total",
        "memory_used_bytes",
    ).rows() == [(0, 42.0, 650.0, 2100.0, 63.0, 70.0, 16, 5, 3, 12_500.0, 20450 * 1024 * 1024)]  # fmt: skip


def test_amd_smi_words_are_null_and_counted_and_the_gpu_stays() -> None:
    dark = {
        "gpu": 1,
        "usage": "N/A",
        "power": {"socket_power": "N/A"},
        "temperature": {"hotspot": "ERR!", "edge": "N/A"},
    }
    answer = amd_smi.decode(json.dumps([entry(), dark]).encode(), SURROUNDINGS)
    assert gpu(answer).select("gpu", "power_watts", "temperature_celsius").rows()[1] == (1, None, None)
    assert set(answer.rejects["rule"]) == {
        "power_watts|absent", "temperature_celsius|type", "temperature_celsius|absent",
    }  # fmt: skip


def test_amd_smi_unknown_units_and_speeds_are_refused() -> None:
    odd = entry(power={"socket_power": {"value": 1, "unit": "hp"}}, pcie={"speed": {"value": 3, "unit": "GT/s"}})
    answer = amd_smi.decode(json.dumps([odd]).encode(), SURROUNDINGS)
    assert set(answer.rejects["rule"]) == {"power_watts|unit", "pcie_generation|range"}
    assert gpu(answer).select("power_watts", "pcie_generation").row(0) == (None, None)


def test_amd_smi_without_a_gpu_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="no GPU"):
        amd_smi.decode(b'{"gpu_data": [{"usage": 1}]}', SURROUNDINGS)


def test_rocm_smi_texts_with_units_in_their_keys() -> None:
    cards = {
        "card0": {
            "Unique ID": "0xac1b58f8c066790f", "Temperature (Sensor edge) (C)": "35.0",
            "Temperature (Sensor junction) (C)": "36.0", "Temperature (Sensor memory) (C)": "48.0",
            "Average Graphics Package Power (W)": "219.5", "GPU use (%)": "3", "sclk clock speed:": "(1700Mhz)",
            "VRAM Total Used Memory (B)": "29225381888",
        },
        "card1": {"Temperature (Sensor edge) (C)": "39.0", "Current Socket Graphics Package Power (W)": 550},
        "system": {"Driver version": "6.3"},
    }  # fmt: skip
    frame = gpu(rocm_smi.decode(json.dumps(cards).encode(), SURROUNDINGS))
    assert frame.select(
        "gpu", "uuid", "temperature_celsius", "memory_temperature_celsius", "power_watts", "utilization_percent",
        "sm_clock_megahertz", "memory_used_bytes",
    ).rows() == [
        (0, "0xac1b58f8c066790f", 36.0, 48.0, 219.5, 3.0, 1700.0, 29225381888),
        (1, None, 39.0, None, 550.0, None, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("key", ["Temperature (Sensor junction) (C)", "temperature sensor junction (C)",
                                 "Temperature Sensor-Junction [C]"])  # fmt: skip
def test_rocm_smi_keys_are_read_as_words(key: str) -> None:
    answer = rocm_smi.decode(json.dumps({"card0": {key: "61"}}).encode(), SURROUNDINGS)
    assert gpu(answer)["temperature_celsius"].to_list() == [61.0]


def test_rocm_smi_words_are_null_and_counted() -> None:
    answer = rocm_smi.decode(json.dumps({"card0": {"GPU use (%)": "N/A", "Unique ID": "N/A"}}).encode(), SURROUNDINGS)
    assert answer.rejects["rule"].to_list() == ["utilization_percent|absent"]
    assert gpu(answer)["utilization_percent"].to_list() == [None]


@pytest.mark.parametrize("data", [b'{"system": {}}', b"[]", b'{"card0": 1}'])
def test_rocm_smi_without_a_card_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable, match="no card"):
        rocm_smi.decode(data, SURROUNDINGS)
