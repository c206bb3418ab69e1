"""The one place where recovery's four stages meet: policy, guard, ledger, executor.

Decisions of a round are made in one write transaction, so that two workers cannot both take the last of a budget;
effects happen outside it. What waits for an earlier step's effect is decided in the next round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pipelines.operations_store import OperationsStore
from pipelines.recovery.checks import Refusal
from pipelines.recovery.executors.contract import Executor
from pipelines.recovery.facts import Facts
from pipelines.recovery.guard import Decision, decide
from pipelines.recovery.history import history_from
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.policy import plan, spares_of
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRecord, ActionRequest
from schemas.incident import Incident, State
from schemas.topology import Topology, node_of

INCIDENTS_AT_ONCE = 100  # bounds a transaction, and the number of parameters of a statement
ACTIVE: tuple[State, ...] = ("suspect", "firing", "acknowledged", "mitigating")
TELEMETRY = ("telemetry_stale", "telemetry_frozen", "telemetry_implausible")


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
    records: list[ActionRecord] = []
    for begin in range(0, len(incidents), INCIDENTS_AT_ONCE):
        some = incidents[begin : begin + INCIDENTS_AT_ONCE]
        work = _Work(
            ledger=ledger, topology=topology, settings=settings, executors=executors, now=now,
            lost=_lost_nodes(some, topology), blind=_blind(incidents),
        )  # fmt: skip
        records.extend(_recover(some, work))
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


def _recover(incidents: Sequence[Incident], work: _Work) -> list[ActionRecord]:
    requests = [request for incident in incidents for request in plan(incident, work.topology, work.settings)]
    if not requests:
        return []
    ids = [request.id for request in requests]
    undecided = _undecided(requests, work.ledger.known(ids), work)
    while undecided:
        claimed, undecided = _decide_round(undecided, work)
        for request in claimed:
            outcome = work.executors[request.kind].apply(request)
            work.ledger.finish(request.id, outcome, work.now)
    stands = work.ledger.known(ids)
    return [stands[identity] for identity in ids]


def _undecided(
    requests: Sequence[ActionRequest], known: Mapping[str, ActionRecord], work: _Work
) -> list[ActionRequest]:
    """New ones, and those without effect so far whose case may have changed."""
    retryable = work.ledger.retryable([request.id for request in requests], work.settings.attempts_maximum)

    def is_open(request: ActionRequest) -> bool:
        record = known.get(request.id)
        if record is None or request.id in retryable or record.outcome in ("refused", "waiting_approval"):
            return True
        return record.outcome in ("observed", "dry-run") and record.mode != work.settings.mode_of(request.kind)

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
            if record.outcome == "pending":
                claimed.append(record.request)
                facts = replace(facts, spares_available=_spares_available(work))
    return claimed, waiting


def _settle(request: ActionRequest, facts: Facts, known: dict[str, ActionRecord], work: _Work) -> ActionRecord:
    """Decide one open request and write it down, unless it stands so already."""
    before = known.get(request.id)
    decision = decide(request, facts, work.settings)
    if decision.outcome == "pending" and request.kind == "allocate_spare":
        request, decision = _with_spares(request, decision, work)
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
    if any(request.kind == "allocate_spare" for request in requests):
        store.add_spares(spares_of(work.topology), work.now)
    known = work.ledger.known(ids | earlier)
    facts = Facts(
        now=work.now, topology=work.topology,
        history=history_from(work.ledger.history(work.settings, work.now), work.topology, work.settings, work.now),
        breaker=store.breaker(), degraded=_degraded(work), known=known,
        approvals=work.ledger.approvals(ids), spares_available=_spares_available(work),
        executors=frozenset(work.executors),
    )  # fmt: skip
    return facts, known


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


def _with_spares(request: ActionRequest, decision: Decision, work: _Work) -> tuple[ActionRequest, Decision]:
    """Take the spares from the pool together with the intent; the nearest first."""
    count = int(request.parameters.get("count", 1))
    nearest = [node for node in _nearest(request, work.topology) if node not in work.lost[request.incident]]
    spares = work.ledger.store.allocate_spares(request.id, nearest, count, work.now)
    if len(spares) < count:
        why = f"{Refusal.NO_SPARE}: too few outside the failed domain"
        return request, Decision(decision.mode, "refused", why, Refusal.NO_SPARE)
    return replace(request, parameters={**request.parameters, "spares": list(spares)}), decision


def _nearest(request: ActionRequest, topology: Topology) -> list[str]:
    """Spares of the topology: first of the same superblock as what they replace, then of the same pod."""
    kind, rows = str(request.parameters.get("target_kind")), topology.node_rows
    replaced = topology.nodes_under(kind, request.target)
    home = rows[replaced[0]] if replaced else {}

    def distance(node: str) -> tuple[bool, bool, str]:
        row = rows[node]
        return row["superblock"] != home.get("superblock"), row["pod"] != home.get("pod"), node

    return sorted(spares_of(topology), key=distance)
