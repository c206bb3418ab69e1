import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard

from pipelines.sources.contract import SourceError
from pipelines.sources.files import decode_file
from schemas.formats.decoded import Surroundings

TEXT = b'DCGM_FI_DEV_GPU_TEMP{gpu="3",Hostname="n7"} 45\n'
SURROUNDINGS = Surroundings(node="n00012", received_at=datetime(2026, 8, 1, tzinfo=UTC))
LIMIT = 1_000_000


def temperature(path: Path) -> list[float]:
    return decode_file(path, SURROUNDINGS, LIMIT).tables["gpu"]["temperature_celsius"].to_list()


def packed(folder: Path, suffix: str, content: bytes) -> Path:
    path = folder / f"metrics.txt{suffix}"
    path.write_bytes(gzip.compress(content) if suffix == ".gz" else zstandard.compress(content))
    return path


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_file_is_read_as_what_is_in_it(suffix: str, tmp_path: Path) -> None:
    assert temperature(packed(tmp_path, suffix, TEXT)) == [45.0]


def test_compression_is_known_by_content_and_two_joined_parts_are_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    path.write_bytes(gzip.compress(b"# HELP DCGM_FI_DEV_GPU_TEMP x\n") + gzip.compress(TEXT))
    assert temperature(path) == [45.0]
    path.write_bytes(zstandard.compress(b"# HELP DCGM_FI_DEV_GPU_TEMP x\n") + zstandard.compress(TEXT))
    assert temperature(path) == [45.0]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_bomb_is_refused_with_one_line(suffix: str, tmp_path: Path) -> None:
    path = packed(tmp_path, suffix, b"\0" * (50 * LIMIT))
    assert path.stat().st_size < LIMIT / 10
    with pytest.raises(SourceError, match=r"unpack to more than limits\.file_bytes_maximum \(1000000\)$"):
        decode_file(path, SURROUNDINGS, LIMIT)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_truncated_compressed_file_is_refused_with_one_line(suffix: str, tmp_path: Path) -> None:
    path = packed(tmp_path, suffix, bytes(range(256)) * 300)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(SourceError, match=r"metrics\.txt\S*: damaged compressed file") as refused:
        decode_file(path, SURROUNDINGS, LIMIT)
    assert "\n" not in str(refused.value)


def test_json_nested_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gpu.jsonl"
    path.write_bytes(b'{"node":' + b"[" * 200_000)
    with pytest.raises(SourceError, match="no JSON"):
        decode_file(path, SURROUNDINGS, LIMIT)
