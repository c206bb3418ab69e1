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

from replay.rates import per_day, poisson_upper
from schemas.incident import Incident

DEADLINE_SECONDS_MINIMUM = 60.0
SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True, kw_only=True)
class CauseScore:
    """One cause. Ratios are null where nothing can be divided; seconds from the true onset to detected_at.

    faults: in the truth. detected: of them, in time. incidents: said with this cause, duplicates aside. right: of
    those, the ones that a fault of this cause explains in time. cause_accuracy: of the detected, the share with the
    right cause. top_1, top_3: of the detected, the share with a right root first, or among the first three. late:
    named, but after the deadline. member_recall: true members that the incident names, over the true members.
    incidents_per_fault: of the detected, first and duplicates. before_hard_failure: of the faults that end in one, the
    share named before it; lead_p50_seconds: by how much, of those. abrupt: of the detected, those without a hard
    failure to come and without a deadline longer than DEADLINE_SECONDS_MINIMUM: others grow, or tell by repetition.
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
    top_3: float | None
    incidents_per_fault: float | None
    before_hard_failure: float | None
    lead_p50_seconds: float | None
    member_recall: float | None
    onset_to_detection_p50_seconds: float | None
    onset_to_detection_p95_seconds: float | None
    abrupt_p50_seconds: float | None = None
    abrupt_p95_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Scorecard:
    """causes: those in the truth or said, in order of name; total: all together. gpu_hours: watched; null where a case
    does not say how many GPUs it has. A day is one of the 24,576 GPUs of the reference cluster.
    """

    causes: tuple[CauseScore, ...]
    total: CauseScore
    false_incidents_per_day: float
    stream_seconds: float
    false_pages: int
    false_tickets: int
    gpu_hours: float | None

    def false_per_day(self, severity: str) -> tuple[float, float] | None:
        """Rate of false pages or tickets a day of the reference cluster, and its upper 95 % bound."""
        if self.gpu_hours is None:
            return None
        count = self.false_pages if severity == "page" else self.false_tickets
        return per_day(count, self.gpu_hours), per_day(poisson_upper(count), self.gpu_hours)

    def frame(self) -> pl.DataFrame:
        """One row a cause, the total last."""
        return pl.DataFrame([vars(score) for score in (*self.causes, self.total)], infer_schema_length=None)


@dataclass(frozen=True, kw_only=True)
class _Match:
    """What became of one fault."""

    cause: str
    first: Incident | None
    in_time: bool
    abrupt: bool
    seconds: float
    duplicates: int
    first_root_right: bool
    among_three: bool
    lead_seconds: float | None
    member_recall: float | None

    @property
    def named(self) -> str | None:
        """The cause that the first incident said."""
        return None if self.first is None else self.first.cause


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run with a known truth. labels: schemas.label; with a column hard_failure_at where the damage is known to be
    done at some time, and deadline_seconds where a fault has one of its own. gpus: how many were watched.
    """

    incidents: Sequence[Incident]
    labels: pl.DataFrame
    stream_seconds: float
    gpus: int | None = None


def score(
    incidents: Sequence[Incident],
    labels: pl.DataFrame,
    *,
    stream_seconds: float,
    deadlines_seconds: Mapping[str, float] | None = None,
    lead_seconds: float = 300.0,
) -> Scorecard:
    """One case alone: see score_cases."""
    case = Case(incidents=incidents, labels=labels, stream_seconds=stream_seconds)
    return score_cases([case], deadlines_seconds=deadlines_seconds, lead_seconds=lead_seconds)


def score_cases(
    cases: Sequence[Case], *, deadlines_seconds: Mapping[str, float] | None = None, lead_seconds: float = 300.0
) -> Scorecard:
    """Judge the incidents of each case by its labels, and count over all cases.

    deadlines_seconds: by cause; never less than 60 s. lead_seconds: an incident up to that long before the onset is an
    early warning and counts, with negative seconds. An incident belongs to the fault whose root it names that began
    last before it; suspects are not incidents yet and do not count. Raises ValueError without any stream time.
    """
    stream_seconds = sum(case.stream_seconds for case in cases)
    if not stream_seconds > 0:
        raise ValueError("nothing to score: the cases have no stream time")
    matches: list[_Match] = []
    false: list[Incident] = []
    for case in cases:
        found, unexplained = _judge(case, deadlines_seconds or {}, timedelta(seconds=lead_seconds))
        matches += found
        false += unexplained
    firsts = [match.first for match in matches if match.first is not None]
    causes = sorted({match.cause for match in matches} | {each.cause for each in (*firsts, *false)})
    by_cause = tuple(
        _cause_score(
            cause,
            [match for match in matches if match.cause == cause],
            said=sum(each.cause == cause for each in (*firsts, *false)),
            false=sum(each.cause == cause for each in false),
            right=sum(match.in_time and match.named == match.cause == cause for match in matches),
        )
        for cause in causes
    )
    detected = sum(match.in_time for match in matches)
    return Scorecard(
        causes=by_cause,
        total=_cause_score("all", matches, said=len(firsts) + len(false), false=len(false), right=detected),
        false_incidents_per_day=len(false) * SECONDS_PER_DAY / stream_seconds,
        stream_seconds=stream_seconds,
        false_pages=sum(each.severity == "page" for each in false),
        false_tickets=sum(each.severity == "ticket" for each in false),
        gpu_hours=_gpu_hours(cases),
    )


def _gpu_hours(cases: Sequence[Case]) -> float | None:
    hours = [None if case.gpus is None else case.gpus * case.stream_seconds / 3600 for case in cases]
    known = [each for each in hours if each is not None]
    return sum(known) if len(known) == len(hours) else None


def _judge(case: Case, deadlines: Mapping[str, float], lead: timedelta) -> tuple[list[_Match], list[Incident]]:
    """What became of each fault, and the incidents that no fault explains."""
    said = [each for each in case.incidents if each.state != "suspect"]
    said.sort(key=lambda each: (each.detected_at, each.id))
    faults = sorted(case.labels.to_dicts(), key=lambda row: (row["starts_at"], row["cause"]))
    owners = [_owner(each, faults, lead) for each in said]
    matches = []
    for index, fault in enumerate(faults):
        mine = [each for each, owner in zip(said, owners, strict=True) if owner == index]
        allowed = fault.get("deadline_seconds") or deadlines.get(fault["cause"], 0.0)
        matches.append(_match(fault, mine, max(DEADLINE_SECONDS_MINIMUM, allowed)))
    return matches, [each for each, owner in zip(said, owners, strict=True) if owner is None]


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
    failed_at = fault.get("hard_failure_at")
    never = None if failed_at is None else -float("inf")
    return _Match(
        cause=fault["cause"],
        first=first,
        in_time=first is not None and seconds <= deadline,
        abrupt=deadline <= DEADLINE_SECONDS_MINIMUM and failed_at is None,
        seconds=seconds,
        duplicates=max(0, len(mine) - 1),
        first_root_right=first is not None and first.roots[0] in fault["roots"],
        among_three=first is not None and bool(set(first.roots[:3]) & set(fault["roots"])),
        lead_seconds=(failed_at - first.detected_at).total_seconds() if first and failed_at else never,
        member_recall=len(members & set(first.members)) / len(members) if members and first else None,
    )


def _cause_score(cause: str, matches: Sequence[_Match], *, said: int, false: int, right: int) -> CauseScore:
    """matches: the faults of this cause. said, false, right: incidents that say this cause."""
    detected = [match for match in matches if match.in_time]
    recalls = [match.member_recall for match in detected if match.member_recall is not None]
    seconds = [match.seconds for match in detected]
    abrupt = [match.seconds for match in detected if match.abrupt]
    leads = [match.lead_seconds for match in matches if match.lead_seconds is not None]
    ahead = [lead for lead in leads if lead > 0]
    return CauseScore(
        cause=cause,
        faults=len(matches),
        detected=len(detected),
        late=sum(match.first is not None and not match.in_time for match in matches),
        incidents=said,
        right=right,
        duplicates=sum(match.duplicates for match in matches),
        false_incidents=false,
        precision=right / said if said else None,
        recall=len(detected) / len(matches) if matches else None,
        cause_accuracy=sum(match.named == match.cause for match in detected) / len(detected) if detected else None,
        top_1=sum(match.first_root_right for match in detected) / len(detected) if detected else None,
        top_3=sum(match.among_three for match in detected) / len(detected) if detected else None,
        incidents_per_fault=1 + sum(match.duplicates for match in detected) / len(detected) if detected else None,
        before_hard_failure=len(ahead) / len(leads) if leads else None,
        lead_p50_seconds=float(np.percentile(ahead, 50)) if ahead else None,
        member_recall=float(np.mean(recalls)) if recalls else None,
        onset_to_detection_p50_seconds=float(np.percentile(seconds, 50)) if seconds else None,
        onset_to_detection_p95_seconds=float(np.percentile(seconds, 95)) if seconds else None,
        abrupt_p50_seconds=float(np.percentile(abrupt, 50)) if abrupt else None,
        abrupt_p95_seconds=float(np.percentile(abrupt, 95)) if abrupt else None,
    )
