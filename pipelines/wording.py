"""Lists in a line of text, text in a cell of a table, text on a screen, and what is said of an action."""

from collections.abc import Sequence
from datetime import datetime
from html import escape

from pipelines.recovery.executors.contract import ONLY_LOGGED
from schemas.action import ActionRecord


def some(names: Sequence[str], most: int = 3) -> str:
    """The first few names and how many more."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def printable(text: str, keep: str = "") -> str:
    """Text that steers no terminal and does not turn round what stands beside it, whoever named something so: every
    other kind of blank becomes one, whatever else cannot be seen a question mark. keep: letters that stay.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep else " " if letter.isspace() else "?" for letter in text
    )


def in_a_cell(value: object) -> str:
    """Text for a cell of a Markdown table: never a new cell, a new line, a link, a picture or HTML."""
    line = printable(" ".join(str(value).splitlines()))
    return escape(line, quote=False).replace("\\", "\\\\").replace("|", "\\|").replace("[", "\\[")


def stands(record: ActionRecord) -> str:
    """The outcome in the word that people read: what was written to the action log, and no more, is not done."""
    return ONLY_LOGGED if is_only_logged(record) else record.outcome


def is_only_logged(record: ActionRecord) -> bool:
    return record.outcome == "done" and record.why.startswith(ONLY_LOGGED)


def why(record: ActionRecord) -> str:
    """Who or what let an action go ahead, and why it stands as it does, without the word that `stands` gives."""
    said = (record.why or record.request.reason).removeprefix(f"{ONLY_LOGGED}: ")
    approval = record.request.parameters.get("approval")
    return said if approval is None or approval in said else f"{approval}; {said}"


def about(record: ActionRecord) -> str:
    """Why an action stands as it does, what it takes with it, and when at the latest it is done."""
    parameters = record.request.parameters
    planned = record.mode == "dry-run" and record.outcome == "scheduled"
    said = [f"{'dry run ' if planned else ''}{why(record)}"]
    if stages := parameters.get("stages"):
        said.append(f"{sum(map(len, stages))} GPUs")
    if record.request.kind == "reclaim_gpus" and "nodes" in parameters:
        said.append(f"for {parameters['nodes']} nodes")
    if spares := parameters.get("spares"):
        said.append(f"spares {some(spares)}")
    deadline = parameters.get("deadline_at")
    if record.mode == "enforce" and record.outcome == "scheduled" and deadline is not None:
        at = datetime.fromisoformat(deadline)
        said.append(f"done at {at:%H:%M:%S} at the latest, approved or not, unless somebody rejects or cancels it")
    return "; ".join(said)
