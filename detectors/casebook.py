"""The state of correlation opened for one step: levels and cases by id, with the indexes that keep every look-up short.

Every index follows from the levels alone, so opening a stored state again gives the same answers. A case is drawn up
here as the incident that others see.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from detectors.correlation_state import Case, Correlation, Instant, Key, Level, Timing, moment
from detectors.explanation import SYMPTOMS, Place, Relation, feeds_of, leans_on, shares, stands_at
from schemas.causes import CAUSE_BY_NAME, Kind
from schemas.incident import Incident, State
from schemas.topology import Topology

EVIDENCE_LIMIT = 20
MICROSECONDS_PER_SECOND = 1_000_000


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
        self._near: defaultdict[tuple[str, Place], Counter[str]] = defaultdict(Counter)
        self._standing: defaultdict[Place, dict[Key, None]] = defaultdict(dict)
        self._leaning: defaultdict[Place, dict[Key, Relation]] = defaultdict(dict)
        for level in state.levels:
            self.put(level)
        for case in state.cases:
            for deadline in (case.suspect_at, case.fire_at, self.clears_at(case), case.forget_at):
                self.remind(case.id, deadline)

    def put(self, level: Level) -> None:
        """Write a level down, in place of what was known of it."""
        key = level.said.key
        before = self.levels.get(key)
        self.levels[key] = level
        if before is None:
            for place in self._stands(level):
                self._standing[place][key] = None
        elif (before.case, before.root, before.active) == (level.case, level.root, level.active):
            return
        else:
            self._count(before, key, -1)
        self._count(level, key, 1)

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

    def clears_at(self, case: Case) -> Instant | None:
        """When a case that is over, and stays so, is resolved."""
        return None if case.ended is None or not case.told else case.ended + self.span(self.timing.clear_seconds)

    def case_of(self, level: Level) -> Case:
        return self.cases[level.case]

    def levels_of(self, case_id: str) -> list[Level]:
        return [self.levels[key] for key in self.folded[case_id]]

    def explainer(self, level: Level) -> Level | None:
        """The level that explains this one: the highest in the causal order, then the earliest."""
        found = (
            cause
            for relation, place in self._leans(level)
            for key in self._standing.get(place, ())
            if self._explains(cause := self.levels[key], relation, level) and self.case_of(cause).state != "resolved"
        )
        return min(found, key=_rank, default=None)

    def explained(self, level: Level) -> Iterator[Level]:
        """The roots of other cases that this level explains."""
        for place in self._stands(level):
            for key, relation in self._leaning.get(place, {}).items():
                if self._explains(level, relation, root := self.levels[key]):
                    yield root

    def twin(self, level: Level) -> Level | None:
        """The same bad state of the same entity, as another detector states it, in a case that is not resolved."""
        found = (
            other
            for key in self._standing.get(self._stands(level)[0], ())
            if (other := self.levels[key]).said.key[1:] == level.said.key[1:] and self._is_open(other.case)
        )
        return min(found, key=_rank, default=None)

    def neighbour(self, level: Level) -> Case | None:
        """The case whose roots this level belongs to: same cause, a domain in common, begun within domain_seconds."""
        span = self.span(self.timing.domain_seconds)
        said = level.said
        found = {
            case.id: case
            for domain in shares(self.topology, said.cause, said.kind, said.entity)
            for case_id in self._near.get((said.cause, domain), ())
            if self._is_open(case_id)
            and (case := self.cases[case_id]).cause == said.cause
            and case.ended is None
            and case.starts_at - span <= level.onset <= case.last_onset + span
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
        return any(level.case == case_id and level.said.takes_gpus for level in standing)

    def incident(self, case: Case, state: State, ended: Instant | None = None, merged_into: str | None = None) -> Incident:
        """The case as others see it."""
        levels = self.levels_of(case.id)
        roots = {level.said.entity for level in levels if level.root}
        seen = {(level.said.kind, level.said.entity) for level in levels}
        seen.difference_update((case.kind, root) for root in roots)
        first = heapq.nsmallest(EVIDENCE_LIMIT, levels, key=_shown_first)
        return Incident(
            id=case.id, cause=case.cause, severity=case.severity, state=state, root_kind=cast("Kind", case.kind),
            roots=tuple(sorted(roots)), members=tuple(sorted(self._members(levels))), symptoms=tuple(sorted(seen)),
            starts_at=moment(case.starts_at), detected_at=moment(case.detected_at or case.opened),
            ends_at=None if ended is None else moment(ended), evidence=tuple(_evidence(level) for level in first),
            merged_into=merged_into, flaps=case.flaps,
            findings=dict(sorted(Counter(level.said.cause for level in levels).items())),
        )  # fmt: skip

    def span(self, seconds: float) -> Instant:
        return round(seconds * MICROSECONDS_PER_SECOND)

    def _members(self, levels: list[Level]) -> set[str]:
        members: set[str] = set()
        dark: set[str] = set()
        for level in levels:
            if not level.said.takes_gpus:
                continue
            if level.said.kind != "pdu":
                members.update(self.topology.gpus_under(level.said.kind, level.said.entity))
            elif level.domain_wide:
                dark.add(level.said.entity)
        for pdu in dark:
            for node in self.topology.nodes_under("pdu", pdu):
                if dark.issuperset(feeds_of(self.topology, node)):  # a second feed keeps a node alive
                    members.update(self.topology.gpus_of_node(node))
        return members

    def _stands(self, level: Level) -> tuple[Place, ...]:
        return stands_at(self.topology, level.said.kind, level.said.entity, level.job)

    def _leans(self, level: Level) -> tuple[tuple[Relation, Place], ...]:
        return leans_on(self.topology, level.said.kind, level.said.entity, level.members)

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
        for domain in shares(self.topology, said.cause, said.kind, said.entity):
            near = self._near[said.cause, domain]
            near[case_id] += by
            if not near[case_id]:
                del near[case_id]
        for relation, place in self._leans(level):
            if by > 0:
                self._leaning[place][key] = relation
            else:
                del self._leaning[place][key]

    def _explains(self, cause: Level, relation: Relation, symptom: Level) -> bool:
        """A cause begins before its symptom, clocks aside, and the symptom before its cause is long over."""
        if symptom.said.cause not in SYMPTOMS.get((cause.said.cause, relation), ()):
            return False
        if cause.onset > symptom.onset + self.span(self.timing.skew_seconds):
            return False
        if cause.ended is not None and not cause.active:
            over = cause.ended + self.span(self.timing.settle_seconds)
            if symptom.onset > over:
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


def _rank(level: Level) -> tuple[int, Instant, Key]:
    return (CAUSE_BY_NAME[level.said.cause].order, level.onset, level.said.key)


def _shown_first(level: Level) -> tuple[bool, bool, int, Instant, Key]:
    return (not level.root, level.said.evidence is None, *_rank(level))


def _evidence(level: Level) -> dict[str, Any]:
    said = level.said
    try:
        values = None if said.evidence is None else msgspec.json.decode(said.evidence)
    except msgspec.DecodeError:
        values = said.evidence  # a detector's plain words
    shown = {
        "detector": said.detector, "cause": said.cause, "kind": said.kind, "entity": said.entity, "code": said.code,
        "severity": said.severity, "active": level.active, "score": said.score, "threshold": said.threshold,
        "first_bad_at": moment(level.onset).isoformat(), "values": values, "action": said.action,
    }  # fmt: skip
    return {**shown, "flaps": level.flaps} if level.flaps else shown


def trimmed(level: Level, folded: int) -> Level:
    """A symptom beyond those that an incident shows keeps its numbers, not its evidence: the state stays bounded."""
    return level if folded < EVIDENCE_LIMIT else replace(level, said=replace(level.said, evidence=None))
