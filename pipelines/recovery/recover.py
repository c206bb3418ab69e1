"""The one place where recovery's four stages meet: policy, guard, ledger, executor.

Decisions of a round are made in one write transaction, so that two workers cannot both take the last of a budget;
effects happen outside it. What waits for an earlier step's effect is decided in the next round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pipelines.operations_holds import Holds
from pipelines.operations_jobs import Jobs
from pipelines.operations_store import OperationsStore
from pipelines.recovery.checks import Refusal
from pipelines.recovery.escalation import escalations
from pipelines.recovery.executors.contract import Executor
from pipelines.recovery.facts import Facts
from pipelines.recovery.guard import Decision, decide, mode_for
from pipelines.recovery.history import History, history_from
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.policy import plan, spares_of
from pipelines.recovery.returns import outstanding, returns
from pipelines.recovery.settings import RecoverySettings
from pipelines.recovery.spares import allocated, candidates, settle_pool
from schemas.action import ActionRecord, ActionRequest
from schemas.incident import Incident, State
from schemas.topology import Topology, node_of

INCIDENTS_AT_ONCE = 100  # bounds a transaction, and the number of parameters of a statement
ACTIVE: tuple[State, ...] = ("suspect", "firing", "acknowledged", "mitigating")
OVER: tuple[State, ...] = ("resolved",)
TELEMETRY = ("telemetry_stale", "telemetry_frozen", "telemetry_implausible")
OPEN = ("refused", "waiting_approval", "scheduled")  # no effect so far, and the case may change


def recover(  # noqa: PLR0913, PLR0917 - the four stages' inputs, each its own thing
    incidents: Sequence[Incident],
    topology: Topology,
    store: OperationsStore,
    settings: RecoverySettings,
    executors: Mapping[str, Executor],
    now: datetime,
) -> tuple[ActionRecord, ...]:
    """Do, or decline with a reason, what the incidents call for; safe to call again with the same ones.

    executors: by kind of action; only mode enforce calls them. now: event time. Returns where each request stands
    now, in the order planned. Raises StoreUnavailable: then nothing was done that the ledger does not know of.
    """
    ledger = Ledger(store)
    ledger.resolve(executors, settings, now)
    ledger.close_open([one.id for one in incidents if one.state == "resolved"], now)
    records: list[ActionRecord] = []
    for begin in range(0, len(incidents), INCIDENTS_AT_ONCE):
        some = incidents[begin : begin + INCIDENTS_AT_ONCE]
        work = _Work(
            ledger=ledger, topology=topology, settings=settings, executors=executors, now=now,
            lost=_lost_nodes(some, topology), blind=_blind(incidents),
        )  # fmt: skip
        requests = [request for incident in some for request in plan(incident, topology, settings)]
        taken = _carry_out(requests, work)
        records.extend(taken)
        records.extend(_carry_out(_escalations(taken, work), work))
    work = _Work(
        ledger=ledger, topology=topology, settings=settings, executors=executors, now=now, lost={},
        blind=_blind(incidents),
    )  # fmt: skip
    records.extend(_carry_out(_returns(work), work))
    return tuple(records)


@dataclass(frozen=True, kw_only=True)
class _Work:
    """lost: nodes in each incident's failed domains. blind: telemetry incidents that the caller gave, by id."""

    ledger: Ledger
    topology: Topology
    settings: RecoverySettings
    executors: Mapping[str, Executor]
    now: datetime
    lost: Mapping[str, frozenset[str]]
    blind: Mapping[str, Incident]

    def history(self) -> History:
        return history_from(self.ledger.history(self.settings, self.now), self.topology, self.settings, self.now)


def _carry_out(requests: Sequence[ActionRequest], work: _Work) -> list[ActionRecord]:
    """Where each request stands after as many rounds as its steps need."""
    if not requests:
        return []
    ids = [request.id for request in requests]
    undecided = _undecided(requests, work.ledger.known(ids), work)
    while undecided:
        claimed, undecided = _decide_round(undecided, work)
        for request in claimed:
            outcome = work.executors[request.kind].apply(request)
            record = work.ledger.finish(request.id, outcome, work.now)
            settle_pool(work.ledger.store, work.topology, record, work.now)
    stands = work.ledger.known(ids)
    return [stands[identity] for identity in ids]


def _undecided(
    requests: Sequence[ActionRequest], known: Mapping[str, ActionRecord], work: _Work
) -> list[ActionRequest]:
    """New ones, and those without effect so far whose case may have changed."""
    retryable = work.ledger.retryable([request.id for request in requests], work.settings.attempts_maximum)

    def is_open(request: ActionRequest) -> bool:
        record = known.get(request.id)
        if record is None or request.id in retryable or record.outcome in OPEN:
            return True
        return record.outcome in ("observed", "dry-run") and record.mode != mode_for(request, work.settings)

    return [request for request in requests if is_open(request)]


def _decide_round(requests: Sequence[ActionRequest], work: _Work) -> tuple[list[ActionRequest], list[ActionRequest]]:
    """(requests whose effect is now ours to bring about, requests that wait for those). All or nothing is written."""
    claimed: list[ActionRequest] = []
    waiting: list[ActionRequest] = []
    with work.ledger.store.writing():
        facts, known = _facts(requests, work)
        for request in _undecided(requests, known, work):  # again: another worker may have been first
            behind = request.incident in {other.incident for other in waiting}  # steps keep their order
            if behind or request.parameters.get("after") in {other.id for other in claimed}:
                waiting.append(request)
                continue
            record = _settle(request, facts, known, work)
            if record.why.startswith(Refusal.BREAKER_TRIPS):
                facts = replace(facts, breaker=work.ledger.store.breaker())
            if record.outcome == "pending":
                claimed.append(record.request)
                facts = replace(facts, spares_available=_spares_available(work))
    return claimed, waiting


def _settle(request: ActionRequest, facts: Facts, known: dict[str, ActionRecord], work: _Work) -> ActionRecord:
    """Decide one open request and write it down, unless it stands so already."""
    before = known.get(request.id)
    decision = decide(request, facts, work.settings)
    if decision.outcome == "pending" and request.kind == "allocate_spare":
        request, decision = _with_spares(request, decision, facts, work)
    if decision.trips_breaker:
        work.ledger.store.trip_breaker(decision.why, work.now)
    record = ActionRecord(request=request, mode=decision.mode, outcome=decision.outcome, why=decision.why, at=work.now)
    if before is not None and before.outcome == "refused" and decision.refusal is Refusal.EXPIRED:
        return before  # the first reason says more
    if before is not None and replace(before, request=request, at=work.now) == record:
        return before
    entered = work.ledger.enter(record, before)
    assert entered, "the ledger changed inside our own transaction"
    known[request.id] = record
    if facts.history is not None:
        facts.history.add(record)
    return record


def _facts(requests: Sequence[ActionRequest], work: _Work) -> tuple[Facts, dict[str, ActionRecord]]:
    store, ids = work.ledger.store, {request.id for request in requests}
    earlier = {str(request.parameters["after"]) for request in requests if "after" in request.parameters}
    if any(request.kind in ("allocate_spare", "drain_node") for request in requests):
        store.add_spares(spares_of(work.topology), work.now)
    known = work.ledger.known(ids | earlier)
    facts = Facts(
        now=work.now, topology=work.topology, history=work.history(),
        breaker=store.breaker(), degraded=_degraded(work), known=known,
        approvals=work.ledger.approvals(ids), spares_available=_spares_available(work),
        held=frozenset(hold.target for hold in Holds(store).in_force(work.now)), jobs=Jobs(store).running(),
        executors=frozenset(work.executors),
    )  # fmt: skip
    return facts, known


def _escalations(records: Sequence[ActionRecord], work: _Work) -> tuple[ActionRequest, ...]:
    if all(record.outcome in ("done", "dry-run", "observed") for record in records):
        return ()
    retryable = work.ledger.retryable([record.request.id for record in records], work.settings.attempts_maximum)
    return escalations(records, work.history(), work.settings, retryable)


def _returns(work: _Work) -> tuple[ActionRequest, ...]:
    """What was taken out and may come back by itself."""
    taken = outstanding(work.ledger.taken_out(), work.settings)
    if not taken:
        return ()
    store = work.ledger.store
    known = store.incidents(ids={record.request.incident for record in taken}, states=OVER, limit=None)
    incidents = {incident.id: incident for incident in known}  # what nobody stored is not known to be over
    if not incidents:
        return ()
    active = store.incidents(states=ACTIVE, limit=None)
    return returns(taken, incidents, active, work.ledger.taken_for(incidents), work.settings, work.now)


def _blind(incidents: Iterable[Incident]) -> dict[str, Incident]:
    return {incident.id: incident for incident in incidents if incident.cause in TELEMETRY}


def _degraded(work: _Work) -> frozenset[str]:
    """Sources (and the nodes they are on) whose telemetry has an active incident, stored or given.

    The root of such an incident is "table:source".
    """
    stored = work.ledger.store.incidents(causes=TELEMETRY, states=ACTIVE, limit=None)
    active = _blind(stored) | dict(work.blind)
    sources = {root.partition(":")[2] for found in active.values() if found.state in ACTIVE for root in found.roots}
    return frozenset(sources | {node_of(source) for source in sources})


def _spares_available(work: _Work) -> int:
    return sum(spare.state == "available" for spare in work.ledger.store.spares())


def _lost_nodes(incidents: Iterable[Incident], topology: Topology) -> dict[str, frozenset[str]]:
    """Nodes in each incident's failed domains: no spare is taken from there."""
    return {
        incident.id: frozenset(
            node for root in incident.roots for node in topology.nodes_under(incident.root_kind, root)
        )
        for incident in incidents
    }


def _with_spares(
    request: ActionRequest, decision: Decision, facts: Facts, work: _Work
) -> tuple[ActionRequest, Decision]:
    """Take the spares from the pool together with the intent; the nearest fit ones first."""
    assert facts.history is not None
    assert facts.held is not None
    drained = facts.history.drained_nodes("enforce")
    unfit = work.lost.get(request.incident, frozenset()) | drained | facts.history.lemons() | facts.held
    spares = allocated(
        work.ledger.store, request, candidates(work.ledger.store, request, work.topology, unfit), work.now
    )
    if not spares:
        why = f"{Refusal.NO_SPARE}: too few that are fit and outside the failed domain"
        return request, Decision(decision.mode, "refused", why, Refusal.NO_SPARE)
    return replace(request, parameters={**request.parameters, "spares": list(spares)}), decision
