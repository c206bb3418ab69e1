"""Findings in, incidents out: what one cause brought about is one incident, with one page.

Statements and deadlines are taken strictly in order of event time, so that any cutting of the stream gives the same
incidents. An instant is judged when it is complete: its statements wait until the watermark has passed it, and speak
in causal order; what they bring about happens after them; a deadline that falls on it comes before them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import chain, groupby
from operator import attrgetter

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
    level_of,
    microseconds,
    restated,
    span,
    statements,
)
from detectors.folding import Folding
from detectors.incident_view import incident_of
from detectors.places import Seat, rank_of
from schemas.incident import Incident
from schemas.topology import Topology

DEFAULT_TIMING = Timing()
_TIME, _TURN = attrgetter("time"), attrgetter("turn")


def correlate(
    findings: pl.DataFrame, state: Correlation, context: Context, timing: Timing = DEFAULT_TIMING
) -> tuple[tuple[Incident, ...], Correlation]:
    """Incidents that changed in this step, in order of detection, and the state for the next.

    findings: FINDING_COLUMNS in order of time. An incident says all that is known of it at the end of the step; the
    last word about an id holds. States are suspect, firing and resolved: people and recovery set the others.
    """
    now = max(microseconds(context.now), state.until)
    known = sorted((*state.held, *statements(findings)), key=_TIME)
    complete = bisect_left(known, now, key=_TIME)
    held = tuple(sorted(known[complete:], key=_TURN))
    if not complete and all(deadline > now for case in state.cases for deadline in case.deadlines(timing)):
        return (), replace(state, until=now, held=held)
    step = _Step(state, context.topology, timing)
    deadlines = step.book.deadlines
    # A statement from before the last watermark broke the contract; it is judged now, not lost.
    late = bisect_right(known, state.until, hi=complete, key=_TIME)
    instants = groupby(known[late:complete], key=_TIME)
    for at, instant in chain([(state.until, known[:late])] if late else (), instants):
        if deadlines and deadlines[0][0] <= at:
            step.run_deadlines(at)
        together = list(instant)
        for said in sorted(together, key=_TURN) if len(together) > 1 else together:
            step.hear(said, at)
    step.run_deadlines(now)
    incidents = step.changed()
    told = {incident.id: incident for incident in (*state.incidents, *incidents)}
    return incidents, Correlation(
        until=now, held=held, levels=tuple([seat.level for seat in step.book.seats.values()]),
        cases=tuple(step.book.cases.values()), incidents=tuple(told[name] for name in step.book.cases if name in told),
    )  # fmt: skip


class _Step:
    """One step under way: the life of its levels and cases, from what is heard and as deadlines come."""

    def __init__(self, state: Correlation, topology: Topology, timing: Timing) -> None:
        self.book = Casebook(state, topology, timing)
        self.folding = Folding(self.book)

    def changed(self) -> tuple[Incident, ...]:
        told = dict(self.folding.over)
        for case_id in self.folding.touched & self.book.cases.keys():
            case = self.book.cases[case_id]
            if case.told:
                told[case_id] = incident_of(case, self.book.folded[case_id], self.book.topology)
        return tuple(sorted(told.values(), key=lambda incident: (incident.detected_at, incident.id)))

    def hear(self, said: Statement, at: Instant) -> None:
        """Take one statement: a level that begins, is said again, comes back or ends."""
        key = said.key
        seat = self.book.seats.get(key)
        if not said.active:
            if seat is not None and seat.level.active:
                self._end(seat, at)
        elif seat is None:
            self.folding.place(key, level_of(said), at)
        elif seat.level.active:
            self._say_again(seat, said, at)
        else:
            self._return(seat, said, at)

    def _say_again(self, seat: Seat, said: Statement, at: Instant) -> None:
        before = seat.level
        worsened = not before.grave and said.severity != "info"
        level = replace(restated(before, said), onset=min(before.onset, said.first_bad_at))
        self.book.put(seat, level)
        if self.book.cases[level.case].state == "resolved":
            self._reopen(level, at)
        elif worsened and level.root:
            self.folding.settle_in(seat, at)
        else:
            self.folding.weigh(level, at, due=worsened)

    def _end(self, seat: Seat, at: Instant) -> None:
        self.book.put(seat, replace(seat.level, active=False, ended=at))
        if self.book.cases[seat.level.case].state != "resolved":
            self.folding.judge_over(seat.level.case, at)

    def _return(self, seat: Seat, said: Statement, at: Instant) -> None:
        """A level that had ended is back: a flap of its incident, unless something else explains it now."""
        book, level = self.book, seat.level
        case = book.cases[level.case]
        back = replace(restated(level, said), active=True, onset=said.first_bad_at, ended=None, flaps=level.flaps + 1)
        cause = book.explainer(book.seat(seat.key, back))
        elsewhere = cause is not None and cause.level.case != case.id
        resolved = case.state == "resolved"
        if (elsewhere and not level.root) or (resolved and (elsewhere or not level.root)):
            book.drop(seat)
            if not book.folded[case.id]:
                book.close(case)
            self.folding.place(seat.key, level_of(said), at)
            return
        book.put(seat, back)
        if resolved:
            self._reopen(back, at)
            return
        book.cases[case.id] = replace(case, flaps=case.flaps + back.root)
        if elsewhere:
            self.folding.settle_in(seat, at)
        else:
            self.folding.weigh(back, at, due=True)

    def _reopen(self, root: Level, at: Instant) -> None:
        """A root of a resolved case is back: the same incident goes on. A mere suspicion does not re-open it."""
        case = self.book.cases[root.case]
        if root.said.severity != "info" or not case.fired:
            state = "firing" if case.fired else "suspect"
            self.book.cases[case.id] = replace(case, state=state, ended=None, forget_at=None, flaps=case.flaps + 1)
            self.folding.over.pop(case.id, None)
            self.folding.weigh(root, at, due=True)

    def run_deadlines(self, until: Instant) -> None:
        """Let what is due happen, in order of time."""
        while (next_due := self.book.next_due(until)) is not None:
            case, at = next_due
            fires = case.fire_at is not None and case.fire_at <= at
            clears_at = case.clears_at(self.book.timing)
            if fires or (case.state == "waiting" and case.suspect_at is not None and case.suspect_at <= at):
                self._tell(case, at, fires=fires)
            elif clears_at is not None and clears_at <= at:
                self._resolve(case, at)
            elif case.forget_at is not None and case.forget_at <= at:
                self._release(case, tuple(self.book.folded[case.id]), at)

    def _tell(self, case: Case, at: Instant, *, fires: bool) -> None:
        """Make known what stayed alone for as long as it should wait, unless it was over before anyone was told."""
        levels = [seat.level for seat in self.book.folded[case.id]]
        over = not self.book.open[case.id]
        if over and case.state == "waiting":
            self._release(case, tuple(self.book.folded[case.id]), at)
            return
        if not fires:
            case = replace(case, state="suspect", suspect_at=None, detected_at=at)
        elif not over and any(level.active and level.said.severity != "info" for level in levels):
            case = replace(case, state="firing", fired=True, suspect_at=None, fire_at=None, detected_at=at)
            for seat in tuple(self.book.folded[case.id]):
                if seat.level.stalls:
                    self.book.put(seat, replace(seat.level, domain_wide=True))
        else:
            case = replace(case, fire_at=None)
        self.book.cases[case.id] = case
        self.folding.touched.add(case.id)

    def _resolve(self, case: Case, at: Instant) -> None:
        book = self.book
        forget_at = at + span(book.timing.flap_seconds)
        case = book.cases[case.id] = replace(case, state="resolved", fire_at=None, suspect_at=None, forget_at=forget_at)
        book.remind(case.id, forget_at)
        self.folding.over[case.id] = incident_of(case, book.folded[case.id], book.topology)
        self._release(case, [seat for seat in book.folded[case.id] if seat.level.active], at, close=False)

    def _release(self, case: Case, seats: Iterable[Seat], at: Instant, *, close: bool = True) -> None:
        """Let levels out of their case. One that is still active was hidden by its cause and now stands for itself:
        a fault does not vanish with what explained it.
        """
        released = sorted(seats, key=rank_of)
        for seat in released:
            self.book.drop(seat)
        if close:
            self.book.close(case)
        for seat in released:
            if seat.level.active:
                alone = replace(seat.level, case="", root=True, ended=None, flaps=0, domain_wide=False)
                self.folding.place(seat.key, alone, at, orphan=True)
