"""Why a fibre does not pass, and what the reasons add up to."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["PASS", "FAIL", "UNRESOLVABLE"]


@dataclass(frozen=True)
class Reason:
    """name: connector_loss, splice_loss, reflectance, total_loss, length, group_length, baseline, changed: FAIL or not
    to be told; dead_zone, gainer, saturated, reel, no_end, nothing_measured, pair: cannot be told from these shots.
    """

    name: str
    verdict: Verdict
    text: str


def whole(reasons: Iterable[Reason]) -> Verdict:
    """FAIL where anything fails, else UNRESOLVABLE where anything cannot be told, else PASS."""
    verdicts = {reason.verdict for reason in reasons}
    return "FAIL" if "FAIL" in verdicts else "UNRESOLVABLE" if "UNRESOLVABLE" in verdicts else "PASS"
