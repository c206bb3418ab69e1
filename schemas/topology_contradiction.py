"""One thing in a topology that does not add up."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["cannot be cabled", "contradicts", "note"]


@dataclass(frozen=True)
class Contradiction:
    """what: a sentence without numbers. arithmetic: the sum spelled out, computed from the numbers at hand."""

    what: str
    arithmetic: str
    severity: Severity = "contradicts"
