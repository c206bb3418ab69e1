"""Which case a level belongs to: cases take in what they explain, meet their like, and become one.

A case that merges into another keeps nothing of its own but its id, so that nobody is paged twice.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from detectors.casebook import Casebook
from detectors.correlation_state import STALLS_GPUS, Case, Instant, Key, Level, earlier, opened, patience, worse
from detectors.incident_view import incident_of
from detectors.places import Seat
from schemas.incident import Incident


class Folding:
    """touched: cases that must be told again. over: incidents as they stood when they ended."""

    def __init__(self, book: Casebook) -> None:
        self.book = book
        self.touched: set[str] = set()
        self.over: dict[str, Incident] = {}

    def place(self, key: Key, level: Level, at: Instant, *, orphan: bool = False) -> None:
        """Fold a level into the case of its cause, of its like, of its symptoms, or one of its own."""
        book = self.book
        seat = book.seat(key, level)
        cause = book.explainer(seat)
        twin = book.twin(seat) if cause is None else None
        found = cause or twin
        home = book.cases[found.level.case] if found is not None else book.neighbour(seat)
        root = cause is None and (twin is None or twin.level.root)
        self._gather(seat, home, at, root=root, orphan=orphan)

    def settle_in(self, root: Seat, at: Instant) -> None:
        """A root that became worse, or came back, looks again for a cause, for its like and for its symptoms."""
        book = self.book
        own = book.cases[root.level.case]
        cause = book.explainer(root)
        home = book.neighbour(root) if cause is None else book.cases[cause.level.case]
        if home is not None and home.id != own.id:
            own = self._unite(home, (own,), at)
        self._gather(root, own, at, root=cause is None, orphan=False)

    def _gather(self, seat: Seat, home: Case | None, at: Instant, *, root: bool, orphan: bool) -> None:
        """Fold a level into its home, or a case of its own, together with all that it explains."""
        book = self.book
        whole, parts = book.claims(seat, home, at)
        case = home or self._opened(seat.level, at, orphan=orphan)
        if whole:
            case = self._unite(case, whole, at)
        level = seat.level  # as it is now: its own case may have become part of another
        if root and level.said.kind == "pdu" and level.takes_gpus:
            wide = level.domain_wide or not book.has_gpus_folded(level.said.entity, case.id)
            seat.level = replace(level, domain_wide=wide)
        elif root and case.fired and level.said.cause in STALLS_GPUS:
            seat.level = replace(level, domain_wide=True)  # others are told of its GPUs, and none leaves again
        book.fold(seat, case.id, root=root)
        self.weigh(seat.level, at, due=True, orphan=orphan)
        for part in parts:
            left = part.level.case
            book.fold(part, case.id)
            self.judge_over(left, at)
            self.weigh(part.level, at, due=True)

    def _opened(self, level: Level, at: Instant, *, orphan: bool) -> Case:
        case = opened(level, at, at if orphan else level.onset)
        if case.id in self.book.cases:  # what outlived an incident is not mistaken for it
            case = opened(level, at, at)
        self.book.cases[case.id] = case
        return case

    def _unite(self, about: Case, whole: Sequence[Case], at: Instant) -> Case:
        """One case out of many, about what the first is about. That one keeps its id if it fired; else the one that
        fired first does, so that nobody is paged twice.
        """
        book = self.book
        kept = about
        fired = [case for case in whole if case.fired]
        if fired and not about.fired:
            kept = min(fired, key=lambda case: (case.detected_at or at, case.id))
        if about.id != kept.id:
            for root in [seat for seat in book.folded[kept.id] if seat.level.root]:
                book.put(root, replace(root.level, root=False))
            kept = replace(
                kept, cause=about.cause, kind=about.kind, starts_at=about.starts_at, last_onset=about.last_onset
            )
        for other in (about, *whole):
            if other.id != kept.id:
                kept = self._merge(other, kept, at, keep_roots=other.id == about.id)
        book.cases[kept.id] = kept
        return kept

    def _merge(self, other: Case, kept: Case, at: Instant, *, keep_roots: bool) -> Case:
        book = self.book
        if other.told:
            gone = replace(other, state="resolved", ended=at)
            self.over[other.id] = incident_of(gone, book.folded[other.id], book.topology, merged_into=kept.id)
        for seat in tuple(book.folded[other.id]):
            book.fold(seat, kept.id, root=seat.level.root and keep_roots)
        book.close(other)
        kept = replace(
            kept, severity=worse(kept.severity, other.severity), flaps=kept.flaps + other.flaps,
            suspect_at=None if kept.told else earlier(kept.suspect_at, other.suspect_at),
            fire_at=None if kept.fired else earlier(kept.fire_at, other.fire_at),
        )  # fmt: skip
        book.remind(kept.id, kept.suspect_at)
        book.remind(kept.id, kept.fire_at)
        return kept

    def weigh(self, level: Level, at: Instant, *, due: bool, orphan: bool = False) -> None:
        """What a level that is active means for its case: severity, times, and when others are told."""
        book, said = self.book, level.said
        before = case = book.cases[level.case]
        if said.severity != case.severity and (severity := worse(case.severity, said.severity)) != case.severity:
            case = replace(case, severity=severity)
        if level.root and not case.starts_at <= level.onset <= case.last_onset:
            first, last = min(case.starts_at, level.onset), max(case.last_onset, level.onset)
            case = replace(case, starts_at=first, last_onset=last)
        if due and not case.fired:
            when = at + patience(said, book.timing, orphan=orphan)
            if said.severity != "info":
                if case.fire_at is None or when < case.fire_at:
                    case = replace(case, fire_at=when)
                    book.remind(case.id, when)
            elif not case.told and (case.suspect_at is None or when < case.suspect_at):
                case = replace(case, suspect_at=when)
                book.remind(case.id, when)
        if case is not before:
            book.cases[case.id] = case
        self.judge_over(case.id, at)

    def judge_over(self, case_id: str, at: Instant) -> None:
        """Note since when a case is over, or that it is not."""
        case = self.book.cases[case_id]
        over = None if self.book.open[case_id] else earlier(case.ended, at)
        self.touched.add(case_id)
        if over != case.ended:
            case = self.book.cases[case_id] = replace(case, ended=over)
            self.book.remind(case_id, case.clears_at(self.book.timing))
