"""One file in any format we know, as a source: recognised by its content, decoded, one arrival."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import zstandard

from pipelines.engine import Batch
from pipelines.intake import Intake, Piece, take_in
from pipelines.source_notes import SourceNotes
from pipelines.sources.contract import Arrival, Offsets, SourceError
from pipelines.sources.taken import Rest, Taken, offsets_after, rest_after, taken_before
from pipelines.topics import FORMATS, Format, recognise
from schemas.admission import Origin
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.formats.payload import UTF16_MARKS
from schemas.tables import TABLE_BY_NAME, USUAL_INTERVALS_SECONDS
from schemas.topology import Topology

HEAD_BYTES = 64 * 1024
UTF32_MARK = b"\xff\xfe\0\0"
XML_ENCODING = re.compile(r"""\A(\s*<\?xml[^>]*?)\s+encoding=["'][^"'>]*["']""")
LATE = "and what is older than its newest row then is kept as late"
GZIP_MARK = b"\x1f\x8b"
ZSTD_MARK = b"\x28\xb5\x2f\xfd"
ZSTD_HEADER_BYTES = 18
ZSTD_WINDOW_BYTES_MAXIMUM = 128 * 1024 * 1024  # what `zstd --ultra` asks for; a frame may ask for any amount


@dataclass(frozen=True, kw_only=True)
class FileSource:
    """A file is a stream of its own: its silence before and after means nothing. node: whose a person said it is.
    form: what a person said it is; None to recognise it by its content. say: told what a person should know of how
    the file was read.
    """

    path: Path
    topology: Topology
    surroundings: Surroundings
    bytes_maximum: int
    node: str | None = None
    form: Format | None = None
    say: Callable[[str], None] = lambda _: None

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
        """What is new in the file since it was taken, or all of it. Raises SourceError, also where somebody says that
        what was taken as one node's is another's.
        """
        data, before = contents(self.path, self.bytes_maximum), taken_before(offsets)
        goes_on = before is not None and before.begins(data)
        if before is not None and goes_on and self.node not in (None, before.node):
            raise SourceError(
                f"{self.path}: was already taken as node {before.node}, and its rows stay under that name; to take it "
                f"as {self.node} too, give it under another name (ln -s {self.path.name} {self.node}{self.path.suffix})"
            )
        surroundings = replace(self.surroundings, node=before.node) if before and goes_on else self.surroundings
        form = self.form or format_of(self.path, data)
        rest = self._rest(form, data, before, goes_on=goes_on)
        if not rest.data.strip():
            return
        decoded = decoded_as(form, self.path, rest.data, replace(surroundings, bytes_maximum=self.bytes_maximum))
        origin = Origin(topic=str(self.path))
        pieces = [Piece(name, frame, origin) for name, frame in decoded.tables.items()]
        rejects = rest.placed(decoded.rejects).with_columns(topic=pl.lit(str(self.path)))
        intake = take_in(pieces, rejects)
        tables = {name: rows.sort(TABLE_BY_NAME[name].time) for name, rows in intake.tables.items()}
        self._say_of(form, tables, intake, surroundings.node)
        now = _after(tables) or surroundings.received_at
        yield Arrival(
            batch=Batch(tables=tables, now=now, quarantined=intake.quarantined),
            offsets=offsets_after(data, surroundings.node, offsets), ignored=intake.ignored,
            notes=SourceNotes(missing={str(self.path): frozenset(decoded.missing)}),
        )  # fmt: skip

    def _say_of(self, form: Format, tables: Mapping[str, pl.DataFrame], intake: Intake, node: str) -> None:
        if not any(rows.height for rows in tables.values()) and intake.quarantined.is_empty():
            self.say(f"read as {form.name}: nothing in it is for any table")
        of_node = any("node" in rows.columns and (rows["node"] == node).any() for rows in tables.values())
        if self.node is None and of_node and node not in self.topology.nodes["node"]:
            self.say(f"does not say of which host it is; taken as node {node}, after its name (--node says another)")

    def _rest(self, form: Format, data: bytes, before: Taken | None, *, goes_on: bool) -> Rest:
        """What is to be read now; nothing where the file is as it was."""
        if before is None:
            return Rest(data=data)
        if not goes_on:
            self.say(f"was rewritten since it was taken; read again from its beginning, {LATE}")
            return Rest(data=data)
        if len(data) == before.size:
            self.say(f"unchanged since it was taken as node {before.node}: nothing is new")
            return Rest(data=b"")
        rest = rest_after(form, data, before.size)
        if rest is None:
            self.say(f"has grown, and {form.name} is not read from the middle; read again from its beginning, {LATE}")
            return Rest(data=data)
        self.say(f"has grown by {len(data) - before.size:,} bytes since it was taken as node {before.node}")
        return rest


def decode_file(path: Path, surroundings: Surroundings, bytes_maximum: int, form: Format | None = None) -> Decoded:
    """Read, recognise and decode. Raises SourceError naming the file, and the place inside where there is one."""
    data = contents(path, bytes_maximum)
    return decoded_as(form or format_of(path, data), path, data, replace(surroundings, bytes_maximum=bytes_maximum))


def format_of(path: Path, data: bytes) -> Format:
    """The format that the file's name and content are of. Raises SourceError."""
    head = data[:HEAD_BYTES]
    found = recognise(path.name.removesuffix(".gz").removesuffix(".zst"), head)
    if found is not None:
        return found
    if b"\0" in head:
        raise SourceError(f"{path}: binary (a NUL at byte {head.index(0)}){_without_mark(head)}, of no known format")
    known = ", ".join(dict.fromkeys(_family(entry.name) for entry in FORMATS))
    raise SourceError(f"{path}: of no format that hotspare knows ({known})")


def decoded_as(form: Format, path: Path, data: bytes, surroundings: Surroundings) -> Decoded:
    """What the format makes of the content. Raises SourceError; a decoder names itself in what it says."""
    try:
        return form.decode(data, surroundings)
    except Unreadable as error:
        raise SourceError(f"{path}: {error}") from None


def contents(path: Path, bytes_maximum: int) -> bytes:
    """The content as a decoder wants it: unpacked, and text as UTF-8. Raises SourceError; an empty file is refused."""
    data = _unpacked(path, bytes_maximum)
    if not data:
        raise SourceError(f"{path}: the file is empty")
    if not data.startswith(UTF16_MARKS):
        return data
    if data.startswith(UTF32_MARK):
        raise SourceError(f"{path}: UTF-32; convert it with iconv -f UTF-32 -t UTF-8")
    try:
        text = data.decode("utf-16")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: UTF-16 by its first bytes, but damaged at byte {error.start}") from None
    return XML_ENCODING.sub(r"\1", text, count=1).encode()


def _without_mark(head: bytes) -> str:
    """A hint where every other byte is a NUL, which is what Latin text in UTF-16 looks like."""
    for name, zeros in (("UTF-16LE", head[1::2]), ("UTF-16BE", head[::2])):
        if zeros.count(0) > 0.9 * len(zeros):
            return f", like {name} (convert it with iconv -f {name} -t UTF-8)"
    return ""


def _unpacked(path: Path, bytes_maximum: int) -> bytes:
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
