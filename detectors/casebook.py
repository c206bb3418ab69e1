"""The state of correlation opened for one step: levels and cases by id, with the indexes that keep every look-up short.

Every index follows from the levels alone, so opening a stored state again gives the same answers. Levels are known in
here by their seats, which are compared by identity: the key of a level is five words, and asked for too often.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence
from copy import copy

from msgspec.structs import replace

from detectors.correlation_state import Case, Correlation, Instant, Key, Level, Timing, span
from detectors.explanation import EXPLAINED_BY, EXPLAINS_ANY, MERGE_BY_CAUSE, SYMPTOMS, Relation
from detectors.places import Place, Seat, Surroundings, drawn_up, feeds_of, rank_of
from schemas.causes import CAUSE_BY_NAME, TELEMETRY
from schemas.topology import Topology

EVIDENCE_LIMIT = 20  # findings of an incident whose evidence is kept, beside its roots'
Present = dict[Seat, None]  # who is at a place, in order


class Casebook:
    """seats: levels by key. folded: seats of each case. roots: how many of them are its roots. open: how many keep it
    open. deadlines: a heap of instants at which a case may change by itself; one that no longer applies does nothing.
    """

    def __init__(self, state: Correlation, topology: Topology, timing: Timing) -> None:
        self.topology = topology
        self.timing = timing
        self.seats: dict[Key, Seat] = {}
        self.cases = {case.id: case for case in state.cases}
        self.folded: defaultdict[str, dict[Seat, None]] = defaultdict(dict)
        self.roots: defaultdict[str, int] = defaultdict(int)
        self.open: defaultdict[str, int] = defaultdict(int)
        self.deadlines: list[tuple[Instant, str]] = []
        self._sites = drawn_up(topology)
        self._sites.begin_step()
        self._standing: defaultdict[Place, Present] = defaultdict(dict)
        # Cases by cause and domain: how many roots of theirs.
        self._near: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._leaning: dict[Surroundings, Present] = {}  # roots by where they look for a cause
        self._around: dict[Place, dict[Surroundings, None]] = {}  # that some root leans on
        self._rooted: set[str] = set()  # causes that some root has, or has had
        self._skew = span(timing.skew_seconds)
        self._settle = span(timing.settle_seconds)
        self._reach = span(timing.reach_seconds)
        self._domain = span(timing.domain_seconds)
        self._reroot = span(timing.reroot_seconds)
        for level in state.levels:
            self.take(self.seat(level.said.key, copy(level)))
        for case in state.cases:
            for deadline in case.deadlines(timing):
                self.remind(case.id, deadline)

    def seat(self, key: Key, level: Level) -> Seat:
        """A seat for a level that is not in the book yet."""
        _, cause, kind, entity, _ = key
        return Seat(key, level, self._sites[cause, kind, entity, level.members])

    def take(self, seat: Seat) -> None:
        """Write a level down that was not in the book."""
        self.seats[seat.key] = seat
        for place in seat.stands:
            self._standing[place][seat] = None
        self._enter(seat)

    def put(self, seat: Seat, level: Level) -> None:
        """Write a level down, in place of what was known of it."""
        before = seat.level
        if before.case == level.case and before.root == level.root and before.keeps_open == level.keeps_open:
            seat.level = level
            return
        self._leave(seat)
        seat.level = level
        self._enter(seat)

    def fold(self, seat: Seat, case_id: str, *, root: bool = False) -> None:
        """Write a level down as part of a case. A symptom beyond those that an incident shows keeps its numbers, not
        its evidence, so that the state of a storm stays small.
        """
        level = seat.level
        if not root and level.said.evidence is not None and len(self.folded[case_id]) >= EVIDENCE_LIMIT:
            level.said = replace(level.said, evidence=None)
        if not level.case:
            level.case, level.root = case_id, root
            self.take(seat)
        elif level.case != case_id or level.root != root:
            self._leave(seat)
            level.case, level.root = case_id, root
            self._enter(seat)

    def drop(self, seat: Seat) -> None:
        """Forget a level."""
        del self.seats[seat.key]
        self._leave(seat)
        for place in seat.stands:
            del self._standing[place][seat]

    def remind(self, case_id: str, deadline: Instant | None) -> None:
        if deadline is not None:
            heapq.heappush(self.deadlines, (deadline, case_id))

    def next_due(self, until: Instant) -> tuple[Case, Instant] | None:
        """The next case whose deadline has come, in order of time; those that arise while one looks are among them."""
        while self.deadlines and self.deadlines[0][0] <= until:
            at, case_id = heapq.heappop(self.deadlines)
            if case_id in self.cases:
                return self.cases[case_id], at
        return None

    def close(self, case: Case) -> None:
        del self.cases[case.id]
        self.folded.pop(case.id, None)

    def explainer(self, seat: Seat) -> Seat | None:
        """The level of an open case that explains this one: the highest in the causal order, then the earliest. Places
        are looked at in that order, so that a storm under a lost feed is not asked about its nodes too.
        """
        level, cause = seat.level, seat.key[1]
        best: Seat | None = None
        order = TELEMETRY  # of the best so far: what stands further down is not better
        for highest, place, relation in seat.site.looks:
            if highest > order:
                break
            if here := self._standing.get(place):
                best = self._better(best, EXPLAINED_BY[cause][relation], here, relation, level)
                order = TELEMETRY if best is None else CAUSE_BY_NAME[best.key[1]].order
        return best

    def _better(
        self, best: Seat | None, causes: frozenset[str], here: Present, relation: Relation, level: Level
    ) -> Seat | None:
        """The best of what was found and the levels of open cases at this place that explain the level."""
        for seat in here:
            if (
                seat.key[1] in causes
                and self._explains(seat.level, relation, level)
                and self.cases[seat.level.case].state != "resolved"
                and (best is None or rank_of(seat) < rank_of(best))
            ):
                best = seat
        return best

    def explained(self, seat: Seat) -> Collection[Seat]:
        """The roots that this level explains."""
        level, cause = seat.level, seat.key[1]
        if self._rooted.isdisjoint(EXPLAINS_ANY.get(cause, ())):
            return ()
        explains = SYMPTOMS[cause]
        found: dict[Seat, None] = {}
        if (symptoms := explains.get("same")) and (here := self._standing.get(seat.site.own)):
            self._find_roots(found, symptoms, here, "same", level)
        for place in seat.stands:
            for around in self._around.get(place, ()):
                if symptoms := explains.get(around.relation):
                    self._find_roots(found, symptoms, self._leaning[around], around.relation, level)
        return found

    def _find_roots(
        self, found: dict[Seat, None], symptoms: frozenset[str], here: Present, relation: Relation, level: Level
    ) -> None:
        for root in here:
            if root.key[1] in symptoms and root.level.root and self._explains(level, relation, root.level):
                found[root] = None

    def claims(self, seat: Seat, home: Case | None, at: Instant) -> tuple[Sequence[Case], Sequence[Seat]]:
        """Cases that this level explains as a whole, and roots of others that it takes out of them."""
        roots_explained = self.explained(seat)
        if not roots_explained:
            return (), ()
        explained: dict[str, list[Seat]] = {}
        for root in roots_explained:
            explained.setdefault(root.level.case, []).append(root)
        young = at - self._reroot
        whole: list[Case] = []
        parts: list[Seat] = []
        for case_id in sorted(explained):
            case, roots = self.cases[case_id], explained[case_id]
            old = case.fired and case.detected_at is not None and case.detected_at < young
            if case.state == "resolved" or old or (home is not None and case_id == home.id):
                continue
            merge = MERGE_BY_CAUSE.get(case.cause)
            enough = 0.5 if merge is not None and merge.together else 1.0
            if len(roots) >= enough * self.roots[case_id]:
                whole.append(case)
            else:
                parts.extend(sorted(roots, key=rank_of))
        return whole, parts

    def twin(self, seat: Seat) -> Seat | None:
        """The same bad state of the same entity, as another detector or another code states it, in an open case."""
        here = self._standing.get(seat.site.own)
        if not here:
            return None
        state = seat.key[1:4]
        found = [one for one in here if one.key[1:4] == state and self._is_open(one.level.case)]
        return min(found, key=rank_of, default=None)

    def neighbour(self, seat: Seat) -> Case | None:
        """The case whose roots this level belongs to: same cause, a domain in common, begun within domain_seconds.
        A mere suspicion has no such company.
        """
        level = seat.level
        if not level.grave:
            return None
        cause, first, last = seat.key[1], level.onset - self._domain, level.onset + self._domain
        found: Case | None = None
        for shared in seat.site.shares:
            for case_id in self._near.get(shared, ()):
                case = self.cases.get(case_id)
                if (
                    case is not None and case_id != level.case and case.state != "resolved" and case.cause == cause
                    and case.severity != "info" and case.ended is None
                    and case.starts_at <= last and first <= case.last_onset
                    and (found is None or (case.opened, case_id) < (found.opened, found.id))
                ):  # fmt: skip
                    found = case
        return found

    def has_gpus_folded(self, pdu: str, case_id: str) -> bool:
        """Whether a finding in the case already says which GPUs under the PDU are gone."""
        places = (
            place
            for node in self.topology.nodes_under("pdu", pdu)
            for place in (f"node {node}", *(f"gpu {gpu}" for gpu in self.topology.gpus_of_node(node)))
        )
        standing = (seat.level for place in places for seat in self._standing.get(place, ()))
        return any(level.case == case_id and level.takes_gpus for level in standing)

    def _is_open(self, case_id: str) -> bool:
        case = self.cases.get(case_id)
        return case is not None and case.state != "resolved"

    def _enter(self, seat: Seat) -> None:
        level = seat.level
        case_id = level.case
        self.folded[case_id][seat] = None
        if level.keeps_open:
            self.open[case_id] += 1
        if not level.root:
            return
        self.roots[case_id] += 1
        self._rooted.add(seat.key[1])
        for shared in seat.site.shares:
            self._near[shared][case_id] += 1
        for around in seat.site.around:
            if around in self._leaning:
                self._leaning[around][seat] = None
                continue
            self._leaning[around] = {seat: None}
            for place in around.places:
                self._around.setdefault(place, {})[around] = None

    def _leave(self, seat: Seat) -> None:
        level = seat.level
        case_id = level.case
        del self.folded[case_id][seat]
        if level.keeps_open:
            self.open[case_id] -= 1
        if not level.root:
            return
        self.roots[case_id] -= 1
        for shared in seat.site.shares:
            near = self._near[shared]
            near[case_id] -= 1
            if not near[case_id]:
                del near[case_id]
        for around in seat.site.around:
            del self._leaning[around][seat]

    def _explains(self, cause: Level, relation: Relation, symptom: Level) -> bool:
        """A cause begins before its symptom, clocks aside, and the symptom before its cause is long over. A mere
        suspicion explains only suspicions.
        """
        if symptom.grave > cause.grave:
            return False
        # A flap is made of outages: a device that is gone explains the last one, whatever the first one was.
        flaps = relation == "end" and symptom.said.cause == "link_flap"
        if cause.onset > (symptom.said.time if flaps else symptom.onset) + self._skew:
            return False
        if symptom.said.cause == "job_hang" and symptom.onset > cause.said.time + self._reach:
            return False
        if cause.ended is not None and symptom.onset > cause.ended + self._settle:
            return False
        return relation != "whole" or self._all_dark(symptom.said.entity, cause)

    def _all_dark(self, cdu: str, cause: Level) -> bool:
        """Whether every node of the loop has a feed that is in the same trouble as `cause`."""
        here = cause.said.entity
        return all(
            any(feed == here or self._in_trouble(feed, cause.said.cause) for feed in feeds_of(self.topology, node))
            for node in self.topology.nodes_under("cdu", cdu)
        )

    def _in_trouble(self, pdu: str, cause: str) -> bool:
        standing = (seat.level for seat in self._standing.get(f"pdu {pdu}", ()))
        return any(level.active and level.said.cause == cause for level in standing)
