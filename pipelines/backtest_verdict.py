"""What a reviewer needs to know of other settings: what they catch earlier, later, newly or no more, what they name
otherwise, and what they say that was not so. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pipelines.backtest_truth import Explained, Truth, explained
from pipelines.counterfactual import Difference, changes, finding_behind, pairs
from pipelines.rejudge import Rejudged
from pipelines.savings import Savings, savings
from pipelines.stored_rows import Stretch
from replay.rates import poisson_upper
from schemas.incident import Incident

DAY_SECONDS = 86_400.0
Caught = Literal["newly missed", "missed by both", "newly caught", "later", "earlier", "same"]
ORDER: tuple[Caught, ...] = ("newly missed", "later", "missed by both", "newly caught", "earlier", "same")
LOUDER = ("info", "ticket", "page")


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What becomes of one thing that was wrong. earlier_seconds: positive where it is caught earlier. changes: in what
    it is told otherwise. instead: where it is not caught after, what is said of its symptoms, or too quietly. finding:
    the one behind it. saved: what it cost, and what the given settings would save.
    """

    truth: Incident
    caught: Caught
    before: Incident | None
    after: Incident | None
    earlier_seconds: float | None
    changes: tuple[Difference, ...]
    instead: Incident | None
    finding: str | None
    saved: Savings


@dataclass(frozen=True, kw_only=True)
class FalseAlarm:
    """An incident that nothing wrong explains. was: its severity before, None where it was not said at all."""

    incident: Incident
    was: str | None
    finding: str | None


@dataclass(frozen=True, kw_only=True)
class Span:
    """since <= time < until is judged where it lies in one of the stretches that were read; watched_seconds of it
    telemetry is stored of.
    """

    since: datetime
    until: datetime
    stretches: tuple[Stretch, ...]
    watched_seconds: float

    def __contains__(self, moment: datetime) -> bool:
        return self.since <= moment < self.until and any(moment in stretch for stretch in self.stretches)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """count in the window, per day, and at most with 95 % (Garwood); None where nothing was watched."""

    count: int
    per_day: float | None
    at_most_per_day: float | None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """fates: worst first. new_false, gone_false: false with the one settings only. repeats: further incidents on what
    was caught already, before and after.
    """

    fates: tuple[Fate, ...]
    new_false: tuple[FalseAlarm, ...]
    gone_false: tuple[FalseAlarm, ...]
    repeats: tuple[int, int]
    watched_seconds: float

    def of(self, *caught: Caught) -> tuple[Fate, ...]:
        return tuple(fate for fate in self.fates if fate.caught in caught)

    def new_rate(self, severity: str) -> Rate:
        return _rate(sum(one.incident.severity == severity for one in self.new_false), self.watched_seconds)

    @property
    def changed(self) -> tuple[Fate, ...]:
        """Told with another cause, root or severity."""
        named = ("cause", "root", "severity")
        return tuple(fate for fate in self.fates if any(each.change in named for each in fate.changes))

    @property
    def earlier_minutes(self) -> float:
        """Sum over all that both catch; later counts against it."""
        return sum(fate.earlier_seconds or 0.0 for fate in self.fates) / 60

    @property
    def worse(self) -> bool:
        """Something is newly missed, or there are new false pages."""
        return bool(self.of("newly missed")) or self.new_rate("page").count > 0


def verdict(truth: Truth, before: Rejudged, after: Rejudged, span: Span) -> Verdict:
    """Of what was detected, or by its label began, in the span."""
    old, new = (explained(truth.wrong, side.incidents.values()) for side in (before, after))
    until = min(span.until, after.until or span.until)  # of what lasts longer nothing is known
    fates = [_fate(one, old, new, before, after, until) for one in truth.wrong if one.detected_at in span]
    false_old, false_new = ([one for one in side.unexplained if one.detected_at in span] for side in (old, new))
    together = pairs(false_old, false_new)
    said_before = {other.id: one for one, other in together}
    said_after = {one.id for one, _ in together}
    return Verdict(
        fates=tuple(sorted(fates, key=lambda one: (ORDER.index(one.caught), one.truth.detected_at, one.truth.id))),
        new_false=tuple(_new_false(false_new, said_before, before, after)),
        gone_false=tuple(
            FalseAlarm(incident=one, was=one.severity, finding=finding_behind((one,), before, after))
            for one in false_old if one.id not in said_after
        ),
        repeats=(_repeats(truth.wrong, old, span), _repeats(truth.wrong, new, span)),
        watched_seconds=span.watched_seconds,
    )  # fmt: skip


def _fate(  # noqa: PLR0913, PLR0917  two sides of one thing
    truth: Incident, old: Explained, new: Explained, before: Rejudged, after: Rejudged, until: datetime
) -> Fate:
    one, other = old.first(truth), new.first(truth)
    seconds = (one.detected_at - other.detected_at).total_seconds() if one and other else None
    caught = _caught(one, other, seconds)
    told = tuple(changes(one, other, before, after)) if one and other else ()
    either = [each for each in (one, other) if each is not None]
    needs_finding = either and (caught != "same" or told)
    return Fate(
        truth=truth, caught=caught, before=one, after=other, earlier_seconds=seconds,
        changes=tuple(each for each in told if each.change not in ("earlier", "later")),
        instead=new.instead(truth), finding=finding_behind(either, before, after) if needs_finding else None,
        saved=savings(truth, one.detected_at if one else truth.ends_at or until, other, after.actions, until),
    )  # fmt: skip


def _caught(one: Incident | None, other: Incident | None, seconds: float | None) -> Caught:
    if one is None or other is None or seconds is None:
        if one is not None:
            return "newly missed"
        return "missed by both" if other is None else "newly caught"
    if seconds == 0:
        return "same"
    return "earlier" if seconds > 0 else "later"


def _new_false(
    incidents: Sequence[Incident], said_before: dict[str, Incident], before: Rejudged, after: Rejudged
) -> list[FalseAlarm]:
    """Not said before, or not as loudly."""
    found = []
    for one in incidents:
        was = said_before.get(one.id)
        if was is None or LOUDER.index(one.severity) > LOUDER.index(was.severity):
            about = (one,) if was is None else (one, was)
            finding = finding_behind(about, before, after)
            found.append(FalseAlarm(incident=one, was=None if was is None else was.severity, finding=finding))
    return found


def _repeats(wrong: Sequence[Incident], side: Explained, span: Span) -> int:
    """Incidents after the one that caught it; what nothing caught was not told yet."""
    caught = [(first, side.by_truth[truth.id]) for truth in wrong if (first := side.first(truth)) is not None]
    return sum(one.detected_at in span for first, every in caught for one in every[every.index(first) + 1 :])


def _rate(count: int, seconds: float) -> Rate:
    if not seconds > 0:
        return Rate(count=count, per_day=None, at_most_per_day=None)
    days = seconds / DAY_SECONDS
    return Rate(count=count, per_day=count / days, at_most_per_day=poisson_upper(count) / days)
