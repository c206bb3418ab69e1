"""SuperBench records, fabric manager logs and dcgm-exporter's list of counters. Values are read from the real files."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from schemas.admission import admit
from schemas.formats import dcgm_counters, fabric_manager_log, superbench
from schemas.formats.decoded import Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

CORPUS = Path(__file__).parents[4] / "shared/corpus/gpu"
SURROUNDINGS = Surroundings(node="n1", received_at=datetime(2026, 8, 1, tzinfo=UTC))
corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")
STAMP = "[Jul 23 2024 07:53:55] [ERROR] [tid 841] "


@corpus
def test_the_real_superbench_record() -> None:
    answer = superbench.decode((CORPUS / "superbench_monitor.jsonl").read_bytes(), SURROUNDINGS)
    admitted = admit(TABLE_BY_NAME["gpu"], answer.tables["gpu"])
    assert (admitted.rows.height, admitted.quarantined.height, answer.rejects.height) == (40, 0, 0)
    columns = (
        "time",
        "gpu",
        "utilization_percent",
        "temperature_celsius",
        "memory_used_bytes",
        "ecc_correctable_total",
    )
    assert admitted.rows.select(columns).row(0) == (
        datetime(2021, 12, 6, 4, 19, 35, tzinfo=UTC), 0, 56.0, 26.0, 267517952, 0,
    )  # fmt: skip
    assert admitted.rows.select(columns).row(32) == (
        datetime(2021, 12, 6, 4, 20, 19, tzinfo=UTC), 0, 0.0, 27.0, 0, 12,
    )  # fmt: skip
    assert "power_watts" in answer.missing


def test_superbench_times_are_local_and_bad_lines_cost_themselves() -> None:
    lines = (
        b'{"time": "2021-12-06 04:19:35", "gpu_usage:0": 56, "gpu_temperature:0": NaN}\n'
        b'{"time": "2021-12-06 04:1\n'
        b'{"time": "soon", "gpu_usage:0": 56}\n'
    )
    east = Surroundings(node="n1", utc_offset_minutes=60)
    answer = superbench.decode(lines, east)
    frame = answer.tables["gpu"]
    assert frame.select("time", "utilization_percent", "temperature_celsius").rows() == [
        (datetime(2021, 12, 6, 3, 19, 35, tzinfo=UTC), 56.0, None)
    ]
    assert set(answer.rejects["rule"]) == {"line|json", "time|type", "temperature_celsius|type"}


@corpus
def test_the_real_fabric_manager_log_has_one_event() -> None:
    answer = fabric_manager_log.decode((CORPUS / "fabricmanager.log").read_bytes(), SURROUNDINGS)
    admitted = admit(TABLE_BY_NAME["gpu_event"], answer.tables["gpu_event"])
    assert admitted.rows.select("time", "node", "gpu", "pci", "kind", "code").rows() == [
        (datetime(2025, 2, 27, 15, 10, 2, tzinfo=UTC), "n1", None, "0000:86:00", "sxid", 12028)
    ]
    assert admitted.rows["message"][0].startswith("detected NVSwitch non-fatal error 12028 on fid 0")
    assert answer.rejects.is_empty()


def test_fatal_errors_in_both_wordings_are_events_and_other_errors_are_counted() -> None:
    text = "\n".join(
        [
            STAMP
            + "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3",
            STAMP + "detected NVSwitch fatal error 22013 on NodeId 0 on NVSwitch pci bus id 00000000:08:00.0 port 60",
            STAMP + "failed to find the GPU handle 5410063385",
            STAMP + "failed to find the GPU handle 5410063386",
            STAMP + "detected NVSwitch fatal error on something",
        ]
    )
    answer = fabric_manager_log.decode(text.encode(), SURROUNDINGS)
    assert answer.tables["gpu_event"].select("code", "pci").rows() == [(20034, "0000:86:00"), (22013, "0000:08:00")]
    assert answer.rejects.select("rule", "offset").rows() == [("sxid|line", 5), ("line|left", None)]
    assert answer.rejects["reason"][1].startswith("2 line(s)")


def test_what_is_no_fabric_manager_log_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="no line begins"):
        fabric_manager_log.decode(b"Feb 23 16:24:18 n1 kernel: usb\n", SURROUNDINGS)


@corpus
def test_the_stock_list_of_counters_tells_what_such_an_exporter_lacks() -> None:
    answer = dcgm_counters.decode((CORPUS / "dcgm_default_counters.csv").read_bytes(), SURROUNDINGS)
    assert (answer.tables, answer.rejects["rule"].to_list()) == ({}, ["file|configuration"])
    assert {"ecc_uncorrectable_total", "nvlink_replay_total", "clocks_event_reasons"} <= set(answer.missing)
    assert not {"temperature_celsius", "power_watts", "row_remap_failure", "utilization_percent"} & set(answer.missing)


def test_a_commented_counter_is_not_listed() -> None:
    answer = dcgm_counters.decode(b"# DCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_SM_CLOCK , gauge, y\n", SURROUNDINGS)
    assert "temperature_celsius" in answer.missing
    assert "sm_clock_megahertz" not in answer.missing
