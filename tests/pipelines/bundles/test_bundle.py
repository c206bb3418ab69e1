import zipfile
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipelines.bundles.bundle import Bundle, decode, encode
from pipelines.bundles.source import bundle_source
from pipelines.sources.contract import SourceError
from tests.pipelines.bundles.conftest import Place

ENOUGH = 2**30


def changed(path: Path, name: str, data: bytes, *, compression: int = zipfile.ZIP_STORED) -> Path:
    """The bundle with one entry put in another's place, or added."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for one, content in (entries | {name: data}).items():
            archive.writestr(zipfile.ZipInfo(one), content, compression if one == name else zipfile.ZIP_STORED)
    return path


def test_what_is_written_is_read(file: Path, bundle: Bundle) -> None:
    again = decode(file, ENOUGH)
    assert (again.incidents, again.actions, again.remarks) == (bundle.incidents, bundle.actions, bundle.remarks)
    assert again.tables.keys() == {name for name, frame in bundle.tables.items() if not frame.is_empty()}
    for name, frame in again.tables.items():
        assert_frame_equal(frame, bundle.tables[name])
    assert again.topology.nodes.equals(bundle.topology.nodes)
    assert again.manifest.sha256


def test_the_same_incident_gives_the_same_bytes(place: Place, bundle: Bundle) -> None:
    assert encode(place.export()) == encode(bundle)


def test_rows_come_window_by_window_in_order_of_time_however_they_lie_in_the_file(bundle: Bundle) -> None:
    reversed_tables = {name: frame.reverse() for name, frame in bundle.tables.items()}
    windows = list(bundle_source(replace(bundle, tables=reversed_tables), seconds=50).windows())
    assert sum(window.tables["gpu"].height for window in windows) == bundle.tables["gpu"].height
    for window in windows:
        times = window.tables["gpu"]["time"]
        assert times.is_sorted()
        assert times.is_between(window.starts_at, window.ends_at, closed="left").all()


def test_the_peers_of_the_gpu_are_in_it_and_the_rest_of_the_cluster_is_not(bundle: Bundle) -> None:
    node = bundle.incident.roots[0].split("/")[0]
    assert node in set(bundle.topology.nodes["node"])
    assert set(bundle.tables["gpu"]["node"]) == set(bundle.topology.nodes["node"])
    assert bundle.manifest.sliced


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_bundle_is_one_line(file: Path, share: float) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)] or b"PK\x03\x04")
    with pytest.raises(SourceError, match=r"incident\.hotspare: a damaged bundle"):
        decode(file, ENOUGH)


def test_an_edited_entry_is_named(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        nodes = archive.read("nodes.csv")
    with pytest.raises(SourceError, match=r"nodes\.csv is not what was exported"):
        decode(changed(file, "nodes.csv", nodes + b"\n"), ENOUGH)


def test_a_newer_bundle_says_so(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        manifest = msgspec.json.decode(archive.read("manifest.json"))
    newer = msgspec.json.encode(manifest | {"bundle": 2})
    with pytest.raises(SourceError, match="a bundle of version 2, this hotspare reads 1; update hotspare"):
        decode(changed(file, "manifest.json", newer), ENOUGH)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/tmp/x", "gpu.pickle", "more/gpu.parquet"])
def test_an_entry_that_has_no_place_is_refused_by_name(file: Path, name: str) -> None:
    with pytest.raises(SourceError, match="has no place in a bundle"):
        decode(changed(file, name, b"x"), ENOUGH)


def test_a_packed_entry_is_refused_before_it_is_unpacked(file: Path) -> None:
    bomb = changed(file, "links.csv", b"0" * 50_000_000, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(SourceError, match=r"links\.csv is packed or too large"):
        decode(bomb, ENOUGH)


def test_parquet_that_unpacks_to_far_more_is_refused(file: Path) -> None:
    frame = pl.DataFrame({"time": pl.repeat(0, 5_000_000, eager=True)})
    bomb = file.with_name("bomb.parquet")
    frame.write_parquet(bomb, statistics=False, use_pyarrow=True, pyarrow_options={"use_dictionary": False})
    packed = changed(file, "gpu.parquet", bomb.read_bytes())
    limit = packed.stat().st_size
    with pytest.raises(SourceError, match=r"gpu\.parquet (unpacks to|is not what was exported)"):
        decode(packed, limit)


def test_a_bundle_over_the_limit_is_refused_with_the_setting_to_raise(file: Path) -> None:
    with pytest.raises(SourceError, match=r"larger than the limit of 1,000 bytes \(bundles\.bytes_maximum\)"):
        decode(file, 1000)
