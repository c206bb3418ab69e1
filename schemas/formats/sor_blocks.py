"""The frame of a .sor file: the map, the blocks it lists, and reading a block without leaving it."""

import struct
from dataclasses import dataclass

from schemas.formats.decoded import Unreadable

MARK = b"Map\0"
NAME_CHARACTERS_MAXIMUM = 64


class Cursor:
    """Reads little-endian fields of one block in order; whatever does not fit raises Unreadable with its name."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self._data, self._at = name, data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, length: int) -> bytes:
        if length > self.left:
            raise Unreadable(
                f"SOR: block {self.name} ends at byte {len(self._data)}, {length - self.left} byte(s) early"
            )
        self._at += length
        return self._data[self._at - length : self._at]

    def skip(self, length: int) -> None:
        self.take(length)

    def number(self, code: str) -> int:
        """One integer, by its struct code: H and h 16 bits, I and i 32."""
        (value,) = struct.unpack(f"<{code}", self.take(struct.calcsize(code)))
        return int(value)

    def characters(self, length: int) -> str:
        return self.take(length).decode("latin-1").strip(" \0")

    def string(self) -> str:
        """Text up to its NUL. Empty fields are one space, so spaces at the ends mean nothing."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise Unreadable(f"SOR: block {self.name} ends within a text that starts at its byte {self._at}")
        value = self._data[self._at : end].decode("utf-8", errors="replace").strip()
        self._at = end + 1
        return value


@dataclass(frozen=True)
class Block:
    """One block: its bytes without the name that version 2 repeats at its start; end: offset in the file."""

    name: str
    version: int
    data: bytes
    end: int

    def cursor(self) -> Cursor:
        return Cursor(self.name, self.data)


def read_map(data: bytes) -> tuple[int, int, tuple[Block, ...]]:
    """Format version (1 or 2), map version (100 = 1.00) and the blocks in the order of the map."""
    second = data.startswith(MARK)
    head = Cursor("Map", data[len(MARK) :] if second else data)
    version, size, count = head.number("H"), head.number("I"), head.number("H")
    if not (second or 100 <= version < 200) or count == 0 or size > len(data):
        raise Unreadable(
            f"SOR: block Map does not describe this file (version {version}, {size} bytes, {count} blocks)"
        )
    head = Cursor("Map", data[len(MARK) * second + 8 : size])
    blocks, at = [], size
    for _ in range(count - 1):
        name, block_version, length = head.string(), head.number("H"), head.number("I")
        name = name[:NAME_CHARACTERS_MAXIMUM]
        if at + length > len(data):
            raise Unreadable(f"SOR: block {name} ends at byte {at + length}, the file at byte {len(data)}")
        body = data[at : at + length]
        at += length
        if second and body.startswith(mark := name.encode() + b"\0"):
            body = body[len(mark) :]
        blocks.append(Block(name, block_version, body, at))
    return 2 if second else 1, version, tuple(blocks)
