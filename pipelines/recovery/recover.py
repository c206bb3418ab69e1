"""The one place where recovery's four stages meet: policy, guard, ledger, executor.

Decisions of a round are made in one write transaction, so that two workers cannot both take the last of a budget;
effects happen outside it. What waits for an earlier step's effect is decided in the next round.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipelines.operations_holds import Holds
from pipelines.operations_jobs import Jobs
from pipelines.operations_store import OperationsStore
from pipelines.recovery.checks import Refusal
from pipelines.recovery.complaints import complaints
from pipelines.recovery.degraded import blind, degraded
from pipelines.recovery.escalation import escalations, refusal_of
from pipelines.recovery.executors.contract import ActionOutcome, Executor
from pipelines.recovery.facts import Facts
from pipelines.recovery.guard import Decision, decide, mode_for, promised
from pipelines.recovery.history import History, history_from
from pipelines.recovery.kinds import PAPER, TRUST_TELEMETRY
from pipelines.recovery.ledger import Ledger, Standing
from pipelines.recovery.ledger_queries import OVER
from pipelines.recovery.policy import plan
from pipelines.recovery.returns import outstanding, releases, returns
from pipelines.recovery.settings import RecoverySettings
from pipelines.recovery.spares import (
    allocated,
    available,
    failing,
    fill_pool,
    free,
    lent,
    nearest,
    settle_pool,
    still_short,
)
from schemas.action import ActionRecord, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology, node_of

INCIDENTS_AT_ONCE = 100  # bounds a transaction, and the number of parameters of a statement
OPEN = ("refused", "waiting_approval", "scheduled")  # no effect so far, and the case may change


def recover(  # noqa: PLR0913, PLR0917 - the four stages' inputs, each its own thing
    incidents: Sequence[Incident],
    topology: Topology,
    store: OperationsStore,
    settings: RecoverySettings,
    executors: Mapping[str, Executor],
    now: datetime,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[ActionRecord, ...]:
    """Do, or decline with a reason, what the incidents call for; safe to call again with the same ones.

    executors: by kind of action; only mode enforce calls them. now: event time, which goes on by what effects take.
    clock: seconds that only grow. Returns where each request stands now, in the order planned. Raises
    StoreUnavailable: then nothing was done that the ledger does not know of.
    """
    ledger = Ledger(store)
    if ledger.has_intents():
        for ended in (*ledger.carry_on(executors, now), *ledger.resolve(executors, settings, now)):
            settle_pool(store, topology, ended, now)
    ledger.close_open([one.id for one in incidents if one.state == "resolved"], now)
    records: list[ActionRecord] = []
    work = _Work(
        ledger=ledger, topology=topology, settings=settings, executors=executors, begun_at=now, clock=clock,
        blind=blind(incidents),
    )  # fmt: skip
    for begin in range(0, len(incidents), INCIDENTS_AT_ONCE):
        some = incidents[begin : begin + INCIDENTS_AT_ONCE]
        work.lost = _lost_nodes(some, topology)
        requests = [request for incident in some for request in plan(incident, topology, settings)]
        stands = _carry_out(requests, work)
        taken = _in_order(requests, stands)
        further = _escalations(taken, stands, work)
        records.extend(taken)
        records.extend(_in_order(further, _carry_out(further, work)))
    work.lost = {}
    due = _returns(work)
    stands = _carry_out(due, work)
    back = _in_order(due, stands)
    further = _escalations(back, stands, work)
    return (*records, *back, *_in_order(further, _carry_out(further, work)))


def _in_order(requests: Sequence[ActionRequest], stands: Standing) -> list[ActionRecord]:
    return [stands.records[request.id] for request in requests]


@dataclass(kw_only=True)
class _Work:
    """lost: nodes in each incident's failed domains. blind: telemetry incidents that the caller gave, by id.

    effect_seconds: how long effects have taken since begun_at. pool_filled: the topology's spares are in the pool.
    """

    ledger: Ledger
    topology: Topology
    settings: RecoverySettings
    executors: Mapping[str, Executor]
    begun_at: datetime
    clock: Callable[[], float]
    blind: Mapping[str, Incident]
    lost: Mapping[str, frozenset[str]] = field(default_factory=dict)
    effect_seconds: float = 0.0
    pool_filled: bool = False

    @property
    def now(self) -> datetime:
        """In whole seconds, so that a replay, whose effects take none, is the same every time."""
        return self.begun_at + timedelta(seconds=int(self.effect_seconds))

    def history(self, places: Iterable[str]) -> History:
        """What bears on actions on these places."""
        around = {place for target in places for place in (target, node_of(target))}
        known = self.ledger.history(self.settings, self.now, around) if around else ()
        return history_from(known, self.topology, self.settings, self.now)

    def standing(self, requests: Iterable[ActionRequest]) -> Standing:
        return self.ledger.standing([request.id for request in requests], self.settings.attempts_maximum)

    def write(self, ended: Iterable[tuple[ActionRecord, ActionOutcome]]) -> None:
        for begun, outcome in ended:
            if outcome.under_way:
                self.ledger.begun(begun, outcome.detail, self.now)
                continue
            record = self.ledger.finish(begun.request.id, outcome, self.now, begun=begun)
            if record is not None:
                settle_pool(self.ledger.store, self.topology, record, self.now)

    def effect(self, request: ActionRequest) -> ActionOutcome:
        before = self.clock()
        outcome = self.executors[request.kind].apply(request)
        self.effect_seconds += self.clock() - before
        return outcome


def _carry_out(requests: Sequence[ActionRequest], work: _Work) -> Standing:
    """Where the requests stand after as many rounds as their steps need. The outcome of an effect is written together
    with the decisions that wait for it, and before the next effect begins; intents whose turn has not come are made
    young again there, so that no other worker takes them for what a crash left.
    """
    store = work.ledger.store
    stands = work.standing(requests) if requests else Standing({}, frozenset())
    undecided = _undecided(requests, stands, work)
    if not undecided:
        return stands
    ended: list[tuple[ActionRecord, ActionOutcome]] = []
    while True:
        with store.writing():
            work.write(ended)
            claimed, undecided = _decide_round(undecided, work) if undecided else ([], [])
            if not claimed:  # so nothing waits for a step before it either
                return work.standing(requests)
            claimed_at, ours = work.now, frozenset(record.request.id for record in claimed)
        ended = []
        for number, record in enumerate(claimed):
            if ended:
                with store.writing():
                    work.write(ended)
                    if work.now > claimed_at:
                        left = [one.request.id for one in claimed[number:]]
                        ours = work.ledger.renew(left, claimed_at, work.now)
                        claimed_at = work.now
            ended = [(record, work.effect(record.request))] if record.request.id in ours else []


def _undecided(requests: Sequence[ActionRequest], stands: Standing, work: _Work) -> list[ActionRequest]:
    """New ones, and those without effect so far whose case may have changed."""

    def is_open(request: ActionRequest) -> bool:
        record = stands.records.get(request.id)
        if record is None or request.id in stands.retryable or record.outcome in OPEN:
            return True
        if record.outcome == "cancelled":
            return record.why == OVER
        return record.outcome in ("observed", "dry-run") and record.mode != mode_for(request, work.settings)

    return [request for request in requests if is_open(request)]


def _decide_round(requests: Sequence[ActionRequest], work: _Work) -> tuple[list[ActionRecord], list[ActionRequest]]:
    """(intents whose effect is now ours to bring about, requests that wait for those), inside one transaction."""
    claimed: list[ActionRecord] = []
    waiting: list[ActionRequest] = []
    fresh: list[ActionRecord] = []
    facts, stands = _facts(requests, work)
    known = stands.records
    for request in _undecided(requests, stands, work):  # again: another worker may have been first
        behind = request.incident in {other.incident for other in waiting}  # steps keep their order
        if behind or _steps_before(request) & {other.request.id for other in claimed}:
            waiting.append(request)
            continue
        new = request.id not in known
        record = _settle(request, facts, known, work)
        fresh += [record] if new else []
        if record.why.startswith(Refusal.BREAKER_TRIPS):
            facts = replace(facts, breaker=work.ledger.store.breaker())
        if record.outcome == "pending":
            claimed.append(record)
            if request.kind == "allocate_spare":
                facts = replace(facts, spares_available=available(work.ledger.store))
    work.ledger.enter_new(fresh)
    return claimed, waiting


def _steps_before(request: ActionRequest) -> set[str]:
    return {str(request.parameters[name]) for name in ("after", "or_after") if name in request.parameters}


def _settle(request: ActionRequest, facts: Facts, known: dict[str, ActionRecord], work: _Work) -> ActionRecord:
    """Decide one open request and write it down, unless it stands so already or is new: the round writes those."""
    before = known.get(request.id)
    if request.kind == "drain_node" and request.target in free(work.ledger.store):
        request = replace(request, parameters={**request.parameters, "stood_ready": True})
    if request.kind == "reclaim_gpus":
        request = still_short(request, work.lost.get(request.incident, frozenset()), known, work.ledger, work.topology)
    decision = decide(request, facts, work.settings)
    if decision.approval:
        request = replace(request, parameters={**request.parameters, **decision.approval})
    if decision.outcome in ("pending", "dry-run") and request.kind == "allocate_spare":
        request, decision = _with_spares(request, decision, facts, work)
    if decision.trips_breaker:
        work.ledger.store.trip_breaker(decision.why, work.now)
    record = ActionRecord(request=request, mode=decision.mode, outcome=decision.outcome, why=decision.why, at=work.now)
    if before is not None and before.outcome == "refused" and decision.refusal is Refusal.EXPIRED:
        return before  # the first reason says more
    if before is not None and replace(before, request=request, at=work.now) == record and _as_urgent(before, record):
        return before
    entered = before is None or work.ledger.enter(record, before)
    assert entered, "the ledger changed inside our own transaction"
    known[request.id] = record
    if facts.history is not None:
        facts.history.add(record)
    return record


def _as_urgent(before: ActionRecord, record: ActionRecord) -> bool:
    return before.request.parameters.get("deadline_at") == record.request.parameters.get("deadline_at")


def _facts(requests: Sequence[ActionRequest], work: _Work) -> tuple[Facts, Standing]:
    """What the guard asks about requests of these kinds; nothing else is looked up, for this is done in every round."""
    store, kinds = work.ledger.store, {request.kind for request in requests}
    earlier = {name for request in requests for name in _steps_before(request)}
    ids = {request.id for request in requests}
    if kinds & {"allocate_spare", "drain_node"} and not work.pool_filled:
        fill_pool(store, work.topology, work.now)
        work.pool_filled = True
    stands = work.ledger.standing(ids | earlier, work.settings.attempts_maximum)
    asked = [name for name in ids if name in stands.records]  # nobody can have answered what was never asked
    acted_on = [request.target for request in requests if request.kind not in PAPER]
    facts = Facts(
        now=work.now, topology=work.topology, history=work.history(acted_on),
        breaker=store.breaker(), degraded=degraded(store, work.blind) if kinds & TRUST_TELEMETRY else frozenset(),
        known=stands.records, approvals=work.ledger.approvals(asked) if asked else {},
        spares_available=available(store) if "allocate_spare" in kinds else 0,
        held=frozenset(hold.target for hold in Holds(store).in_force(work.now)) if acted_on else frozenset(),
        jobs=Jobs(store).running() if "drain_node" in kinds else {},  # nothing else takes a node from a job
        executors=frozenset(work.executors),
    )  # fmt: skip
    return facts, stands


def _escalations(records: Sequence[ActionRecord], stands: Standing, work: _Work) -> tuple[ActionRequest, ...]:
    if all(record.outcome in ("done", "dry-run", "observed") for record in records):
        return ()
    history = work.history(one.request.target for one in records if refusal_of(one) == Refusal.RESETS_USED_UP)
    return escalations(records, history, work.settings, stands.retryable)


def _returns(work: _Work) -> tuple[ActionRequest, ...]:
    """What was taken out and may come back by itself."""
    store = work.ledger.store
    with store.reading():
        taken, given = outstanding(work.ledger.taken_out(), work.settings), lent(work.ledger)
        ours = {record.request.incident for record in (*taken, *given)}
        known = store.incidents(ids=ours, limit=None) if ours else ()
        over = {one.id: one for one in known if one.state == "resolved"}  # what nobody stored is not known to be over
        if not over:
            return ()
        window = timedelta(seconds=max(work.settings.link_clean_seconds, work.settings.node_clean_seconds))
        said = complaints(store, work.now - window)
        back = returns(taken, over, said, work.ledger.taken_for(over), work.settings, work.now)
        return (*back, *releases(given, over, said, work.settings, work.now))


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
    drained = facts.history.drained_nodes(decision.mode)
    fit = free(work.ledger.store) - work.lost.get(request.incident, frozenset()) - drained - facts.held
    fit -= failing(work.ledger.store, work.topology)
    fit -= work.ledger.lemons(fit, work.settings, work.now)
    if decision.mode == "dry-run":
        return promised(request, decision, len(fit) - facts.history.spares_promised)
    spares = allocated(work.ledger.store, request, nearest(request, fit, work.topology), work.now)
    if not spares:
        why = f"{Refusal.NO_SPARE}: too few that are fit and outside the failed domain"
        return request, Decision(decision.mode, "refused", why, Refusal.NO_SPARE)
    return replace(request, parameters={**request.parameters, "spares": list(spares)}), decision
