"""What many fibres say together: lengths that should match, the share that is rejected, and why."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from detectors.fiber.reason import Reason, Verdict
from detectors.fiber.resolution import Resolution, decide
from detectors.fiber.span import Span


def length_match(spans: Sequence[Span], tolerance_meters: float, resolution: Resolution) -> list[Reason | None]:
    """For the cables of one group, whether the longest and the shortest differ by at most the tolerance.

    Where they do not, who is farther than half the tolerance from the group's median is to blame; who is so near to
    that limit that the uncertainty decides cannot be told. The uncertainty is that of the difference of two shots
    taken alike (Resolution).
    """
    known = [(index, span) for index, span in enumerate(spans) if span.length_meters is not None]
    reasons: list[Reason | None] = [None] * len(spans)
    if len(known) < 2:
        return reasons
    lengths = {index: span.length_meters or 0.0 for index, span in known}
    shortest, longest = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
    spread = lengths[longest] - lengths[shortest]
    uncertainty = max(
        resolution.pair_uncertainty_meters(one.shot, other.shot) for _, one in known for _, other in known
    )
    verdict = decide(spread, tolerance_meters, uncertainty)
    if verdict == "PASS":
        return reasons
    middle = median(lengths.values())
    said = f"lengths of its group differ by {spread:.3f} m +- {uncertainty:.3f}, allowed {tolerance_meters:g}"
    for index, length in lengths.items():
        mine = decide(2 * abs(length - middle), tolerance_meters, uncertainty)
        if mine != "PASS":
            reasons[index] = Reason("group_length", mine if verdict == "FAIL" else verdict, said)
    return reasons


def rejected_share(verdicts: Sequence[Verdict]) -> float | None:
    """Share that failed, of those that could be judged; None where none could."""
    judged = [verdict for verdict in verdicts if verdict != "UNRESOLVABLE"]
    return judged.count("FAIL") / len(judged) if judged else None


def count_by_reason(fibres: Iterable[Iterable[Reason]], verdict: Verdict) -> dict[str, int]:
    """How many fibres each reason of that verdict is given for, most frequent first."""
    counts = Counter(
        name for reasons in fibres for name in {reason.name for reason in reasons if reason.verdict == verdict}
    )
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
