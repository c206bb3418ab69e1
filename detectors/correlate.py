"""Findings in, incidents out: what one cause brought about is one incident, with one page.

Statements and deadlines are taken strictly in order of event time, so that any cutting of the stream gives the same
incidents. An instant is judged when it is complete: its statements wait until the watermark has passed it, and speak
in causal order; what they bring about happens after them; a deadline that falls on it comes before them.
"""

from collections.abc import Iterable
from itertools import groupby

import polars as pl
from msgspec.structs import replace

from detectors.casebook import Casebook
from detectors.contract import Context
from detectors.correlation_state import (
    Case,
    Correlation,
    Instant,
    Level,
    Statement,
    Timing,
    earlier,
    level_of,
    microseconds,
    opened,
    rank,
    restated,
    span,
    statements,
    worse,
)
from detectors.incident_view import incident_of
from schemas.incident import Incident
from schemas.topology import Topology

DEFAULT_TIMING = Timing()


def correlate(
    findings: pl.DataFrame, state: Correlation, context: Context, timing: Timing = DEFAULT_TIMING
) -> tuple[tuple[Incident, ...], Correlation]:
    """Incidents that changed in this step, in order of detection, and the state for the next.

    findings: FINDING_COLUMNS in order of time. An incident says all that is known of it at the end of the step; the
    last word about an id holds. States are suspect, firing and resolved: people and recovery set the others.
    """
    now = max(microseconds(context.now), state.until)
    known = sorted((*state.held, *statements(findings)), key=lambda said: said.turn)
    ready = [said for said in known if said.time < now]
    if not ready and all(deadline > now for case in state.cases for deadline in case.deadlines(timing)):
        return (), replace(state, until=now, held=tuple(known))
    step = _Step(state, context.topology, timing)
    # A statement from before the last watermark broke the contract; it is judged now, not lost.
    for at, instant in groupby(ready, key=lambda said: max(said.time, state.until)):
        step.run_deadlines(at)
        for said in instant:
            step.hear(said, at)
    step.run_deadlines(now)
    incidents = step.changed()
    told = {incident.id: incident for incident in (*state.incidents, *incidents)}
    return incidents, Correlation(
        until=now, held=tuple(known[len(ready) :]), levels=tuple(step.book.levels.values()),
        cases=tuple(step.book.cases.values()), incidents=tuple(told[name] for name in step.book.cases if name in told),
    )  # fmt: skip


class _Step:
    """One step under way. touched: cases that must be told again. over: incidents as they stood when they ended."""

    def __init__(self, state: Correlation, topology: Topology, timing: Timing) -> None:
        self.book = Casebook(state, topology, timing)
        self.touched: set[str] = set()
        self.over: dict[str, Incident] = {}

    def changed(self) -> tuple[Incident, ...]:
        told = dict(self.over)
        for case_id in self.touched & self.book.cases.keys():
            case = self.book.cases[case_id]
            if case.told:
                told[case_id] = incident_of(case, self.book.levels_of(case_id), self.book.topology)
        return tuple(sorted(told.values(), key=lambda incident: (incident.detected_at, incident.id)))

    def hear(self, said: Statement, at: Instant) -> None:
        """Take one statement: a level that begins, is said again, comes back or ends."""
        level = self.book.levels.get(said.key)
        if not said.active:
            if level is not None and level.active:
                self._end(level, at)
        elif level is None:
            self._place(level_of(said), at)
        elif level.active:
            self._say_again(level, said, at)
        else:
            self._return(level, said, at)

    def _say_again(self, level: Level, said: Statement, at: Instant) -> None:
        worsened = not level.grave and said.severity != "info"
        level = replace(restated(level, said), onset=min(level.onset, said.first_bad_at))
        self.book.put(level)
        if self.book.case_of(level).state == "resolved":
            self._reopen(level, at)
        elif worsened and level.root:
            self._settle_in(level, at)
        else:
            self._weigh(level, at, due=worsened)

    def _end(self, level: Level, at: Instant) -> None:
        self.book.put(replace(level, active=False, ended=at))
        if self.book.case_of(level).state != "resolved":
            self._judge_over(level.case, at)

    def _return(self, level: Level, said: Statement, at: Instant) -> None:
        """A level that had ended is back: a flap of its incident, unless something else explains it now."""
        book = self.book
        case = book.case_of(level)
        back = replace(restated(level, said), active=True, onset=said.first_bad_at, ended=None, flaps=level.flaps + 1)
        cause = book.explainer(back)
        elsewhere = cause is not None and cause.case != case.id
        resolved = case.state == "resolved"
        if (elsewhere and not level.root) or (resolved and (elsewhere or not level.root)):
            book.drop(said.key)
            if not book.folded[case.id]:
                book.close(case)
            self._place(level_of(said), at)
            return
        book.put(back)
        if resolved:
            self._reopen(back, at)
            return
        book.cases[case.id] = replace(case, flaps=case.flaps + back.root)
        if elsewhere:
            self._settle_in(back, at)
        else:
            self._weigh(back, at, due=True)

    def _reopen(self, root: Level, at: Instant) -> None:
        """A root of a resolved case is back: the same incident goes on. A mere suspicion does not re-open it."""
        case = self.book.case_of(root)
        if root.said.severity != "info" or not case.fired:
            state = "firing" if case.fired else "suspect"
            self.book.cases[case.id] = replace(case, state=state, ended=None, forget_at=None, flaps=case.flaps + 1)
            self.over.pop(case.id, None)
            self._weigh(root, at, due=True)

    def _place(self, level: Level, at: Instant, *, orphan: bool = False) -> None:
        """Fold a level into the case of its cause, of its like, of its symptoms, or one of its own."""
        book = self.book
        cause, twin = book.explainer(level), book.twin(level)
        found = cause or twin
        home = book.case_of(found) if found is not None else book.neighbour(level)
        self._gather(level, home, at, root=cause is None and (twin is None or twin.root), orphan=orphan)

    def _settle_in(self, root: Level, at: Instant) -> None:
        """A root that became worse, or came back, looks again for a cause, for its like and for its symptoms."""
        book = self.book
        own = book.case_of(root)
        cause = book.explainer(root)
        home = book.neighbour(root) if cause is None else book.case_of(cause)
        if home is not None and home.id != own.id:
            own = self._unite(root, home, [own], at)
        self._gather(root, own, at, root=cause is None, orphan=False)

    def _gather(self, level: Level, home: Case | None, at: Instant, *, root: bool, orphan: bool) -> None:
        """Fold a level into its home, or a case of its own, together with all that it explains."""
        book = self.book
        whole, parts = book.claims(level, home, at)
        case = self._unite(level, home, whole, at, orphan=orphan)
        if root and level.said.kind == "pdu" and level.takes_gpus:
            level = replace(
                level, domain_wide=level.domain_wide or not book.has_gpus_folded(level.said.entity, case.id)
            )
        self._weigh(book.fold(level, case.id, root=root), at, due=True)
        for part in parts:
            moved = book.fold(part, case.id)
            self._judge_over(part.case, at)
            self._weigh(moved, at, due=True)

    def _unite(self, level: Level, home: Case | None, whole: list[Case], at: Instant, *, orphan: bool = False) -> Case:
        """One case out of many, about what `home` is about, or else about the new level.

        The home keeps its id if it fired; else the one that fired first does, so that nobody is paged twice.
        """
        book = self.book
        if home is not None and not whole:
            return home
        kept = home
        fired = [case for case in whole if case.fired]
        if fired and (home is None or not home.fired):
            kept = min(fired, key=lambda case: (case.detected_at or at, case.id))
        about = home or opened(level, at, at if orphan else level.onset)
        if home is None and about.id in book.cases:  # what outlived an incident is not mistaken for it
            about = opened(level, at, at)
        kept = kept or about
        if about.id != kept.id:
            for symptom in book.levels_of(kept.id):
                book.put(replace(symptom, root=False))
            kept = replace(
                kept, cause=about.cause, kind=about.kind, starts_at=about.starts_at, last_onset=about.last_onset
            )
        for other in whole if home is None else (home, *whole):
            if other.id != kept.id:
                kept = self._merge(other, kept, at, keep_roots=other.id == about.id)
        book.cases[kept.id] = kept
        return kept

    def _merge(self, other: Case, kept: Case, at: Instant, *, keep_roots: bool) -> Case:
        book = self.book
        if other.told:
            gone = replace(other, state="resolved", ended=at)
            self.over[other.id] = incident_of(gone, book.levels_of(other.id), book.topology, merged_into=kept.id)
        for level in book.levels_of(other.id):
            book.fold(level, kept.id, root=level.root and keep_roots)
        book.close(other)
        kept = replace(
            kept, severity=worse(kept.severity, other.severity), flaps=kept.flaps + other.flaps,
            suspect_at=None if kept.told else earlier(kept.suspect_at, other.suspect_at),
            fire_at=None if kept.fired else earlier(kept.fire_at, other.fire_at),
        )  # fmt: skip
        book.remind(kept.id, kept.suspect_at)
        book.remind(kept.id, kept.fire_at)
        return kept

    def _weigh(self, level: Level, at: Instant, *, due: bool) -> None:
        """What a level that is active means for its case: severity, times, and when others are told."""
        book, said = self.book, level.said
        case = book.case_of(level)
        if (severity := worse(case.severity, said.severity)) != case.severity:
            case = replace(case, severity=severity)
        if level.root and not case.starts_at <= level.onset <= case.last_onset:
            first, last = min(case.starts_at, level.onset), max(case.last_onset, level.onset)
            case = replace(case, starts_at=first, last_onset=last)
        if due and not case.fired:
            when = at + (span(book.timing.settle_seconds) if said.waits else 0)
            if said.severity != "info":
                case = replace(case, fire_at=earlier(case.fire_at, when))
            elif not case.told:
                case = replace(case, suspect_at=earlier(case.suspect_at, when))
            book.remind(case.id, when)
        book.cases[case.id] = case
        self._judge_over(case.id, at)

    def _judge_over(self, case_id: str, at: Instant) -> None:
        """Note since when a case is over, or that it is not."""
        case = self.book.cases[case_id]
        over = None if self.book.open[case_id] else earlier(case.ended, at)
        self.touched.add(case_id)
        if over != case.ended:
            self.book.cases[case_id] = replace(case, ended=over)
            self.book.remind(case_id, self.book.cases[case_id].clears_at(self.book.timing))

    def run_deadlines(self, until: Instant) -> None:
        """Let what is due happen, in order of time."""
        for case, at in self.book.due(until):
            fires = case.fire_at is not None and case.fire_at <= at
            clears_at = case.clears_at(self.book.timing)
            if fires or (case.state == "waiting" and case.suspect_at is not None and case.suspect_at <= at):
                self._tell(case, at, fires=fires)
            elif clears_at is not None and clears_at <= at:
                self._resolve(case, at)
            elif case.forget_at is not None and case.forget_at <= at:
                self._release(case, self.book.levels_of(case.id), at)

    def _tell(self, case: Case, at: Instant, *, fires: bool) -> None:
        """Make known what stayed alone for as long as it should wait, unless it was over before anyone was told."""
        levels = self.book.levels_of(case.id)
        over = not self.book.open[case.id]
        if over and case.state == "waiting":
            self._release(case, levels, at)
            return
        if not fires:
            case = replace(case, state="suspect", suspect_at=None, detected_at=at)
        elif not over and any(level.active and level.said.severity != "info" for level in levels):
            case = replace(case, state="firing", fired=True, suspect_at=None, fire_at=None, detected_at=at)
        else:
            case = replace(case, fire_at=None)
        self.book.cases[case.id] = case
        self.touched.add(case.id)

    def _resolve(self, case: Case, at: Instant) -> None:
        book, levels = self.book, self.book.levels_of(case.id)
        forget_at = at + span(book.timing.flap_seconds)
        case = book.cases[case.id] = replace(case, state="resolved", fire_at=None, suspect_at=None, forget_at=forget_at)
        book.remind(case.id, forget_at)
        self.over[case.id] = incident_of(case, levels, book.topology)
        self._release(case, [level for level in levels if level.active], at, close=False)

    def _release(self, case: Case, levels: Iterable[Level], at: Instant, *, close: bool = True) -> None:
        """Let levels out of their case. One that is still active was hidden by its cause and now stands for itself:
        a fault does not vanish with what explained it.
        """
        released = sorted(levels, key=rank)
        for level in released:
            self.book.drop(level.said.key)
        if close:
            self.book.close(case)
        for level in released:
            if level.active:
                alone = replace(level, case="", root=True, ended=None, flaps=0, domain_wide=False)
                self._place(alone, at, orphan=True)
