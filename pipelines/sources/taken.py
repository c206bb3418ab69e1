"""How much of a file has been taken already, by its content: a log that grew gives only what is new.

Kept among the offsets of the file's stream: how many bytes of its (unpacked) content were taken, their digest, and the
node that they were taken as, under the largest number where it was taken as several.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

import polars as pl

from pipelines.sources.contract import Offsets
from pipelines.topics import Format
from schemas.formats import fabric_manager_log, host_log, nvidia_smi_csv, wire

BYTES, DIGEST, NODE = ("bytes", 0), ("digest", 0), "node "
DIGEST_BYTES = 7  # fits the store's signed 64-bit offsets
NUMBERED = r"^line \d+: "


@dataclass(frozen=True, kw_only=True)
class Taken:
    """size: bytes of content taken. node: the host that they were taken to be of."""

    size: int
    digest: int
    node: str

    def begins(self, data: bytes) -> bool:
        """Whether the content still begins with what was taken."""
        return len(data) >= self.size and _digest(data, self.size) == self.digest


def taken_before(offsets: Offsets) -> Taken | None:
    """None: nothing of this file has been taken."""
    if BYTES not in offsets:
        return None
    names = _nodes(offsets)
    return Taken(
        size=offsets[BYTES], digest=offsets.get(DIGEST, 0), node=max(names, key=lambda name: names[name], default="")
    )


def offsets_after(data: bytes, node: str, offsets: Offsets) -> dict[tuple[str, int], int]:
    """Offsets that say that all of data was taken as this node's."""
    names = _nodes(offsets)
    number = max(names.values(), default=0) + 1
    latest = names.get(node, 0) == number - 1 and number > 1
    return {BYTES: len(data), DIGEST: _digest(data, len(data)), (NODE + node, 0): number - 1 if latest else number}


def _nodes(offsets: Mapping[tuple[str, int], int]) -> dict[str, int]:
    return {topic.removeprefix(NODE): number for (topic, _), number in offsets.items() if topic.startswith(NODE)}


def _digest(data: bytes, size: int) -> int:
    return int.from_bytes(blake2b(memoryview(data)[:size], digest_size=DIGEST_BYTES).digest())


@dataclass(frozen=True, kw_only=True)
class Rest:
    """What of a file is to be decoded now. lines_before: how many lines of it are left out before."""

    data: bytes
    lines_before: int = 0

    def placed(self, rejects: pl.DataFrame) -> pl.DataFrame:
        """Rejects with the lines of the whole file."""
        if not self.lines_before:
            return rejects
        line = pl.col("offset") + self.lines_before
        said = pl.format("line {}: {}", line, pl.col("reason").str.replace(NUMBERED, ""))
        renumbered = pl.when(pl.col("reason").str.contains(NUMBERED)).then(said).otherwise(pl.col("reason"))
        return rejects.with_columns(offset=line, reason=renumbered)


def rest_after(form: Format, data: bytes, size: int) -> Rest | None:
    """The lines that came after the first `size` bytes; None for a format that cannot be read from its middle.

    A line that was not finished when it was taken is read again as a whole.
    """
    if not _line_by_line(form, data):
        return None
    finished = data[size - 1 : size] == b"\n" or data[size : size + 1] == b"\n"
    at = size if finished else data.rfind(b"\n", 0, size) + 1
    lines_before = data.count(b"\n", 0, at)
    heading = data[: data.find(b"\n") + 1] if form.name == nvidia_smi_csv.NAME and at else b""
    return Rest(data=heading + data[at:], lines_before=lines_before - bool(heading))


def _line_by_line(form: Format, data: bytes) -> bool:
    """Whether each line says all there is to know of it. Slots of a CSV without an index depend on earlier lines."""
    first = data[: data.find(b"\n")].rstrip()
    if form.name == nvidia_smi_csv.NAME:
        return re.search(rb"\bindex\b", first) is not None
    if form.lines or form.name.startswith(wire.NAME):
        return first.endswith(b"}")
    return form.name in (host_log.NAME, fabric_manager_log.NAME)
