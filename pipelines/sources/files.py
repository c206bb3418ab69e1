"""One file in any format we know, as a source: recognised by its content, decoded, one arrival."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from pipelines.engine import Batch
from pipelines.intake import Piece, take_in
from pipelines.sources.contract import Arrival, Offsets, SourceError
from pipelines.topics import FORMATS, recognise
from schemas.admission import Origin
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.tables import TABLE_BY_NAME, USUAL_INTERVALS_SECONDS
from schemas.topology import Topology

HEAD_BYTES = 64 * 1024
READ = ("file", 0)


@dataclass(frozen=True, kw_only=True)
class FileSource:
    """A file is a stream of its own: its silence before and after means nothing."""

    path: Path
    topology: Topology
    surroundings: Surroundings
    bytes_maximum: int

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
        decoded = decode_file(self.path, self.surroundings, self.bytes_maximum)
        origin = Origin(topic=str(self.path))
        pieces = [Piece(name, frame, origin) for name, frame in decoded.tables.items()]
        intake = take_in(pieces, decoded.rejects.with_columns(topic=pl.lit(str(self.path))))
        tables = {name: rows.sort(TABLE_BY_NAME[name].time) for name, rows in intake.tables.items()}
        now = _after(tables) or self.surroundings.received_at
        yield Arrival(
            batch=Batch(tables=tables, now=now, quarantined=intake.quarantined),
            offsets={READ: changed}, ignored=intake.ignored,
        )  # fmt: skip


def decode_file(path: Path, surroundings: Surroundings, bytes_maximum: int) -> Decoded:
    """Read, recognise and decode. Raises SourceError naming the file, and the place inside where there is one."""
    try:
        size = path.stat().st_size
        if size > bytes_maximum:
            raise SourceError(f"{path}: {size} bytes, more than limits.file_bytes_maximum ({bytes_maximum})")
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from None
    if not data:
        raise SourceError(f"{path}: the file is empty")
    found = recognise(path.name, data[:HEAD_BYTES])
    if found is None:
        known = ", ".join(dict.fromkeys(_family(entry.name) for entry in FORMATS))
        raise SourceError(f"{path}: of no format that hotspare knows ({known})")
    try:
        return found.decode(data, replace(surroundings, bytes_maximum=bytes_maximum))
    except Unreadable as error:
        raise SourceError(f"{path}: {found.name}: {error}") from None


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
