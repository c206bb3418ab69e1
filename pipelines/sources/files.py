"""One file in any format we know, as a source: recognised by its content, decoded, one arrival."""

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import zstandard

from pipelines.engine import Batch
from pipelines.intake import Piece, take_in
from pipelines.source_notes import SourceNotes
from pipelines.sources.contract import Arrival, Offsets, SourceError
from pipelines.topics import FORMATS, Format, recognise
from schemas.admission import Origin
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME, USUAL_INTERVALS_SECONDS
from schemas.topology import Topology

HEAD_BYTES = 64 * 1024
READ = ("file", 0)
GZIP_MARK = b"\x1f\x8b"
ZSTD_MARK = b"\x28\xb5\x2f\xfd"
ZSTD_HEADER_BYTES = 18
ZSTD_WINDOW_BYTES_MAXIMUM = 128 * 1024 * 1024  # what `zstd --ultra` asks for; a frame may ask for any amount


@dataclass(frozen=True, kw_only=True)
class FileSource:
    """A file is a stream of its own: its silence before and after means nothing. form: what a person said it is; None
    to recognise it by its content.
    """

    path: Path
    topology: Topology
    surroundings: Surroundings
    bytes_maximum: int
    form: Format | None = None

    @property
    def stream(self) -> str:
        return f"file:{self.path.absolute()}"

    @property
    def intervals_seconds(self) -> Mapping[str, float]:
        return USUAL_INTERVALS_SECONDS

    @property
    def span_seconds(self) -> float | None:
        return None

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        """The whole file once. A file that was taken and has not changed since gives nothing."""
        changed = self.path.stat().st_mtime_ns
        if offsets.get(READ) == changed:
            return
        decoded = decode_file(self.path, self.surroundings, self.bytes_maximum, self.form)
        origin = Origin(topic=str(self.path))
        pieces = [Piece(name, frame, origin) for name, frame in decoded.tables.items()]
        intake = take_in(pieces, decoded.rejects.with_columns(topic=pl.lit(str(self.path))))
        tables = {name: rows.sort(TABLE_BY_NAME[name].time) for name, rows in intake.tables.items()}
        now = _after(tables) or self.surroundings.received_at
        yield Arrival(
            batch=Batch(tables=tables, now=now, quarantined=intake.quarantined),
            offsets={READ: changed}, ignored=intake.ignored,
            notes=SourceNotes(missing={str(self.path): frozenset(decoded.missing)}),
        )  # fmt: skip


def decode_file(path: Path, surroundings: Surroundings, bytes_maximum: int, form: Format | None = None) -> Decoded:
    """Read, recognise and decode. Raises SourceError naming the file, and the place inside where there is one."""
    data = _contents(path, bytes_maximum)
    if not data:
        raise SourceError(f"{path}: the file is empty")
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    found = form or recognise(name, data[:HEAD_BYTES])
    if found is None:
        known = ", ".join(dict.fromkeys(_family(entry.name) for entry in FORMATS))
        raise SourceError(f"{path}: of no format that hotspare knows ({known})")
    try:
        return found.decode(data, replace(surroundings, bytes_maximum=bytes_maximum))
    except Unreadable as error:
        raise SourceError(f"{path}: {found.name}: {error}") from None


def _contents(path: Path, bytes_maximum: int) -> bytes:
    """The bytes of the file, unpacked where it is compressed, and never more than bytes_maximum of them in memory."""
    limit = f"limits.file_bytes_maximum ({bytes_maximum})"
    try:
        size = path.stat().st_size
        if size > bytes_maximum:
            raise SourceError(f"{path}: {size} bytes, more than {limit}")
        with path.open("rb") as file:
            mark = file.read(4)
            file.seek(0)
            if mark.startswith(GZIP_MARK):
                data = gzip.GzipFile(fileobj=file).read(bytes_maximum + 1)
            elif mark == ZSTD_MARK:
                unpacking = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAXIMUM)
                data = unpacking.stream_reader(file, read_across_frames=True).read(bytes_maximum + 1)
                file.seek(0)
                said = zstandard.frame_content_size(file.read(ZSTD_HEADER_BYTES))  # -1: the frame does not say
                if len(data) < min(said, bytes_maximum):
                    raise SourceError(f"{path}: damaged compressed file: it ends early")
            else:
                data = file.read(bytes_maximum + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise SourceError(f"{path}: damaged compressed file: {error}") from None
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from None
    if len(data) > bytes_maximum:
        raise SourceError(f"{path}: {size} bytes unpack to more than {limit}")
    return data


def _family(name: str) -> str:
    """Wire formats come once per table; for a person they are one."""
    return name.rpartition(" ")[0] if name.rpartition(" ")[2] in TABLE_BY_NAME else name


def surroundings_of(path: Path, *, node: str | None, utc_offset_minutes: int = 0) -> Surroundings:
    """What the file does not say: host from the option or the file's name, time from when it was last written."""
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC) if path.exists() else datetime.now(UTC)
    return Surroundings(
        node=node or path.name.split(".")[0] or "unknown", received_at=written, utc_offset_minutes=utc_offset_minutes
    )


def _after(tables: Mapping[str, pl.DataFrame]) -> datetime | None:
    """The first instant after every row, so that all of them are judged."""
    newest = [rows[TABLE_BY_NAME[name].time].max() for name, rows in tables.items() if not rows.is_empty()]
    found = max((time for time in newest if isinstance(time, datetime)), default=None)
    return None if found is None else found + timedelta(microseconds=1)
