"""Wire messages that are written alike, read column by column without a Python object for each message's values.

Senders write the same keys in the same order with the same spacing. From one message a pattern is made that takes
others of its kind apart into the text of each column. Numbers of many messages are then decoded as one list, and a
text that comes again and again (names, slots, what a job says of itself) once.

The decoder judges every piece by its type, so that a message reads here as it would alone: where a piece between the
keys is a whole JSON value, JSON's grammar ends that value at the same place. Whatever does not match, or whose pieces
the decoder refuses, is left to who decodes messages one by one, with its whole chunk where need be.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import methodcaller
from typing import Any

import msgspec
import polars as pl

from schemas.columns import UTC_MICROSECONDS
from schemas.formats.wire_columns import inner_of
from schemas.tables import Table

MESSAGES_MINIMUM = 32  # to make a pattern costs as much as to decode some twenty messages
MESSAGES_TOGETHER = 512
LAYOUTS_TRIED = 6  # of one batch
ROWS_PER_MESSAGE_MAXIMUM = 1_000_000
_STYLES = ((b",", b":"), (b", ", b": "))  # compact, and as Python's own encoder writes
_TEXTS: dict[pl.DataType, type] = {pl.Float64(): float, pl.Int64(): int, pl.Boolean(): bool, pl.String(): str}

Pieces = Sequence[bytes]
Values = tuple[list[Any], list[int] | None]
"""Of all messages, one after the other; and how many each has, None where each has one for all its rows."""


class _Refused(Exception):
    """The pieces are not what the layout says."""


@dataclass(frozen=True)
class Layout:
    """names: keys in their order. shape: which of them hold a list with an element for each row. readers: from a
    column's pieces to its values.
    """

    names: tuple[str, ...]
    shape: tuple[bool, ...]
    pattern: re.Pattern[bytes]
    readers: tuple[Callable[[Pieces], Values], ...]


@dataclass
class Laid:
    """Messages of one layout. indices: of them. lengths: rows of each. columns: values by name of the layout."""

    layout: Layout
    indices: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    columns: list[list[Any]] = field(default_factory=list)


def lay_out(messages: list[bytes], indices: list[int], table: Table) -> tuple[list[Laid], list[int]]:
    """Those of the messages at `indices` that share a few layouts, and the indices of all others."""
    found: list[Laid] = []
    others: list[int] = []
    left = indices
    for _ in range(LAYOUTS_TRIED):
        if len(left) < MESSAGES_MINIMUM:
            break
        layout = layout_of(messages[left[0]], table)
        if layout is None:
            others.append(left[0])
            left = left[1:]
            continue
        laid, unlike, fullmatch = Laid(layout), [], layout.pattern.fullmatch
        for begin in range(0, len(left), MESSAGES_TOGETHER):
            some = left[begin : begin + MESSAGES_TOGETHER]
            pieces = [match.groups() if (match := fullmatch(messages[index])) else None for index in some]
            here = [index for index, of_it in zip(some, pieces, strict=True) if of_it]
            if here and not _gather(laid, here, list(filter(None, pieces))):
                others += here
            if len(here) < len(some):
                unlike += [index for index, of_it in zip(some, pieces, strict=True) if not of_it]
        if laid.indices:
            found.append(laid)
        left = unlike
    return found, sorted([*others, *left])


def layout_of(message: bytes, table: Table) -> Layout | None:
    """The layout of a message; None where not all of its columns are the table's, or it is written in its own way."""
    types = table.columns
    try:
        value = msgspec.json.decode(message)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not isinstance(value, dict) or not value or any(name not in types for name in value):
        return None
    columns = [_column(item, types[name]) for name, item in value.items()]
    parts, shape, readers = zip(*columns, strict=True)
    for comma, colon in _STYLES:
        keys = [re.escape(json.dumps(name).encode() + colon) for name in value]
        ends = [comma] * (len(keys) - 1) + [b"}"]
        text = b"".join(
            key + part.replace(b"END", re.escape(end[:1])) + re.escape(end)
            for key, part, end in zip(keys, parts, ends, strict=True)
        )
        pattern = re.compile(rb"\{" + text + rb"[ \t\r\n]*")
        if pattern.fullmatch(message):
            return Layout(tuple(value), shape, pattern, readers)
    return None


def _gather(laid: Laid, indices: list[int], pieces: list[tuple[bytes, ...]]) -> bool:
    """Add these messages of the layout; False, and nothing added, where a piece of theirs is refused."""
    layout = laid.layout
    columns = zip(*pieces, strict=True)
    try:
        read = [reader(column) for reader, column in zip(layout.readers, columns, strict=True)]
        lengths = _one_length([count for _, count in read if count is not None], len(indices))
    except (msgspec.MsgspecError, _Refused):
        return False
    if not any(layout.shape) and None in read[0][0]:
        return False  # a message of nothing but nulls is a reject
    laid.columns = laid.columns or [[] for _ in layout.names]
    for values, (more, _) in zip(laid.columns, read, strict=True):
        values.extend(more)
    laid.indices.extend(indices)
    laid.lengths.extend(lengths)
    return True


def _one_length(counts: list[list[int]], messages: int) -> list[int]:
    """Rows of each message. Raises where its lists disagree, or none could be that long."""
    if not counts:
        return [1] * messages
    if (
        any(other != counts[0] for other in counts)
        or not 0 < min(counts[0]) <= max(counts[0]) <= ROWS_PER_MESSAGE_MAXIMUM
    ):
        raise _Refused
    return counts[0]


def _column(item: Any, dtype: pl.DataType) -> tuple[bytes, bool, Callable[[Pieces], Values]]:
    """Pattern of the column's text, whether it is a list of rows, and its reader, after one value of it. END stands for
    what comes after the text.
    """
    rows = isinstance(item, list)
    if isinstance(dtype, pl.List):
        if rows and any(isinstance(part, list) for part in item):
            inner: Any = _TEXTS[inner_of(dtype)]
            return rb'\[([^"]*)\]', True, _Nested(_decoder_of(list[inner]))
        return rb"(null)", False, _Words()  # one row's value is left to who decodes one by one
    first = next((part for part in item if part is not None), None) if rows else item
    is_time_in_words = dtype == UTC_MICROSECONDS and isinstance(first, str)
    kind = str if is_time_in_words else _TEXTS.get(dtype, int)
    if rows:
        return rb"\[([^\]]+)\]", True, _Lists(_decoder_of(kind), is_text=kind is str)
    return (rb'("[^"]*"|null)', False, _Words()) if kind is str else (rb"([^END]+)", False, _Numbers(_decoder_of(kind)))


def _decoder_of(kind: Any) -> msgspec.json.Decoder[list[Any]]:
    return msgspec.json.Decoder(list[kind | None])


@dataclass(frozen=True)
class _Words:
    """Texts, each decoded by itself: a quote that is missing in one must not be found in the next."""

    def __call__(self, pieces: Pieces) -> Values:
        if pieces.count(pieces[0]) == len(pieces):
            return [_WORD.decode(pieces[0])] * len(pieces), None
        known = {piece: _WORD.decode(piece) for piece in set(pieces)}
        return list(map(known.__getitem__, pieces)), None


@dataclass(frozen=True)
class _Numbers:
    """Numbers, or true and false: what is between two commas is one of them, or refused."""

    decoder: msgspec.json.Decoder[list[Any]]

    def __call__(self, pieces: Pieces) -> Values:
        values = self.decoder.decode(b"[" + b",".join(pieces) + b"]")
        if len(values) != len(pieces):
            raise _Refused
        return values, None


@dataclass(frozen=True)
class _Lists:
    """Lists of a scalar kind. Those that come again are decoded once; texts always one by one, as of _Words."""

    decoder: msgspec.json.Decoder[list[Any]]
    is_text: bool

    def __call__(self, pieces: Pieces) -> Values:
        if pieces.count(pieces[0]) == len(pieces):
            values = self.decoder.decode(b"[" + pieces[0] + b"]")
            return values * len(pieces), [len(values)] * len(pieces)
        some = pieces[:: max(1, len(pieces) // 32)]
        if not self.is_text and 2 * len(set(some)) > len(some):
            values = self.decoder.decode(b"[" + b",".join(pieces) + b"]")
            counts = [commas + 1 for commas in map(_COMMAS, pieces)]
            if len(values) != sum(counts):  # a list of nothing but blanks has no comma, and no value either
                raise _Refused
            return values, counts
        known = {piece: self.decoder.decode(b"[" + piece + b"]") for piece in set(pieces)}
        lists = list(map(known.__getitem__, pieces))
        return list(chain.from_iterable(lists)), list(map(len, lists))


@dataclass(frozen=True)
class _Nested:
    """A list, or null, for each row."""

    decoder: msgspec.json.Decoder[list[Any]]

    def __call__(self, pieces: Pieces) -> Values:
        lists = [self.decoder.decode(b"[" + piece + b"]") for piece in pieces]
        return list(chain.from_iterable(lists)), list(map(len, lists))


_WORD = msgspec.json.Decoder(str | None)
_COMMAS = methodcaller("count", b",")
