from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.admission import admit
from schemas.formats import dcgm_dump, dcgm_text
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME

CORPUS = Path(__file__).parents[4] / "shared/corpus/gpu"
RECEIVED = datetime(2026, 8, 1, tzinfo=UTC)
SURROUNDINGS = Surroundings(node="n00012", received_at=RECEIVED)
LABELS = (
    'gpu="3",UUID="GPU-a",pci_bus_id="00000000:19:00.0",device="nvidia3",modelName="NVIDIA "H100" {80,}",Hostname="n7"'
)

corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")


def line(field: str, value: object, labels: str = LABELS) -> str:
    return f"DCGM_FI_DEV_{field}{{{labels}}} {value}"


def decoded(*lines: str) -> Decoded:
    return dcgm_text.decode("\n".join(lines).encode(), SURROUNDINGS)


def gpu(answer: Decoded) -> pl.DataFrame:
    admitted = admit(TABLE_BY_NAME["gpu"], answer.tables["gpu"])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


def test_lines_of_one_gpu_become_one_row_in_the_tables_units() -> None:
    answer = decoded(
        "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).", line("GPU_TEMP", 45), line("POWER_USAGE", "631.950000"),
        line("TOTAL_ENERGY_CONSUMPTION", 123456789), line("FB_USED", 19818), line("ROW_REMAP_FAILURE", 1),
    )  # fmt: skip
    row = gpu(answer).row(0, named=True)
    assert (row["time"], row["node"], row["gpu"], row["uuid"]) == (RECEIVED, "n7", 3, "GPU-a")
    assert (
        row["temperature_celsius"], row["power_watts"], row["energy_joules_total"], row["memory_used_bytes"],
        row["row_remap_failure"],
    ) == (45, 631.95, 123456.789, 19818 * 2**20, True)  # fmt: skip
    assert answer.rejects.is_empty()


@pytest.mark.parametrize("labels", ['gpu="0",uuid="GPU-b",hostname="h"', 'gpu="0", gpu_uuid="GPU-b", Hostname="h"'])
def test_label_names_of_every_release(labels: str) -> None:
    assert gpu(decoded(line("GPU_TEMP", 45, labels))).select("node", "gpu", "uuid").rows() == [("h", 0, "GPU-b")]


def test_without_a_host_label_the_node_is_the_surroundings() -> None:
    assert gpu(decoded(line("GPU_TEMP", 45, 'gpu="0"')))["node"].to_list() == ["n00012"]


def test_a_stamp_in_milliseconds_is_the_time() -> None:
    frame = gpu(decoded(line("GPU_TEMP", "45 1720944773353"), line("GPU_TEMP", "46 1720944774353")))
    assert [datetime(2024, 7, 14, 8, 12, second, 353000, tzinfo=UTC) for second in (53, 54)] == frame["time"].to_list()


@pytest.mark.parametrize(
    "value",
    [2147483632, 2147483635, 4294967295, 9223372036854775792, 9223372036854775795, "9.223372036854776e+18",
     "9223372036854776000", "140737488355328.0", "140737488355331.0", "NaN", "+Inf"],
)  # fmt: skip
def test_blanks_are_null_and_counted_even_where_the_range_would_take_them(value: object) -> None:
    answer = decoded(line("ECC_SBE_VOL_TOTAL", value), line("GPU_TEMP", 40))
    assert (
        gpu(answer)["ecc_correctable_total"].to_list(), answer.rejects["rule"].to_list(),
    ) == ([None], ["ecc_correctable_total|blank"])  # fmt: skip


def test_hbm_at_zero_degrees_is_a_missing_sensor() -> None:
    assert gpu(decoded(line("MEMORY_TEMP", 0)))["memory_temperature_celsius"].to_list() == [None]


@pytest.mark.parametrize(("field", "value"), [("GPU_TEMP", 644245923), ("GPU_UTIL", 101), ("POWER_USAGE", -1)])
def test_readings_out_of_range_are_null_and_counted(field: str, value: int) -> None:
    answer = decoded(line(field, value))
    assert answer.rejects.filter(pl.col("rule").str.ends_with("|range")).height == 1
    assert gpu(answer).select("temperature_celsius", "utilization_percent", "power_watts").row(0) == (None, None, None)


def test_mig_samples_are_rejects_and_the_parent_stays() -> None:
    mig = LABELS + ',GPU_I_PROFILE="1g.5gb",GPU_I_ID="13"'
    answer = decoded(line("GPU_TEMP", 45), line("FB_USED", 6, mig))
    assert (gpu(answer)["temperature_celsius"].to_list(), gpu(answer)["memory_used_bytes"].to_list()) == (
        [45.0],
        [None],
    )
    assert answer.rejects["rule"].to_list() == ["gpu|mig"]


def test_the_xid_gauge_makes_no_event() -> None:
    assert {"gpu"} == decoded(line("XID_ERRORS", 79)).tables.keys()


def test_what_the_exporter_does_not_show_is_missing() -> None:
    missing = decoded(line("GPU_TEMP", 45)).missing
    assert "power_watts" in missing
    assert "temperature_celsius" not in missing


def test_bad_lines_cost_only_themselves() -> None:
    answer = decoded(
        "garbage {{{",
        line("GPU_UTIL", "ERR!"),
        line("GPU_TEMP", 45),
        line("GPU_TEMP", 46),
        line("FB_USED", 1, "x"),
        "go_goroutines 4",
    )
    assert gpu(answer)["temperature_celsius"].to_list() == [45.0]
    assert answer.rejects.select("rule", "offset").rows() == [
        ("line|sample", 1),
        ("line|value", 2),
        ("gpu|absent", 5),
        ("series|repeated", 4),
    ]


@pytest.mark.parametrize("data", [b"", b"hello", b"go_goroutines 4\n", b"DCGM_FI_DEV_GPU_TEMP\n", b"\0DCGM_"])
def test_what_holds_no_sample_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable, match="dcgm-exporter text"):
        dcgm_text.decode(data, SURROUNDINGS)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_damage_gives_rows_rejects_or_unreadable_and_nothing_else(data: st.DataObject) -> None:
    sample = "\n".join(
        [
            line("GPU_TEMP", "45 1720944773353"),
            line("MEMORY_TEMP", 9223372036854775794),
            line("PCIE_LINK_GEN", 5),
            line("FB_USED", "1e300"),
        ]
    )
    damaged = bytearray(sample.encode())
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=4)):
        damaged[at : at + data.draw(st.integers(0, 6))] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"9" * 25, b'"', b"}", b"{", b"\\", b"-", b"e308", b"\n"])
        )
    try:
        answer = dcgm_text.decode(bytes(damaged), SURROUNDINGS)
    except Unreadable as error:
        reason = str(error)
        assert "\n" not in reason
        return
    for name, frame in answer.tables.items():
        refused = admit(TABLE_BY_NAME[name], frame).quarantined
        assert set(refused["rule"]) <= {"gpu|max", "gpu|min", "node|max_length", "node|min_length"}


@corpus
def test_real_samples() -> None:
    srm = dcgm_text.decode((CORPUS / "dcgm_h100_srm.txt").read_bytes(), SURROUNDINGS)
    assert gpu(srm).select("node", "gpu").rows() == [("gb975e0", 0), ("gb975e0", 1), ("gb975e0", 2)]
    mig = dcgm_text.decode((CORPUS / "dcgm_mig_lines.txt").read_bytes(), SURROUNDINGS)
    assert (mig.tables, mig.rejects["rule"].to_list()) == ({}, ["gpu|mig"] * 3)


@corpus
def test_a_dump_with_blanks_keeps_the_sane_values_and_counts_the_others() -> None:
    answer = dcgm_dump.decode((CORPUS / "dcgm_blank_values.txt").read_bytes(), SURROUNDINGS)
    assert gpu(answer)["power_watts"].to_list() == [69.437]
    assert answer.rejects.height == 11


def test_a_dump_without_gpus_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="DCGM dump"):
        dcgm_dump.decode(b"{'a': 1}", SURROUNDINGS)
