"""What the JSON formats share: reading documents within bounds, and telling numbers from words that stand for them."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from schemas.formats import payload
from schemas.formats.decoded import Reject, Surroundings, Unreadable

DOCUMENT_BYTES_MAXIMUM = 64 * 1024 * 1024  # a tree of Python objects is some twenty times its text
MICROSECONDS_MAXIMUM = 253_402_300_799_999_999  # the last of the year 9999
NUMBER = re.compile(r"[+-]?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,4})?")
NOT_REPORTED = re.compile(r"\[?(|n/?a|none|null|unknown|not supported|not available|unsupported|nan)\]?", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def document(data: bytes, surroundings: Surroundings, format_name: str) -> Any:
    """The one JSON document. Raises Unreadable with line and column, also for one that is nested too deeply (a depth
    near 1,000, where the parser stops) or too large. NaN and Infinity, which JSON has not but Python writes, are read.
    """
    payload.bounded(data, surroundings, format_name)
    if len(data) > DOCUMENT_BYTES_MAXIMUM:
        raise Unreadable(f"{format_name}: a JSON document of {len(data)} bytes, the limit is {DOCUMENT_BYTES_MAXIMUM}")
    try:
        return parsed(data)
    except ValueError as error:
        raise Unreadable(f"{format_name}: {error}") from None


def documents(
    data: bytes, surroundings: Surroundings, format_name: str, rejects: list[Reject]
) -> Iterator[tuple[int, Any]]:
    """(place, value) of each item of a list, of the one object, or of each line; places count from 1.

    A line that is no JSON costs only itself: it is added to `rejects`. Raises Unreadable when nothing is JSON.
    """
    try:
        whole = document(data, surroundings, format_name)
    except Unreadable as error:
        lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
        if len(lines) < 2 or not any(_is_line(line) for _, line in lines):
            raise
        yield from _lines(lines, rejects, error)
        return
    if isinstance(whole, list):
        yield from enumerate(whole, 1)
    else:
        yield 1, whole


def parsed(data: bytes) -> Any:
    """The value. Raises ValueError in one line."""
    data = data.removeprefix(payload.UTF8_MARK)
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise ValueError("no JSON: nested too deeply") from None
    except msgspec.DecodeError:
        pass  # the standard parser names line and column, and reads NaN
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("no JSON: nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise ValueError(f"no JSON: {str(error).splitlines()[0][:200]}") from None


def _is_line(line: bytes) -> bool:
    line = line.strip()
    if line[:1] + line[-1:] not in (b"{}", b"[]") or len(line) <= 2:
        return False
    try:
        parsed(line)
    except ValueError:
        return False
    return True


def _lines(lines: list[tuple[int, bytes]], rejects: list[Reject], error: Unreadable) -> Iterator[tuple[int, Any]]:
    for number, line in lines:
        if len(line) > DOCUMENT_BYTES_MAXIMUM:
            raise error
        try:
            value = parsed(line)
        except ValueError as problem:
            reason = f"line {number}: {problem}"
            rejects.append(Reject(rule="line|json", reason=reason, place=number, raw=line))
            continue
        yield number, value


def microseconds(value: Any, utc_offset_minutes: int = 0) -> int | None:
    """A time as microseconds since the epoch: ISO 8601, or a count of s, ms, us or ns, told apart by size (1e11 s is
    the year 5138, 1e11 ms 1973). A time without a zone is local, so the offset is taken off. None: no time.
    """
    if isinstance(value, str):
        value = value.strip()
        if NUMBER.fullmatch(value):
            value = int(value) if value.isdigit() else float(value)
        else:
            return _iso(value, utc_offset_minutes)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e20:
        return None
    for limit, factor, divisor in ((1e11, 1_000_000, 1), (1e14, 1000, 1), (1e17, 1, 1), (1e20, 1, 1000)):
        if value < limit:
            micros = int(value * factor) if isinstance(value, float) else value * factor
            micros //= divisor
            return micros if micros <= MICROSECONDS_MAXIMUM else None
    return None


def since_epoch(moment: datetime) -> int:
    """Microseconds."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _iso(text: str, utc_offset_minutes: int) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC) - timedelta(minutes=utc_offset_minutes)
        micros = since_epoch(moment)
    except (ValueError, OverflowError):
        return None
    return micros if 0 <= micros <= MICROSECONDS_MAXIMUM else None


@dataclass
class Readings:
    """Reads numbers where a word may stand, and counts the words: one reject a field, not one a reading."""

    lost: dict[tuple[str, str], tuple[int, Any, int]] = field(default_factory=dict)

    def number(self, name: str, value: Any, place: int) -> float | None:
        """The number, also when written as text. None for null, which says that there is no reading; for a word or
        NaN None too, and counted.
        """
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            found = float(value) if abs(value) < 1e300 else math.nan
            if math.isfinite(found):
                return found
        elif isinstance(value, str) and NUMBER.fullmatch(value.strip()):
            found = float(value)
            if math.isfinite(found):
                return found
        self.lose(name, "absent" if isinstance(value, str) and NOT_REPORTED.fullmatch(value.strip()) else "type",
                  value, place)  # fmt: skip
        return None

    def lose(self, name: str, rule: str, value: Any, place: int) -> None:
        count, first, at = self.lost.get((name, rule), (0, value, place))
        self.lost[name, rule] = (count + 1, first, at)

    def rejects(self, place: str) -> list[Reject]:
        """place: what a place is, a line or a message."""
        return [
            Reject(
                rule=f"{name}|{rule}", place=at, raw=repr(first)[:200].encode(errors="replace"),
                reason=f"{name}: {count} reading(s) no number, first {repr(first)[:80]} in {place} {at}",
            )
            for (name, rule), (count, first, at) in self.lost.items()
        ]  # fmt: skip
