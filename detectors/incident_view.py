"""A case of correlation drawn up as the incident that others see."""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from detectors.casebook import EVIDENCE_LIMIT
from detectors.correlation_state import STALLS_GPUS, TAKES_GPUS, Case, Level, iso_format, moment
from detectors.places import Seat, feeds_of, rank_of
from schemas.causes import Kind
from schemas.incident import Incident, State
from schemas.topology import Topology

HAS_GPUS = TAKES_GPUS | STALLS_GPUS


def incident_of(case: Case, seats: Iterable[Seat], topology: Topology, merged_into: str | None = None) -> Incident:
    """What is known of a case, in an order that does not depend on how it came together."""
    roots: set[str] = set()
    seen: defaultdict[str, set[str]] = defaultdict(set)
    findings: defaultdict[str, int] = defaultdict(int)
    with_gpus: list[Seat] = []
    in_order: tuple[list[Seat], ...] = ([], [], [], [])  # roots before symptoms; of either, who has evidence first
    for seat in seats:  # once: a storm has ten thousand
        level, (_, cause, kind, entity, _) = seat.level, seat.key
        findings[cause] += 1
        seen[kind].add(entity)
        if level.root:
            roots.add(entity)
        if cause in HAS_GPUS and level.grave:
            with_gpus.append(seat)
        in_order[2 * (not level.root) + (level.said.evidence is None)].append(seat)
    seen[case.kind] -= roots
    shown: list[Seat] = []
    for alike in in_order:
        shown.extend(heapq.nsmallest(EVIDENCE_LIMIT - len(shown), alike, key=rank_of))
    return Incident(
        id=case.id, cause=case.cause, severity=case.severity, state=cast("State", case.state),
        root_kind=cast("Kind", case.kind),
        roots=tuple(sorted(roots)), members=tuple(sorted(_members(with_gpus, topology))),
        symptoms=tuple([(kind, entity) for kind in sorted(seen) for entity in sorted(seen[kind])]),
        starts_at=moment(case.starts_at), detected_at=moment(case.detected_at or case.opened),
        ends_at=moment(case.ended) if case.state == "resolved" and case.ended is not None else None,
        evidence=tuple(_evidence(seat.level) for seat in shown), findings=dict(sorted(findings.items())),
        merged_into=merged_into, flaps=case.flaps,
    )  # fmt: skip


def _members(seats: list[Seat], topology: Topology) -> set[str]:
    """GPUs of the findings that take GPUs, and those of a job that stands still by itself. A PDU stated lost before any
    GPU under it was takes all that it feeds alone; otherwise the findings say who is gone.
    """
    members: set[str] = set()
    nodes: set[str] = set()
    dark: set[str] = set()
    for seat in seats:
        level, (_, cause, kind, entity, _) = seat.level, seat.key
        if cause in STALLS_GPUS:
            if level.stalls:
                members.update(gpu for one in level.members for gpu in _gpus_of(one, topology))
        elif kind == "gpu":
            members.add(entity)
        elif kind != "pdu":
            nodes.update(topology.nodes_under(kind, entity))
        elif level.domain_wide:
            dark.add(entity)
    fed = (node for pdu in dark for node in topology.nodes_under("pdu", pdu))
    nodes.update(node for node in fed if dark.issuperset(feeds_of(topology, node)))  # a second feed keeps a node alive
    members.update(gpu for node in nodes for gpu in topology.gpus_of_node(node))
    return members


def _gpus_of(member: str, topology: Topology) -> tuple[str, ...]:
    """A job's evidence names its GPUs, or its nodes."""
    return (member,) if "/" in member else tuple(topology.gpus_of_node(member))


def _evidence(level: Level) -> dict[str, Any]:
    said = level.said
    try:
        values = None if said.evidence is None else msgspec.json.decode(said.evidence)
    except msgspec.DecodeError:
        values = said.evidence  # a detector's plain words
    shown = {
        "detector": said.detector, "cause": said.cause, "kind": said.kind, "entity": said.entity, "code": said.code,
        "severity": said.severity, "active": level.active, "score": said.score, "threshold": said.threshold,
        "first_bad_at": iso_format(level.onset), "values": values, "action": said.action,
    }  # fmt: skip
    return {**shown, "flaps": level.flaps} if level.flaps else shown
