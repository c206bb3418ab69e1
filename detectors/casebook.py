"""The state of correlation opened for one step: levels and cases by id, with the indexes that keep every look-up short.

Every index follows from the levels alone, so opening a stored state again gives the same answers.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from detectors.correlation_state import Case, Correlation, Instant, Key, Level, Timing, rank, span
from detectors.explanation import EXPLAINED_BY, MERGE_BY_CAUSE, SYMPTOMS, Relation
from detectors.places import Place, Site, Surroundings, drawn_up, feeds_of, place_of
from schemas.topology import Topology

EVIDENCE_LIMIT = 20  # findings of an incident whose evidence is kept, beside its roots'


class Casebook:
    """folded: levels of each case. roots: how many of them are its roots. open: how many keep it open. deadlines: a
    heap of instants at which a case may change by itself; one that no longer applies does nothing.
    """

    def __init__(self, state: Correlation, topology: Topology, timing: Timing) -> None:
        self.topology = topology
        self.timing = timing
        self.levels: dict[Key, Level] = {}
        self.cases = {case.id: case for case in state.cases}
        self.folded: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        self.roots: Counter[str] = Counter()
        self.open: Counter[str] = Counter()
        self.deadlines: list[tuple[Instant, str]] = []
        self._sites, self._shares = drawn_up(topology)
        self._standing: defaultdict[Place, dict[Key, None]] = defaultdict(dict)  # levels by where they stand
        self._near: defaultdict[tuple[str, Place], Counter[str]] = defaultdict(Counter)  # cases by cause and domain
        self._leaning: dict[Surroundings, dict[Key, None]] = {}  # roots by where they look for a cause
        self._around: defaultdict[Place, list[Surroundings]] = defaultdict(list)  # that some root leans on
        self._skew = span(timing.skew_seconds)
        self._settle = span(timing.settle_seconds)
        self._reach = span(timing.reach_seconds)
        self._domain = span(timing.domain_seconds)
        self._reroot = span(timing.reroot_seconds)
        for level in state.levels:
            self.put(level)
        for case in state.cases:
            for deadline in case.deadlines(timing):
                self.remind(case.id, deadline)

    def put(self, level: Level) -> None:
        """Write a level down, in place of what was known of it."""
        key = level.said.key
        before = self.levels.get(key)
        self.levels[key] = level
        if before is None:
            for place in self._stands(level):
                self._standing[place][key] = None
        elif before.case == level.case and before.root == level.root and before.keeps_open == level.keeps_open:
            return
        else:
            self._count(before, key, -1)
        self._count(level, key, 1)

    def fold(self, level: Level, case_id: str, *, root: bool = False) -> Level:
        """Write a level down as part of a case. A symptom beyond those that an incident shows keeps its numbers, not
        its evidence, so that the state of a storm stays small.
        """
        said = level.said
        if not root and said.evidence is not None and len(self.folded[case_id]) >= EVIDENCE_LIMIT:
            said = replace(said, evidence=None)
        level = replace(level, said=said, case=case_id, root=root)
        self.put(level)
        return level

    def drop(self, key: Key) -> Level:
        """Forget a level."""
        level = self.levels.pop(key)
        self._count(level, key, -1)
        for place in self._stands(level):
            del self._standing[place][key]
        return level

    def remind(self, case_id: str, deadline: Instant | None) -> None:
        if deadline is not None:
            heapq.heappush(self.deadlines, (deadline, case_id))

    def due(self, until: Instant) -> Iterator[tuple[Case, Instant]]:
        """Cases whose deadline has come, in order of time; those that arise while one looks are among them."""
        while self.deadlines and self.deadlines[0][0] <= until:
            at, case_id = heapq.heappop(self.deadlines)
            if case_id in self.cases:
                yield self.cases[case_id], at

    def close(self, case: Case) -> None:
        del self.cases[case.id]
        self.folded.pop(case.id, None)

    def case_of(self, level: Level) -> Case:
        return self.cases[level.case]

    def levels_of(self, case_id: str) -> list[Level]:
        return [self.levels[key] for key in self.folded[case_id]]

    def explainer(self, level: Level) -> Level | None:
        """The level of an open case that explains this one: the highest in the causal order, then the earliest."""
        explained_by = EXPLAINED_BY.get(level.said.cause)
        if explained_by is None:
            return None
        site = self._site(level)
        found: list[Level] = []
        if causes := explained_by["same"]:
            found += self._causes(causes, "same", site.own, level)
        for around in site.around:
            if causes := explained_by[around.relation]:
                for place in around.places:
                    if place in self._standing:
                        found += self._causes(causes, around.relation, place, level)
        return min(found, key=rank) if len(found) > 1 else next(iter(found), None)

    def _causes(self, causes: frozenset[str], relation: Relation, place: Place, level: Level) -> list[Level]:
        """Levels of open cases at this place that explain the level."""
        return [
            cause
            for key in self._standing.get(place, ())
            if key[1] in causes
            and self._explains(cause := self.levels[key], relation, level)
            and self.cases[cause.case].state != "resolved"
        ]

    def explained(self, level: Level) -> dict[Key, Level]:
        """The roots that this level explains."""
        explains = SYMPTOMS[level.said.cause]
        found: dict[Key, Level] = {}
        leaning: list[tuple[Relation, Iterable[Key]]] = [("same", self._standing.get(self._site(level).own, ()))]
        for place in self._stands(level):
            if place in self._around:
                leaning.extend((around.relation, self._leaning[around]) for around in self._around[place])
        for relation, keys in leaning:
            if symptoms := explains.get(relation):
                for key in keys:
                    if key[1] in symptoms and (root := self.levels[key]).root and self._explains(level, relation, root):
                        found[key] = root
        return found

    def claims(self, level: Level, home: Case | None, at: Instant) -> tuple[list[Case], list[Level]]:
        """Cases that this level explains as a whole, and roots of others that it takes out of them."""
        if level.said.cause not in SYMPTOMS:
            return [], []
        young = at - self._reroot
        explained: dict[str, dict[Key, Level]] = {}
        for key, root in self.explained(level).items():
            case = self.case_of(root)
            if case.state != "resolved" and (case.detected_at is None or not case.fired or case.detected_at >= young):
                explained.setdefault(case.id, {})[key] = root
        whole: list[Case] = []
        parts: list[Level] = []
        for case_id in sorted(explained):
            case, roots = self.cases[case_id], explained[case_id]
            merge = MERGE_BY_CAUSE.get(case.cause)
            enough = 0.5 if merge is not None and merge.together else 1.0
            if home is not None and case_id == home.id:
                continue
            if len(roots) >= enough * self.roots[case_id]:
                whole.append(case)
            else:
                parts.extend(sorted(roots.values(), key=rank))
        return whole, parts

    def twin(self, level: Level) -> Level | None:
        """The same bad state of the same entity, as another detector or another code states it, in an open case."""
        said = level.said
        found = [
            self.levels[key]
            for key in self._standing.get(self._site(level).own, ())
            if key[1:4] == said.state_of and self._is_open(self.levels[key].case)
        ]
        return min(found, key=rank) if found else None

    def neighbour(self, level: Level) -> Case | None:
        """The case whose roots this level belongs to: same cause, a domain in common, begun within domain_seconds.
        A mere suspicion has no such company.
        """
        if not level.grave:
            return None
        near = self._domain
        said = level.said
        found = {
            case.id: case
            for domain in self._shares[said.state_of]
            for case_id in self._near.get((said.cause, domain), ())
            if case_id != level.case
            and self._is_open(case_id)
            and (case := self.cases[case_id]).cause == said.cause
            and case.severity != "info"
            and case.ended is None
            and case.starts_at - near <= level.onset <= case.last_onset + near
        }
        return min(found.values(), key=lambda case: (case.opened, case.id), default=None)

    def has_gpus_folded(self, pdu: str, case_id: str) -> bool:
        """Whether a finding in the case already says which GPUs under the PDU are gone."""
        places = (
            place
            for node in self.topology.nodes_under("pdu", pdu)
            for place in (("node", node), *(("gpu", gpu) for gpu in self.topology.gpus_of_node(node)))
        )
        standing = (self.levels[key] for place in places for key in self._standing.get(place, ()))
        return any(level.case == case_id and level.takes_gpus for level in standing)

    def _site(self, level: Level) -> Site:
        return self._sites[place_of(level.said.kind, level.said.entity), level.members]

    def _stands(self, level: Level) -> tuple[Place, ...]:
        """At its own place and beside it, and in the job that its evidence names."""
        site = self._site(level)
        if level.job is None or level.said.kind == "job":
            return (site.own, *site.beside)
        return (site.own, *site.beside, ("runs", level.job))

    def _is_open(self, case_id: str) -> bool:
        case = self.cases.get(case_id)
        return case is not None and case.state != "resolved"

    def _count(self, level: Level, key: Key, by: int) -> None:
        case_id = level.case
        if by > 0:
            self.folded[case_id][key] = None
        else:
            del self.folded[case_id][key]
        if level.keeps_open:
            self.open[case_id] += by
        if not level.root:
            return
        self.roots[case_id] += by
        said = level.said
        for domain in self._shares[said.state_of]:
            near = self._near[said.cause, domain]
            near[case_id] += by
            if not near[case_id]:
                del near[case_id]
        for around in self._site(level).around:
            if by < 0:
                del self._leaning[around][key]
            elif around in self._leaning:
                self._leaning[around][key] = None
            else:
                self._leaning[around] = {key: None}
                for place in around.places:
                    self._around[place].append(around)

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
        standing = (self.levels[key] for key in self._standing.get(("pdu", pdu), ()))
        return any(level.active and level.said.cause == cause for level in standing)
