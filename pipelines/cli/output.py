"""What a command shows: JSON for programs, rich tables on a terminal, the same as plain text elsewhere."""

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from pipelines.operations_people import SAID_MAXIMUM
from pipelines.recovery.settings import RecoverySettings
from pipelines.stream import LAST_RESORTS, LATE_SECONDS
from pipelines.wording import about, printable, some, stands
from schemas.action import ActionRecord
from schemas.incident import Incident

FOUND_SOMETHING = 1
WRONG_USE = 2
PLAIN_COLUMNS = 400  # more than any row needs, so that none is broken
NARROW_COLUMNS = 130
VERY_NARROW_COLUMNS = 100
WHOLE = ("id", "incident", "cause", "severity", "state", "began", "detected", "ended", "action", "at")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
SettingsFile = Annotated[
    str | None, typer.Option("--settings", help="Settings file; default hotspare.toml if present.")
]


class Refused(RuntimeError):
    """Wrong use, or something that must not be done: one clear line, exit 2."""


class _Screen(Console):
    """Shows text as it is: no name in it is a command to the terminal."""

    def render_str(self, text: str, **named: Any) -> Text:
        return super().render_str(printable(text, keep="\n"), **named)


def console() -> Console:
    """Where text goes. Without a terminal it is plain and wide, so that pipes see whole lines."""
    if sys.stdout.isatty():
        return _Screen(highlight=False, markup=False, emoji=False)
    return _Screen(highlight=False, markup=False, emoji=False, width=PLAIN_COLUMNS, no_color=True, soft_wrap=True)


def print_json(document: Any) -> None:
    sys.stdout.write(as_json_text(document))


def as_json_text(document: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(document, enc_hook=_encode), indent=2).decode() + "\n"


def _encode(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def write_whole(to: Path, content: bytes | str) -> None:
    """The file with this content, or as it was before: nobody finds half of it."""
    part = to.with_name(f"{to.name}.part")
    try:
        part.write_bytes(content if isinstance(content, bytes) else content.encode())
        part.replace(to)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise Refused(f"{to}: {error.strerror or error}") from None


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> RichTable:
    """Cells are data, never markup: a host name in brackets is shown as it is. Columns in WHOLE are never broken.

    Without a terminal there are no lines around the cells, so that other programs can cut and search them.
    """
    lines = box.SIMPLE_HEAD if sys.stdout.isatty() else None
    shown = RichTable(title=title, title_justify="left", header_style="bold", box=lines, pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold", no_wrap=column in WHOLE)
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, Text) else Text(cut(cell)) for cell in row))
    return shown


def cut(cell: object) -> str:
    """What fits on a screen beside other things: no more than a person may say. `--json` gives it whole."""
    text = "" if cell is None else printable(str(cell), keep="\n")
    return text if len(text) <= SAID_MAXIMUM else f"{text[: SAID_MAXIMUM - 1]}\u2026"


def moment(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"


def incident_document(incident: Incident, actions: Iterable[ActionRecord] = ()) -> dict[str, Any]:
    """An incident as `replay --json` gives it (docs: README, design.md section 8)."""
    return {
        "id": incident.id,
        "cause": incident.cause,
        "severity": incident.severity,
        "state": incident.state,
        "root": {"kind": incident.root_kind, "ids": list(incident.roots)},
        "members": list(incident.members),
        "symptoms": [{"kind": kind, "id": entity} for kind, entity in incident.symptoms],
        "starts_at": incident.starts_at,
        "detected_at": incident.detected_at,
        "ends_at": incident.ends_at,
        "evidence": list(incident.evidence),
        "actions": [action_document(record) for record in actions if record.request.incident == incident.id],
    }


def action_document(record: ActionRecord) -> dict[str, Any]:
    return {
        "id": record.request.id,
        "kind": record.request.kind,
        "target": record.request.target,
        "parameters": record.request.parameters,
        "mode": record.mode,
        "outcome": record.outcome,
        "why": record.why,
        "at": record.at,
    }


def incidents_table(incidents: Sequence[Incident]) -> RichTable:
    """Times of one day are shown without their date, which then stands above. A narrow terminal gets fewer columns."""
    days = {f"{incident.detected_at:%Y-%m-%d}" for incident in incidents}
    title, shape = (f"Incidents of {min(days)}", "%H:%M:%S") if len(days) == 1 else ("Incidents", "%Y-%m-%d %H:%M:%S")
    columns: dict[str, Callable[[Incident], object]] = {
        "id": lambda one: one.id,
        "cause": lambda one: one.cause,
        "severity": lambda one: one.severity,
        "state": lambda one: one.state,
        "root": lambda one: f"{one.root_kind} {some(one.roots)}",
        "GPUs": lambda one: len(one.members),
        "began": lambda one: f"{one.starts_at:{shape}}",
        "detected": lambda one: f"{one.detected_at:{shape}}",
        "after": lambda one: f"{(one.detected_at - one.starts_at).total_seconds():.1f} s",
        "ended": lambda one: "" if one.ends_at is None else f"{one.ends_at:{shape}}",
    }
    width = console().width
    left_out = {"severity", "after", "ended"} if width < NARROW_COLUMNS else set()
    left_out |= {"began", "GPUs"} if width < VERY_NARROW_COLUMNS else set()
    columns = {name: value for name, value in columns.items() if name not in left_out}
    return table(f"{title} (UTC)", tuple(columns), ([value(one) for value in columns.values()] for one in incidents))


def actions_table(records: Sequence[ActionRecord], *, when: bool = False) -> RichTable:
    """when: with the time of each outcome."""
    rows = (
        (r.request.id, r.request.incident, r.request.kind, r.request.target, stands(r), moment(r.at), about(r))
        for r in records
    )
    columns = ("id", "incident", "action", "target", "outcome", "at", "why")
    if when:
        return table("Recovery actions (UTC)", columns, rows)
    return table("Recovery actions", (*columns[:5], "why"), ((*row[:5], row[6]) for row in rows))


def rehearsed(records: Iterable[ActionRecord], settings: RecoverySettings) -> int:
    """How many were rehearsed though the settings enforce their kind: what they answer to was history by then."""
    return sum(record.mode == "dry-run" and settings.mode_of(record.request.kind) == "enforce" for record in records)


def rehearsed_line(count: int, settings: RecoverySettings) -> str:
    return (
        f"{count} of these actions: history, rehearsed and not done. recovery.mode is enforce, but what they answer to "
        f"was more than {settings.expires_seconds:g} s old when it was taken in, or {LATE_SECONDS:g} s for "
        f"{' and '.join(LAST_RESORTS)} (or enforce was not yet set)."
    )
