"""Incidents against the truth, by the honest protocol: events, not points, and nothing is adjusted.

A true positive is the first incident that names at least one right root within the deadline of the onset. Whether it
also names the right cause is counted apart. More incidents on the same fault are duplicates; incidents that no fault
explains are false. Nothing is forgiven for being close in time to a fault elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from schemas.incident import Incident

DEADLINE_SECONDS_MINIMUM = 60.0
SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True, kw_only=True)
class CauseScore:
    """One cause. Ratios are null where nothing can be divided; seconds from the true onset to detected_at.

    faults: in the truth. detected: of them, in time. incidents: said with this cause, duplicates aside. right: of
    those, the ones that a fault of this cause explains. top_1: of the detected, the ones whose first root is right
    and whose cause is right. late: named, but after the deadline. member_recall: members found, over the true ones.
    """

    cause: str
    faults: int
    detected: int
    late: int
    incidents: int
    right: int
    duplicates: int
    false_incidents: int
    precision: float | None
    recall: float | None
    cause_accuracy: float | None
    top_1: float | None
    member_recall: float | None
    onset_to_detection_p50_seconds: float | None
    onset_to_detection_p95_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Scorecard:
    """causes: those in the truth or said, in order of name; total: all together."""

    causes: tuple[CauseScore, ...]
    total: CauseScore
    false_incidents_per_day: float
    stream_seconds: float

    def frame(self) -> pl.DataFrame:
        """One row a cause, the total last."""
        return pl.DataFrame([vars(score) for score in (*self.causes, self.total)], infer_schema_length=None)


@dataclass(frozen=True, kw_only=True)
class _Match:
    """What became of one fault."""

    cause: str
    first: Incident | None
    in_time: bool
    seconds: float
    duplicates: int
    first_root_right: bool
    member_recall: float | None


def score(
    incidents: Sequence[Incident],
    labels: pl.DataFrame,
    *,
    stream_seconds: float,
    deadlines_seconds: Mapping[str, float] | None = None,
    lead_seconds: float = 300.0,
) -> Scorecard:
    """Judge incidents by labels (schemas.label).

    deadlines_seconds: by cause; never less than 60 s. lead_seconds: an incident up to that long before the onset is an
    early warning and counts, with negative seconds. An incident belongs to the fault whose root it names that began
    last before it; suspects are not incidents yet and do not count.
    """
    said = sorted((each for each in incidents if each.state != "suspect"), key=lambda each: (each.detected_at, each.id))
    faults = sorted(labels.to_dicts(), key=lambda row: (row["starts_at"], row["cause"]))
    owner = {each.id: _owner(each, faults, timedelta(seconds=lead_seconds)) for each in said}
    matches = []
    for index, fault in enumerate(faults):
        mine = [each for each in said if owner[each.id] == index]
        deadline = max(DEADLINE_SECONDS_MINIMUM, (deadlines_seconds or {}).get(fault["cause"], 0.0))
        matches.append(_match(fault, mine, deadline))
    false = [each for each in said if owner[each.id] is None]
    causes = sorted({match.cause for match in matches} | {each.cause for each in said})
    firsts = [match.first for match in matches if match.first is not None]
    by_cause = tuple(
        _cause_score(
            cause,
            [match for match in matches if match.cause == cause],
            [each for each in firsts if each.cause == cause],
            [each for each in false if each.cause == cause],
        )
        for cause in causes
    )
    return Scorecard(
        causes=by_cause,
        total=_cause_score("all", matches, firsts, false),
        false_incidents_per_day=len(false) * SECONDS_PER_DAY / stream_seconds,
        stream_seconds=stream_seconds,
    )


def _owner(incident: Incident, faults: Sequence[Mapping[str, Any]], lead: timedelta) -> int | None:
    """The fault that explains the incident: it names a root of it and overlaps it in time, the latest such."""
    found = None
    for index, fault in enumerate(faults):
        if incident.root_kind != fault["root_kind"] and not _same_thing(incident.root_kind, fault["root_kind"]):
            continue
        if not set(incident.roots) & set(fault["roots"]):
            continue
        begun = incident.detected_at >= fault["starts_at"] - lead
        if begun and _not_over(incident, fault["ends_at"]):
            found = index
    return found


def _same_thing(kind: str, other: str) -> bool:
    """A link and its cable share one name."""
    return {kind, other} == {"link", "cable"}


def _not_over(incident: Incident, ends_at: datetime | None) -> bool:
    """An incident may be detected after a short fault is over, if it says it began before that."""
    return ends_at is None or incident.starts_at < ends_at or incident.detected_at < ends_at


def _match(fault: Mapping[str, Any], mine: Sequence[Incident], deadline: float) -> _Match:
    first = mine[0] if mine else None
    seconds = (first.detected_at - fault["starts_at"]).total_seconds() if first else float("nan")
    members = set(fault["members"] or ())
    return _Match(
        cause=fault["cause"],
        first=first,
        in_time=first is not None and seconds <= deadline,
        seconds=seconds,
        duplicates=max(0, len(mine) - 1),
        first_root_right=first is not None and first.roots[0] in fault["roots"],
        member_recall=len(members & set(first.members)) / len(members) if members and first else None,
    )


def _cause_score(
    cause: str, matches: Sequence[_Match], firsts: Sequence[Incident], false: Sequence[Incident]
) -> CauseScore:
    """matches: the faults of this cause. firsts, false: the incidents that say this cause."""
    detected = [match for match in matches if match.in_time]
    right_cause = [match for match in detected if match.first is not None and match.first.cause == match.cause]
    in_time = {match.first.id for match in matches if match.in_time and match.first is not None}
    right = [each for each in firsts if each.id in in_time] if cause == "all" else [
        match.first for match in right_cause if match.first is not None
    ]  # fmt: skip
    said = len(firsts) + len(false)
    recalls = [match.member_recall for match in detected if match.member_recall is not None]
    seconds = [match.seconds for match in detected]
    return CauseScore(
        cause=cause,
        faults=len(matches),
        detected=len(detected),
        late=sum(match.first is not None and not match.in_time for match in matches),
        incidents=said,
        right=len(right),
        duplicates=sum(match.duplicates for match in matches),
        false_incidents=len(false),
        precision=len(right) / said if said else None,
        recall=len(detected) / len(matches) if matches else None,
        cause_accuracy=len(right_cause) / len(detected) if detected else None,
        top_1=sum(match.first_root_right for match in right_cause) / len(detected) if detected else None,
        member_recall=float(np.mean(recalls)) if recalls else None,
        onset_to_detection_p50_seconds=float(np.percentile(seconds, 50)) if seconds else None,
        onset_to_detection_p95_seconds=float(np.percentile(seconds, 95)) if seconds else None,
    )
