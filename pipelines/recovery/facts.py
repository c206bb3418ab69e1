"""What the guard's decisions rest on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pipelines.operations_jobs import Roster
from pipelines.operations_records import Breaker
from pipelines.recovery.history import History
from schemas.action import ActionRecord, Mode
from schemas.topology import Topology


@dataclass(frozen=True)
class Approval:
    """What a person said about an action. verdict: approved | rejected | lapsed, as its incident ended first."""

    by: str
    verdict: str
    comment: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a decision rests on; None is "could not be found out". `now`: event time.

    degraded: nodes, devices, CDUs and PDUs with an active telemetry_* incident. known: the incident's actions so far,
    by id. approvals: by action id. held: what people have in hand themselves. jobs: those that run. executors: kinds of
    action that somebody can carry out.
    """

    now: datetime
    topology: Topology | None
    history: History | None
    breaker: Breaker | None
    degraded: frozenset[str] | None
    known: Mapping[str, ActionRecord] | None
    approvals: Mapping[str, tuple[Approval, ...]] | None
    spares_available: int | None
    held: frozenset[str] | None
    jobs: Mapping[str, Roster] | None
    executors: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class CertainFacts:
    """Facts of which none is in doubt, and the mode that the request would be carried out in."""

    now: datetime
    mode: Mode
    topology: Topology
    history: History
    breaker: Breaker
    degraded: frozenset[str]
    known: Mapping[str, ActionRecord]
    approvals: Mapping[str, tuple[Approval, ...]]
    spares_available: int
    held: frozenset[str]
    jobs: Mapping[str, Roster]
    executors: frozenset[str]


def certain(facts: Facts, mode: Mode) -> CertainFacts | None:
    """None when anything at all is not known."""
    if (
        facts.topology is None or facts.history is None or facts.breaker is None or facts.degraded is None
        or facts.known is None or facts.approvals is None or facts.spares_available is None or facts.held is None
        or facts.jobs is None
    ):  # fmt: skip
        return None
    return CertainFacts(
        now=facts.now, mode=mode, topology=facts.topology, history=facts.history, breaker=facts.breaker,
        degraded=facts.degraded, known=facts.known, approvals=facts.approvals,
        spares_available=facts.spares_available, held=facts.held, jobs=facts.jobs, executors=facts.executors,
    )  # fmt: skip
