"""One incident in one portable file: a ZIP archive of plain data, whose manifest says what else must be in it.

manifest.json, nodes.csv, links.csv, incidents.json, actions.json, remarks.json, findings.parquet, <table>.parquet.
Nothing in it is executed or unpickled, and no name in it becomes a path: entries are looked up by names we know.
"""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no types

from pipelines.sources.contract import SourceError
from schemas.action import ActionRecord
from schemas.formats.decoded import Unreadable
from schemas.formats.topology_csv import decode_topology, encode_links, encode_nodes
from schemas.incident import Incident
from schemas.tables import TABLE_BY_NAME
from schemas.topology import Topology

VERSION = 1
MANIFEST = "manifest.json"
MAGIC = b"PK\x03\x04"
ENTRIES_MAXIMUM = 64
WHEN = (1980, 1, 1, 0, 0, 0)  # ZIP's first moment: the same content gives the same bytes
_TEXTS = ("nodes.csv", "links.csv", "incidents.json", "actions.json", "remarks.json")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """incident: whose bundle this is. settings: detectors' thresholds and recovery as they were. versions: of hotspare
    and what it judges with. sliced: whether sources were left out. late_rows: rows that came too late to be judged.
    lags: seconds by which rows of a node came later than others'. sha256: of every other entry.
    """

    bundle: int = VERSION
    incident: str
    starts_at: datetime
    ends_at: datetime
    name: str
    gpus_per_node: int
    intervals: dict[str, float]
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    sliced: bool = True
    anonymised: bool = False
    late_rows: int = 0
    lags: dict[str, float] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Saying:
    """What a person said, or did to an incident."""

    at: datetime
    by: str
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """tables: telemetry by table. findings, incidents, actions, remarks: what was decided and said at the time."""

    manifest: Manifest
    topology: Topology
    tables: Mapping[str, pl.DataFrame]
    findings: pl.DataFrame
    incidents: tuple[Incident, ...]
    actions: tuple[ActionRecord, ...]
    remarks: tuple[Saying, ...]

    @property
    def incident(self) -> Incident:
        return next(one for one in self.incidents if one.id == self.manifest.incident)


def is_bundle(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def encode(bundle: Bundle) -> bytes:
    """The file's bytes; the same bundle gives the same ones."""
    entries: dict[str, bytes] = {
        "nodes.csv": encode_nodes(bundle.topology.nodes).encode(),
        "links.csv": encode_links(bundle.topology.links).encode(),
        "incidents.json": msgspec.json.encode(bundle.incidents),
        "actions.json": msgspec.json.encode(bundle.actions),
        "remarks.json": msgspec.json.encode(bundle.remarks),
        "findings.parquet": _parquet(bundle.findings),
    }
    entries |= {f"{name}.parquet": _parquet(frame) for name, frame in bundle.tables.items() if not frame.is_empty()}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(entries.items())}
    manifest = msgspec.json.encode(replace(bundle.manifest, sha256=digests))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in ((MANIFEST, manifest), *sorted(entries.items())):
            archive.writestr(zipfile.ZipInfo(name, WHEN), data)
    return file.getvalue()


def decode(path: Path, bytes_maximum: int) -> Bundle:
    """Raises SourceError, one line, for what is truncated, edited, too large, of a newer version or no bundle."""
    try:
        if path.stat().st_size > bytes_maximum:
            raise SourceError(f"{path}: larger than the limit of {bytes_maximum:,} bytes (bundles.bytes_maximum)")
        with zipfile.ZipFile(path) as archive:
            return _read(path, _entries(path, archive, bytes_maximum), bytes_maximum)
    except (zipfile.BadZipFile, EOFError) as error:
        raise SourceError(f"{path}: a damaged bundle: {_line(error)}") from None
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from None


def _entries(path: Path, archive: zipfile.ZipFile, bytes_maximum: int) -> dict[str, bytes]:
    """Contents by name. Entries are stored as they are, so none can be larger than the file."""
    known = {MANIFEST, *_TEXTS, "findings.parquet", *(f"{name}.parquet" for name in TABLE_BY_NAME)}
    found: dict[str, bytes] = {}
    if len(archive.infolist()) > ENTRIES_MAXIMUM:
        raise SourceError(f"{path}: {len(archive.infolist())} entries; a bundle has at most {ENTRIES_MAXIMUM}")
    for entry in archive.infolist():
        if entry.filename not in known or entry.filename in found:
            raise SourceError(f"{path}: entry {entry.filename[:100]!r} has no place in a bundle")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > bytes_maximum:
            raise SourceError(
                f"{path}: entry {entry.filename} is packed or too large; a bundle's are stored as they are"
            )
        found[entry.filename] = archive.read(entry)
    if MANIFEST not in found:
        raise SourceError(f"{path}: an archive without {MANIFEST}; not a bundle of `hotspare incidents export`")
    return found


def _read(path: Path, entries: dict[str, bytes], bytes_maximum: int) -> Bundle:
    version = _json(path, MANIFEST, entries, dict[str, Any]).get("bundle")
    if version != VERSION:
        raise SourceError(f"{path}: a bundle of version {version!r}, this hotspare reads {VERSION}; update hotspare")
    manifest = _json(path, MANIFEST, entries, Manifest)
    there = {name: hashlib.sha256(data).hexdigest() for name, data in entries.items() if name != MANIFEST}
    for name in sorted(manifest.sha256.keys() | there.keys()):
        if manifest.sha256.get(name) != there.get(name):
            why = "is missing" if name not in there else "is not what was exported: it was edited or damaged"
            raise SourceError(f"{path}: {name} {why}")
    if manifest.ends_at <= manifest.starts_at:
        raise SourceError(f"{path}: {MANIFEST}: the window ends before it begins")
    frames = {
        name.removesuffix(".parquet"): _frame(path, name, data, bytes_maximum)
        for name, data in entries.items() if name.endswith(".parquet")
    }  # fmt: skip
    try:
        texts = (entries.get(name, b"") for name in ("nodes.csv", "links.csv"))
        topology = decode_topology(manifest.name, *texts, gpus_per_node=manifest.gpus_per_node)
    except Unreadable as error:
        raise SourceError(f"{path}: {error}") from None
    incidents = _json(path, "incidents.json", entries, tuple[Incident, ...])
    if manifest.incident not in {incident.id for incident in incidents}:
        raise SourceError(f"{path}: incidents.json does not have {manifest.incident}")
    return Bundle(
        manifest=manifest, topology=topology, findings=frames.pop("findings", pl.DataFrame()), tables=frames,
        incidents=incidents, actions=_json(path, "actions.json", entries, tuple[ActionRecord, ...]),
        remarks=_json(path, "remarks.json", entries, tuple[Saying, ...]),
    )  # fmt: skip


def _json(path: Path, name: str, entries: dict[str, bytes], kind: Any) -> Any:
    try:
        return msgspec.json.decode(entries.get(name, b""), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SourceError(f"{path}: {name}: {_line(error)}") from None


def _frame(path: Path, name: str, data: bytes, bytes_maximum: int) -> pl.DataFrame:
    """Parquet packs its pages: what they unpack to is bounded before they are."""
    try:
        groups = pq.ParquetFile(io.BytesIO(data)).metadata
        unpacked = sum(groups.row_group(at).total_byte_size for at in range(groups.num_row_groups))
        if unpacked > 16 * bytes_maximum:
            raise SourceError(f"{path}: {name} unpacks to {unpacked:,} bytes, far more than a bundle may hold")
        return pl.read_parquet(io.BytesIO(data))
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise SourceError(f"{path}: {name} is not Parquet: {_line(error)}") from None


def _parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd")
    return file.getvalue()


def _line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
