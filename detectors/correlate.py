"""Findings in, incidents out: what one cause brought about is one incident, with one page.

Statements and deadlines are taken strictly in order of event time, so that any cutting of the stream gives the same
incidents. An instant is judged when it is complete: its statements wait until the watermark has passed it, and speak
in causal order; what they bring about happens after them; a deadline that falls on it comes before them.
"""

from collections import Counter
from itertools import groupby

import heapq

import polars as pl
from msgspec.structs import replace

from detectors.casebook import Casebook, trimmed
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
    moment,
    statements,
    worse,
)
from detectors.explanation import MERGE_BY_CAUSE
from schemas.incident import Incident, incident_id
from schemas.topology import Topology

DEFAULT_TIMING = Timing()


def correlate(
    findings: pl.DataFrame, state: Correlation, context: Context, timing: Timing = DEFAULT_TIMING
) -> tuple[tuple[Incident, ...], Correlation]:
    """Incidents that changed in this step, in order of detection, and the state for the next.

    findings: FINDING_COLUMNS in order of time. An incident says all that is known of it at the end of the step; the
    last statement about an id holds. States are suspect, firing and resolved: people and recovery set the others.
    """
    now = max(microseconds(context.now), state.until)
    step = _Step(state, context.topology, timing)
    known = sorted((*state.held, *statements(findings)), key=lambda said: said.turn)
    ready = [said for said in known if said.time < now]
    # A statement from before the last watermark broke the contract; it is judged now, not lost.
    for at, instant in groupby(ready, key=lambda said: max(said.time, state.until)):
        step.run_deadlines(at)
        for said in instant:
            step.hear(said, at)
    step.run_deadlines(now)
    incidents = step.changed()
    told = {incident.id: incident for incident in (*state.incidents, *incidents) if incident.id in step.book.cases}
    return incidents, Correlation(
        until=now, held=tuple(known[len(ready) :]), levels=tuple(step.book.levels.values()),
        cases=tuple(step.book.cases.values()), incidents=tuple(told.values()),
    )  # fmt: skip


class _Step:
    """One step under way. touched: cases whose incident must be told again. merged: incidents that are no more."""

    def __init__(self, state: Correlation, topology: Topology, timing: Timing) -> None:
        self.book = Casebook(state, topology, timing)
        self.timing = timing
        self.touched: dict[str, None] = {}
        self.merged: dict[str, Incident] = {}

    def changed(self) -> tuple[Incident, ...]:
        cases = (self.book.cases[case_id] for case_id in self.touched if case_id in self.book.cases)
        told = [
            self.book.incident(case, case.state, case.ended if case.state == "resolved" else None)
            for case in cases
            if case.state != "waiting"
        ]
        return tuple(sorted((*told, *self.merged.values()), key=lambda incident: (incident.detected_at, incident.id)))

    def run_deadlines(self, until: Instant) -> None:
        """Let what is due happen, in order of time."""
        deadlines = self.book.deadlines
        while deadlines and deadlines[0][0] <= until:
            at, case_id = heapq.heappop(deadlines)
            case = self.book.cases.get(case_id)
            if case is not None:
                self._fall_due(case, at)

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

    # What a statement does

    def _say_again(self, level: Level, said: Statement, at: Instant) -> None:
        worsened = level.said.severity == "info" and said.severity != "info"
        level = _restated(level, said)
        self.book.put(level)
        if self.book.case_of(level).state == "resolved":
            self._reopen(level, at)
        else:
            self._weigh(level, at, due=worsened)

    def _end(self, level: Level, at: Instant) -> None:
        self.book.put(replace(level, active=False, ended=at))
        case = self.book.case_of(level)
        if case.state == "resolved":
            return
        self.touched[case.id] = None
        if case.ended is None and not self.book.open[case.id]:
            case = self.book.cases[case.id] = replace(case, ended=at)
            self.book.remind(case.id, self.book.clears_at(case))

    def _return(self, level: Level, said: Statement, at: Instant) -> None:
        """A level that had ended is back: a flap of its incident, unless something else explains it now."""
        case = self.book.case_of(level)
        back = replace(_restated(level, said), active=True, onset=said.first_bad_at, ended=None, flaps=level.flaps + 1)
        cause = self.book.explainer(back)
        elsewhere = cause is not None and cause.case != case.id
        if elsewhere or (case.state == "resolved" and not level.root):
            self.book.drop(said.key)
            if not self.book.folded[case.id]:
                del self.book.cases[case.id]
            self._place(level_of(said), at)
            return
        self.book.put(back)
        if case.state == "resolved":
            self._reopen(back, at)
            return
        self.book.cases[case.id] = replace(case, flaps=case.flaps + back.root)
        self._weigh(back, at, due=True)

    def _reopen(self, root: Level, at: Instant) -> None:
        """A root of a resolved case is back: the same incident goes on. A mere suspicion does not re-open it."""
        case = self.book.case_of(root)
        if root.said.severity == "info" and case.fired:
            return
        self.book.cases[case.id] = replace(
            case, state="firing" if case.fired else "suspect", ended=None, forget_at=None, flaps=case.flaps + 1
        )
        self._weigh(root, at, due=True)

    # Where a level belongs

    def _place(self, level: Level, at: Instant) -> None:
        """Fold a level into the case of its cause, of its like, of its symptoms, or one of its own."""
        book = self.book
        cause, twin = book.explainer(level), book.twin(level)
        found = cause or twin
        home = book.case_of(found) if found is not None else book.neighbour(level)
        root = cause is None and (twin is None or twin.root)
        whole, parts = self._claims(level, home, at)
        case = self._unite(level, home, whole, at)
        for part in parts:
            book.put(trimmed(replace(part, case=case.id, root=False), len(book.folded[case.id])))
        level = replace(level, case=case.id, root=root)
        if not root:
            level = trimmed(level, len(book.folded[case.id]))
        elif level.said.kind == "pdu" and level.said.takes_gpus:
            level = replace(level, domain_wide=not book.has_gpus_folded(level.said.entity, case.id))
        book.put(level)
        self._weigh(level, at, due=True)

    def _claims(self, level: Level, home: Case | None, at: Instant) -> tuple[list[Case], list[Level]]:
        """Cases that this level explains as a whole, and roots of others that it takes out of them."""
        book = self.book
        young = at - book.span(self.timing.reroot_seconds)
        explained: dict[str, list[Level]] = {}
        for root in book.explained(level):
            case = book.case_of(root)
            if case is not home and case.state != "resolved" and (not case.fired or (case.detected_at or at) >= young):
                explained.setdefault(case.id, []).append(root)
        whole: list[Case] = []
        parts: list[Level] = []
        for case_id in sorted(explained):
            case, roots = book.cases[case_id], explained[case_id]
            merge = MERGE_BY_CAUSE.get(case.cause)
            together = merge is not None and merge.together and 2 * len(roots) >= book.roots[case_id]
            if together or len(roots) == book.roots[case_id]:
                whole.append(case)
            else:
                parts.extend(sorted(roots, key=lambda root: root.said.key))
                self.touched[case_id] = None
        return whole, parts

    def _unite(self, level: Level, home: Case | None, whole: list[Case], at: Instant) -> Case:
        """One case out of many. The one that fired first keeps its id, so nobody is paged twice; the cause is that
        of `home`, or else the new level's.
        """
        book = self.book
        together = [*whole] if home is None else [home, *whole]
        fired = [case for case in together if case.fired]
        if fired:
            kept = min(fired, key=lambda case: (case.detected_at or at, case.id))
        elif home is not None:
            kept = home
        else:
            kept = self._opened(level, at)
        others = [case for case in together if case.id != kept.id]
        if home is None or kept.id != home.id:
            for symptom in book.levels_of(kept.id):
                if symptom.root:
                    book.put(replace(symptom, root=False))
        if home is None:
            kept = replace(kept, cause=level.said.cause, kind=level.said.kind, starts_at=level.onset, last_onset=level.onset)
        elif home.id != kept.id:
            kept = replace(
                kept, cause=home.cause, kind=home.kind, starts_at=home.starts_at, last_onset=home.last_onset
            )
        for other in others:
            kept = self._merge(other, kept, at, keep_roots=other is home)
        book.cases[kept.id] = kept
        return kept

    def _opened(self, level: Level, at: Instant) -> Case:
        said = level.said
        name = incident_id(said.cause, said.kind, (said.entity,), moment(level.onset))
        if name in self.book.cases:  # it was there before under another cause, and has outlived it
            name = incident_id(said.cause, said.kind, (said.entity,), moment(at))
        return Case(name, said.cause, said.kind, opened=at, starts_at=level.onset, last_onset=level.onset)

    def _merge(self, other: Case, kept: Case, at: Instant, *, keep_roots: bool) -> Case:
        book = self.book
        if other.told:
            self.merged[other.id] = book.incident(other, "resolved", at, merged_into=kept.id)
        for level in book.levels_of(other.id):
            moved = replace(level, case=kept.id, root=level.root and keep_roots)
            book.put(moved if moved.root else trimmed(moved, len(book.folded[kept.id])))
        del book.cases[other.id]
        kept = replace(
            kept, severity=worse(kept.severity, other.severity), flaps=kept.flaps + other.flaps,
            suspect_at=earlier(kept.suspect_at, other.suspect_at),
            fire_at=None if kept.fired else earlier(kept.fire_at, other.fire_at),
        )  # fmt: skip
        book.remind(kept.id, kept.suspect_at)
        book.remind(kept.id, kept.fire_at)
        return kept
