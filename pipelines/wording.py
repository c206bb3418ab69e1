"""Lists in a line of text, and text in a cell of a table."""

from collections.abc import Sequence
from html import escape


def some(names: Sequence[str], most: int = 3) -> str:
    """The first few names and how many more."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def in_a_cell(value: object) -> str:
    """Text for a cell of a Markdown table: never a new cell, a new line, or HTML."""
    line = " ".join(str(value).splitlines())
    return escape(line, quote=False).replace("\\", "\\\\").replace("|", "\\|")
