"""A case of correlation drawn up as the incident that others see."""

import heapq
from collections import Counter
from typing import Any, cast

import msgspec

from detectors.casebook import EVIDENCE_LIMIT
from detectors.correlation_state import Case, Instant, Key, Level, moment, rank
from detectors.places import feeds_of
from schemas.causes import Kind
from schemas.incident import Incident, State
from schemas.topology import Topology


def incident_of(case: Case, levels: list[Level], topology: Topology, merged_into: str | None = None) -> Incident:
    """What is known of a case, in an order that does not depend on how it came together."""
    roots = {level.said.entity for level in levels if level.root}
    seen = {(level.said.kind, level.said.entity) for level in levels}
    seen.difference_update((case.kind, root) for root in roots)
    speaking = [level for level in levels if level.root or level.said.evidence is not None]
    shown = heapq.nsmallest(EVIDENCE_LIMIT, speaking, key=_shown_first)
    if len(shown) < EVIDENCE_LIMIT:
        shown = heapq.nsmallest(EVIDENCE_LIMIT, levels, key=_shown_first)
    return Incident(
        id=case.id, cause=case.cause, severity=case.severity, state=cast("State", case.state),
        root_kind=cast("Kind", case.kind),
        roots=tuple(sorted(roots)), members=tuple(sorted(_members(levels, topology))), symptoms=tuple(sorted(seen)),
        starts_at=moment(case.starts_at), detected_at=moment(case.detected_at or case.opened),
        ends_at=moment(case.ended) if case.state == "resolved" and case.ended is not None else None,
        evidence=tuple(_evidence(level) for level in shown),
        findings=dict(sorted(Counter(level.said.cause for level in levels).items())),
        merged_into=merged_into, flaps=case.flaps,
    )  # fmt: skip


def _members(levels: list[Level], topology: Topology) -> set[str]:
    """GPUs of the findings that take GPUs, and those of a job that stands still by itself. A PDU stated lost before any
    GPU under it was takes all that it feeds alone; otherwise the findings say who is gone.
    """
    taking = [level for level in levels if level.takes_gpus]
    members = {level.said.entity for level in taking if level.said.kind == "gpu"}
    members.update(gpu for level in levels if level.stalls for one in level.members for gpu in _gpus_of(one, topology))
    others = {(level.said.kind, level.said.entity) for level in taking if level.said.kind not in ("gpu", "pdu")}
    nodes = {node for kind, entity in others for node in topology.nodes_under(kind, entity)}
    dark = {level.said.entity for level in taking if level.said.kind == "pdu" and level.domain_wide}
    for pdu in dark:
        for node in topology.nodes_under("pdu", pdu):
            if dark.issuperset(feeds_of(topology, node)):  # a second feed keeps a node alive
                nodes.add(node)
    for node in nodes:
        members.update(topology.gpus_of_node(node))
    return members


def _gpus_of(member: str, topology: Topology) -> tuple[str, ...]:
    """A job's evidence names its GPUs, or its nodes."""
    return (member,) if "/" in member else tuple(topology.gpus_of_node(member))


def _shown_first(level: Level) -> tuple[bool, bool, int, Instant, Key]:
    return (not level.root, level.said.evidence is None, *rank(level))


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
