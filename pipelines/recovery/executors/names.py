"""Names that come from telemetry, before they reach a command, a URL or a log: only plain ones pass."""

import re

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def plain(name: str) -> str | None:
    """The name if it is one that a host can have; None for anything else, whatever it would do."""
    return name if PLAIN.fullmatch(name) else None
