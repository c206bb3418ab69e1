"""What other settings would have made of the same rows: incident by incident, action by action, and because of which
finding.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import polars as pl

from pipelines.rejudge import COMPARED, Rejudged
from pipelines.wording import some
from schemas.incident import Incident

BEFORE_ONSET = timedelta(seconds=60)  # an onset is an estimate
Change = Literal["appears", "vanishes", "earlier", "later", "cause", "root", "severity", "members", "actions"]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """before, after: in words, None for no such incident. finding: the first one about the roots that only one side
    made; None where both made the same ones, so that only correlation or recovery differs.
    """

    change: Change
    cause: str
    roots: tuple[str, ...]
    before: str | None
    after: str | None
    finding: str | None


def differences(before: Rejudged, after: Rejudged) -> tuple[Difference, ...]:
    """In order of time."""
    old, new = fired(before.incidents.values()), fired(after.incidents.values())
    together = pairs(old, new)
    kept = {one.id for _, one in together}
    gone = [one for one in old if one.id not in {first.id for first, _ in together}]
    found = [
        *(_one(one, None, before, after) for one in gone),
        *(_one(None, one, before, after) for one in new if one.id not in kept),
        *(difference for one, other in together for difference in changes(one, other, before, after)),
    ]
    return tuple(found)


def fired(incidents: Iterable[Incident]) -> list[Incident]:
    """Incidents that fired, by when; a suspect that came to nothing is not one."""
    real = (one for one in incidents if one.state != "suspect" and not one.merged_into)
    return sorted(real, key=lambda one: (one.detected_at, one.id))


def pairs(old: list[Incident], new: list[Incident]) -> list[tuple[Incident, Incident]]:
    """The same incident on both sides: of the same cause and roots, else of anything in common at the same time."""
    found: list[tuple[Incident, Incident]] = []
    paired: set[str] = set()
    left = list(new)
    for exact in (True, False):
        for one in old:
            if one.id in paired:
                continue
            other = next((each for each in left if same(one, each, exact=exact)), None)
            if other is not None:
                found.append((one, other))
                paired.add(one.id)
                left.remove(other)
    return found


def same(one: Incident, other: Incident, *, exact: bool) -> bool:
    """Whether both speak of one thing: same cause and roots at the same time, or anything in common at that time."""
    if exact:
        return (one.cause, one.roots) == (other.cause, other.roots) and _overlap(one, other)
    shared = {*one.roots, *one.members} & {*other.roots, *other.members}
    return bool(shared) and _overlap(one, other)


def _overlap(one: Incident, other: Incident) -> bool:
    return (one.ends_at is None or other.starts_at <= one.ends_at) and (
        other.ends_at is None or one.starts_at <= other.ends_at
    )


def _one(one: Incident | None, other: Incident | None, before: Rejudged, after: Rejudged) -> Difference:
    incident = one or other
    assert incident is not None
    return Difference(
        change="vanishes" if other is None else "appears", cause=incident.cause, roots=incident.roots,
        before=_said(one), after=_said(other), finding=finding_behind((incident,), before, after),
    )  # fmt: skip


def changes(one: Incident, other: Incident, before: Rejudged, after: Rejudged) -> Iterable[Difference]:
    """In what the two sides differ about one incident."""
    moved: Change = "earlier" if other.detected_at < one.detected_at else "later"
    changed: list[tuple[Change, bool, str, str]] = [
        ("cause", one.cause != other.cause, one.cause, other.cause),
        ("root", one.roots != other.roots, some(one.roots), some(other.roots)),
        ("severity", one.severity != other.severity, one.severity, other.severity),
        (moved, one.detected_at != other.detected_at, f"{one.detected_at:%H:%M:%S.%f}"[:-3],
         f"{other.detected_at:%H:%M:%S.%f}"[:-3]),
        ("members", one.members != other.members, f"{len(one.members)} GPUs", f"{len(other.members)} GPUs"),
        ("actions", _asked(one, before) != _asked(other, after), _only(one, before, other, after),
         _only(other, after, one, before)),
    ]  # fmt: skip
    for change, differs, was, would_be in changed:
        if differs:
            yield Difference(
                change=change, cause=one.cause, roots=one.roots, before=was, after=would_be,
                finding=finding_behind((one, other), before, after),
            )  # fmt: skip


def finding_behind(incidents: Iterable[Incident], before: Rejudged, after: Rejudged) -> str | None:
    """The first finding that only one side made while the incidents lasted, about their roots, or else about what they
    took with them; in words.
    """
    every = tuple(incidents)
    since = min(one.starts_at for one in every) - BEFORE_ONSET
    ends = [one.ends_at for one in every]
    until = max((end for end in ends if end is not None), default=None) if None not in ends else None
    inside = pl.col("time") >= since
    inside &= pl.lit(value=True) if until is None else pl.col("time") <= until
    roots = {root for one in every for root in one.roots}
    others = {name for one in every for name in (*one.members, *(entity for _, entity in one.symptoms))}
    for names in (roots, others - roots):
        mine = inside & pl.col("entity").is_in(sorted(names))
        old, new = (side.findings.filter(mine).select(COMPARED) for side in (before, after))
        only = pl.concat([
            old.join(new, on=COMPARED, how="anti", nulls_equal=True).with_columns(side=pl.lit("before")),
            new.join(old, on=COMPARED, how="anti", nulls_equal=True).with_columns(side=pl.lit("after")),
        ]).sort("time", "side")  # fmt: skip
        if not only.is_empty():
            row = only.row(0, named=True)
            verb = "begins" if row["active"] else "ends"
            where = f"{row['detector']}: {row['cause']} ({row['code']}, {row['severity']}) of {row['entity']}"
            return f"{where} {verb} at {row['time']:%Y-%m-%d %H:%M:%S}, {row['side']} only"
    return None


def _asked(incident: Incident, side: Rejudged) -> frozenset[tuple[str, str]]:
    mine = (one.request for one in side.actions if one.request.incident == incident.id)
    return frozenset((request.kind, request.target) for request in mine)


def _only(incident: Incident, side: Rejudged, other: Incident, far: Rejudged) -> str:
    extra = sorted(_asked(incident, side) - _asked(other, far))
    return ", ".join(f"{kind} {target}" for kind, target in extra[:5]) or "nothing more"


def _said(incident: Incident | None) -> str | None:
    return None if incident is None else f"{incident.severity} at {incident.detected_at:%Y-%m-%d %H:%M:%S}"
