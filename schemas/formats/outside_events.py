"""Outside events from files and messages: annotations as Grafana's HTTP API has them, and our own columns.

An annotation is an object {"time": 1507037197339, "timeEnd": ..., "tags": ["deploy", "pdu:pdu-003"], "text": "..."}; a
list of them is what GET /api/annotations answers. Ours has the columns of outside_event. Both may be mixed: one object,
a list, a line each, or a CSV whose heading names them (several tags or things touched are separated by ; or blanks).
"""

import csv
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.json_values import documents, microseconds, since_epoch
from schemas.outside_event import KINDS, NAME_CHARACTERS_MAXIMUM, TEXT_CHARACTERS_MAXIMUM
from schemas.tables import TABLE_BY_NAME

NAME = "outside events"
VERSIONS = "annotations of Grafana's HTTP API 9-12 (POST and GET); JSON, JSON lines or CSV with outside_event's columns"
LEAVES = "dashboard, panel, alert and colour of an annotation"
COLUMNS = TABLE_BY_NAME["outside_event"].columns
LISTED_MAXIMUM = 256
DOMAINS = ("gpu", "node", "link", "cable", "switch", "rack", "pdu", "cdu", "superblock", "pod", "job")
"""A tag kind:id of these says what an annotation touches."""
DEFAULT_KIND = "annotation"
# Other names that sources use for our columns, the first that is there counts.
SPELLED: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "timestamp", "starts_at"), "ends_at": ("ends_at", "timeEnd", "time_end"),
    "recorded_at": ("recorded_at", "created"), "kind": ("kind",), "title": ("title",), "details": ("details", "text"),
    "who": ("who", "userName", "login", "author"), "link": ("link", "url"), "id": ("id",),
}  # fmt: skip
JSON_LIKE = re.compile(r'\A\s*\[?\s*\{(?=.*"time(?:End|_end)?"\s*:)(?=.*"(?:text|title)"\s*:)', re.DOTALL)
OURS_LIKE = re.compile(r'"(?:tags|timeEnd|touches|kind)"\s*:')
CSV_LIKE = re.compile(r"\A(?=[^\n]*\btime\b)(?=[^\n]*\b(?:title|text)\b)[\w ,;]+\r?\n")
SEPARATOR = re.compile(r"[;\s]+")


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return bool((JSON_LIKE.match(text) and OURS_LIKE.search(text)) or CSV_LIKE.match(text))


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """outside_event rows. An event without a time happened when it was received, where that is known. Rejects: what
    has no text, no time, or a time that is none. Raises Unreadable for what is neither JSON nor CSV.
    """
    payload.bounded(data, surroundings, NAME)
    rejects: list[Reject] = []
    rows = []
    for place, entry in _entries(data, surroundings, rejects):
        try:
            rows.append(row_of(entry, surroundings.received_at, surroundings.utc_offset_minutes))
        except ValueError as error:
            raw = str(entry).encode("utf-8", "replace")
            rejects.append(Reject(rule="event|incomplete", reason=f"{place}: {error}", place=place, raw=raw))
    tables = {"outside_event": pl.DataFrame(rows, schema=COLUMNS)} if rows else {}
    return Decoded(tables=tables, rejects=rejects_frame(rejects, "outside_event"))


def row_of(entry: Any, received_at: datetime, utc_offset_minutes: int = 0) -> dict[str, Any]:
    """One row of outside_event. Raises ValueError, one line, for what cannot be one."""
    if not isinstance(entry, Mapping):
        raise ValueError("an event is an object with at least time and text or title")  # noqa: TRY004  told to people
    said = {column: _said(entry, names) for column, names in SPELLED.items()}
    tags, touches = _listed(entry.get("tags")), _listed(entry.get("touches"))
    touches = list(dict.fromkeys([*touches, *filter(None, map(_touched, tags))]))
    if not (said["title"] or said["details"]):
        raise ValueError("no text or title")
    received = since_epoch(received_at) or None
    time = received if said["time"] is None else microseconds(said["time"], utc_offset_minutes)
    if time is None:
        raise ValueError("no time" if said["time"] is None else f"time {str(said['time'])[:40]!r} is none")
    ends = _instant(said["ends_at"], "end", utc_offset_minutes)
    if ends is not None and ends < time:
        raise ValueError("it ends before it begins")
    recorded = _instant(said["recorded_at"], "recorded_at", utc_offset_minutes)
    details = _text(said["details"])
    title = (_text(said["title"]) or details or "").splitlines()[0][:NAME_CHARACTERS_MAXIMUM]
    return {
        "time": time, "ends_at": None if ends == time else ends, "recorded_at": recorded or received,
        "kind": _text(said["kind"]) or next((tag for tag in tags if tag in KINDS), DEFAULT_KIND), "title": title,
        "details": None if details == title else details, "who": _text(said["who"]), "touches": touches or None,
        "link": _text(said["link"]), "tags": tags or None, "id": _text(said["id"]),
    }  # fmt: skip


def _entries(data: bytes, surroundings: Surroundings, rejects: list[Reject]) -> Iterator[tuple[int, Any]]:
    if data.removeprefix(payload.UTF8_MARK).lstrip()[:1] in (b"{", b"["):
        yield from documents(data, surroundings, NAME, rejects)
        return
    text = payload.text(data, surroundings, NAME)
    if not CSV_LIKE.match(text):
        raise Unreadable(f"{NAME}: neither JSON nor a CSV whose heading has time and title or text")
    try:
        for number, row in enumerate(csv.DictReader(text.splitlines()), 2):
            yield number, {key.strip(): value for key, value in row.items() if key is not None}
    except csv.Error as error:
        raise Unreadable(f"{NAME}: no CSV: {error}") from None


def _said(entry: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The first of these that says something; 0 and blanks are how Grafana and CSV leave a thing out."""
    values = (entry.get(name) for name in names)
    plain = (value for value in values if isinstance(value, str | int | float) and not isinstance(value, bool))
    return next((value for value in plain if str(value).strip(" 0")), None)


def _listed(value: Any) -> list[str]:
    items = SEPARATOR.split(value) if isinstance(value, str) else value if isinstance(value, list) else []
    texts = (_text(item) for item in items[:LISTED_MAXIMUM] if isinstance(item, str | int | float))
    return [text[:NAME_CHARACTERS_MAXIMUM] for text in texts if text]


def _touched(tag: str) -> str | None:
    kind, _, entity = tag.replace("=", ":", 1).partition(":")
    return f"{kind}={entity}" if kind in DOMAINS and entity else None


def _instant(value: Any, what: str, utc_offset_minutes: int) -> int | None:
    if value is None:
        return None
    moment = microseconds(value, utc_offset_minutes)
    if moment is None:
        raise ValueError(f"{what} {str(value)[:40]!r} is no time")
    return moment


def _text(value: Any) -> str | None:
    """Without blanks around it and what is no character (JSON can name half a surrogate pair)."""
    if value is None:
        return None
    return str(value)[:TEXT_CHARACTERS_MAXIMUM].encode("utf-8", "replace").decode().strip() or None
