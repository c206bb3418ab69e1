"""Lists in a line of text."""

from collections.abc import Sequence


def some(names: Sequence[str], most: int = 3) -> str:
    """The first few names and how many more."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
