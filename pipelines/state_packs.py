"""The big part of a stored state: columns of its frames, as Arrow IPC, in files beside the DuckDB file.

A flush writes one file, a pack, with the columns that changed since the last one; most did not, and stay in the pack
they are in. Table state_fields of the store says in which, so that a transaction there puts one state in place of
another: a pack is whole and on the disk before any transaction names it, and goes away when none does any more. (As
blobs in the DuckDB file the same bytes cost eight times as much: hashed, copied, and written anew at each checkpoint.)
"""

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import polars as pl

from pipelines.on_disk import sync_folder

PACKS_MAXIMUM = 4  # that a stream's fields lie in: what is left in an older one is copied into the next
Field = tuple[str, str]  # of a frame by its name, a column by its own
FIELD_COLUMNS = pl.Schema({
    "stream": pl.String(), "name": pl.String(), "field": pl.String(),
    "pack": pl.Int64(), "first_byte": pl.Int64(), "byte_count": pl.Int64(),
})  # fmt: skip


class StateLost(RuntimeError):
    """A pack that the store names is gone or damaged."""


@dataclass(frozen=True)
class Place:
    """Bytes of a pack, whose number is the name of its file."""

    pack: int
    first_byte: int
    byte_count: int


def packs_beside(path: Path) -> Path:
    """Folder of the packs of a DuckDB file."""
    return path.with_suffix(".state")


def places(connection: duckdb.DuckDBPyConnection, stream: str) -> dict[Field, Place]:
    """Where the stream's fields lie."""
    rows = connection.execute(
        "select name, field, pack, first_byte, byte_count from state_fields where stream = ?", [stream]
    ).fetchall()
    return {(name, field): Place(pack, first, count) for name, field, pack, first, count in rows}


def put(
    connection: duckdb.DuckDBPyConnection, folder: Path, stream: str, frames: Mapping[str, pl.DataFrame],
    keep: Mapping[Field, Place],
) -> None:  # fmt: skip
    """Put these frames in place of all that is stored of the stream, within the caller's transaction. keep: fields that
    are as they were, and where; their bytes stay there, or are copied where the pack is an old one. Raises OSError.
    """
    recent = sorted({place.pack for place in keep.values()})[1 - PACKS_MAXIMUM :]
    lying = {field: place for field, place in keep.items() if place.pack in recent and _is_there(folder, place)}
    fields = [(name, column) for name, frame in frames.items() for column in frame.columns]
    fresh = [field for field in fields if field not in lying]
    chunks = {field: partial(_chunk, folder, keep.get(field), frames[field[0]], field[1]) for field in fresh}
    placed = {**lying, **_written(folder, _next_number(connection), chunks)}
    rows = [(stream, *field, place.pack, place.first_byte, place.byte_count) for field, place in placed.items()]
    connection.execute("delete from state_fields where stream = ?", [stream])
    connection.register("placed", pl.DataFrame(rows, schema=FIELD_COLUMNS, orient="row"))
    connection.execute("insert into state_fields by name from placed")
    connection.unregister("placed")


def taken(folder: Path, found: Mapping[Field, Place]) -> dict[str, pl.DataFrame]:
    """The frames whose fields lie there. Raises StateLost."""
    frames: dict[str, list[pl.DataFrame]] = {}
    for (name, _), place in found.items():
        frames.setdefault(name, []).append(_unpacked(folder, place))
    return {name: pl.concat(columns, how="horizontal") for name, columns in frames.items()}


def sweep(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Remove the packs that no committed transaction names."""
    named = {pack for (pack,) in connection.execute("select distinct pack from state_fields").fetchall()}
    for file in set(folder.glob("*.pack")) - {file_of(folder, pack) for pack in named}:
        file.unlink(missing_ok=True)


def file_of(folder: Path, pack: int) -> Path:
    return folder / f"{pack}.pack"


def _chunk(folder: Path, place: Place | None, frame: pl.DataFrame, column: str) -> bytes:
    """The bytes of a field: those of its old place, if they are there, cost less than packing it again."""
    return _bytes_of(folder, place) or _packed(frame.select(column))


def _packed(column: pl.DataFrame) -> bytes:
    written = io.BytesIO()
    column.write_ipc(written, compression="lz4")
    return written.getvalue()


def _unpacked(folder: Path, place: Place) -> pl.DataFrame:
    try:
        return pl.read_ipc(io.BytesIO(_bytes_of(folder, place)))
    except (pl.exceptions.PolarsError, OSError):  # the latter also of bytes that are no Arrow file
        raise StateLost(
            f"{file_of(folder, place.pack)}: is gone or damaged, and holds where detectors stood; put it back from "
            "where the DuckDB file came from (they belong together), or move both away to begin anew"
        ) from None


def _bytes_of(folder: Path, place: Place | None) -> bytes:
    """Nothing where they are not all there."""
    if place is None or not _is_there(folder, place):
        return b""
    with file_of(folder, place.pack).open("rb") as pack:
        pack.seek(place.first_byte)
        return pack.read(place.byte_count)


def _is_there(folder: Path, place: Place) -> bool:
    file = file_of(folder, place.pack)
    return file.exists() and file.stat().st_size >= place.first_byte + place.byte_count


def _next_number(connection: duckdb.DuckDBPyConnection) -> int:
    [(newest,)] = connection.execute("select coalesce(max(pack), 0) from state_fields").fetchall()
    return int(newest) + 1


def _written(folder: Path, number: int, chunks: Mapping[Field, Callable[[], bytes]]) -> dict[Field, Place]:
    """A pack of these, on the disk; one that was left by a crash is overwritten."""
    found: dict[Field, Place] = {}
    if not chunks:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    with file_of(folder, number).open("wb") as file:
        for field, chunk in chunks.items():
            begin = file.tell()
            found[field] = Place(number, begin, file.write(chunk()))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)
    return found
