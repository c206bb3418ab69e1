"""Real captures of nvidia-smi; the expected values were read in them by eye."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from schemas.admission import admit
from schemas.formats import nvidia_smi_capture, nvidia_smi_csv, nvidia_smi_xml
from schemas.formats.decoded import Decoded, Surroundings
from schemas.tables import TABLE_BY_NAME

CORPUS = Path(__file__).parents[4] / "shared/corpus/gpu"
SURROUNDINGS = Surroundings(node="n00012", received_at=datetime(2026, 8, 1, tzinfo=UTC))
MIB = 2**20

corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")


def gpu(decoded: Decoded) -> pl.DataFrame:
    """The gpu rows, all of which the door lets in."""
    admitted = admit(TABLE_BY_NAME["gpu"], decoded.tables["gpu"])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows


@corpus
@pytest.mark.parametrize(
    ("name", "watts", "celsius", "generation"),
    [
        ("nvidia_smi_h100_driver590.txt", [69.85, 69.85, 629.45, 631.95], [41, 41, 59, 59], 5),
        ("nvidia_smi_h200_driver590.txt", [77.67, 77.71, 627.32, 627.4], [28, 28, 52, 52], 5),
        ("nvidia_smi_l40s_driver595.txt", [183.28, 144.97, 110.24, 110.23], [64, 63, 54, 54], 4),
    ],
)
def test_real_captures_give_idle_and_load_twice(
    name: str, watts: list[float], celsius: list[float], generation: int
) -> None:
    decoded = nvidia_smi_capture.decode((CORPUS / name).read_bytes(), SURROUNDINGS)
    frame = gpu(decoded)
    assert (watts, celsius, [generation] * 4) == (
        frame["power_watts"].to_list(), frame["temperature_celsius"].to_list(), frame["pcie_generation"].to_list(),
    )  # fmt: skip
    assert decoded.missing == (
        "nvlink_crc_error_total",
        "nvlink_replay_total",
        "nvlink_recovery_total",
        "energy_joules_total",
    )
    assert decoded.rejects.is_empty()


@corpus
@pytest.mark.parametrize(
    ("name", "slot", "watts", "width", "used"),
    [
        ("nvidia_smi_a100-sxm4-v12.xml", 1, 67.03, 16, 50),
        ("nvidia_smi_rtx-4000-sff-ada-v13.xml", 0, 8.81, 16, 3534),
        ("nvidia_smi_tesla-t4.xml", 0, 26.78, 8, 1032),
    ],
)
def test_real_xml(name: str, slot: int, watts: float, width: int, used: int) -> None:
    frame = gpu(nvidia_smi_xml.decode((CORPUS / name).read_bytes(), SURROUNDINGS))
    assert [(slot, watts, width, used * MIB)] == frame.select(
        "gpu", "power_watts", "pcie_width", "memory_used_bytes"
    ).rows()


@corpus
def test_real_complaints_and_unknown_errors() -> None:
    complaints = nvidia_smi_csv.decode((CORPUS / "nvidia_smi_handle_error.txt").read_bytes(), SURROUNDINGS)
    assert complaints.tables["gpu_event"]["pci"].to_list() == ["0000:0b:00", "0000:08:00", "0000:34:00"]
    unknown = nvidia_smi_csv.decode((CORPUS / "nvidia_smi_query_unknown_error.csv").read_bytes(), SURROUNDINGS)
    assert gpu(unknown).select("temperature_celsius", "power_watts").rows() == [(56.0, 228.82)]
