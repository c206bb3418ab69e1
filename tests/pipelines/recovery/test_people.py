"""What only people may do: no order of events resets the breaker, or does for one person what needs two."""

from datetime import datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.guard import decide
from pipelines.recovery.kinds import DISRUPTIVE
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRecord, ActionRequest, Outcome
from schemas.topology import Topology
from tests.pipelines.recovery.guard_requests import T0, ask, facts, later

# Every drain is let through by all but the breaker: 4 of 32 nodes within a minute.
EASY = RecoverySettings(
    mode="enforce", approvals={}, cooldown_seconds=0, breaker_share=0.125, breaker_window_seconds=60,
    drained_nodes_minimum=99, drained_nodes_per_superblock=99, expires_seconds=10**7,
)  # fmt: skip


class Counting:
    def __init__(self) -> None:
        self.done: list[tuple[datetime, ActionRequest]] = []
        self.now = T0

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.done.append((self.now, request))
        return ActionOutcome(done=True)

    def outcome_of(self, request_id: str) -> None:
        return None


EVENTS = st.one_of(
    st.integers(0, 31).map(lambda node: ("lost", f"n{node:05}")),
    st.sampled_from([("wait", 5.0), ("wait", 120.0), ("wait", -300.0), ("wait", 90000.0)]),
    st.sampled_from([("trip", "storm"), ("reset", ""), ("reset", "  "), ("reset", "ann"), ("again", "")]),
)


@given(events=st.lists(EVENTS, min_size=10, max_size=20))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_nothing_but_a_person_with_a_name_resets_the_breaker(
    topology: Topology, incident: Any, events: list[tuple[str, Any]]
) -> None:
    store, plant = OperationsStore.open(":memory:"), Counting()
    now, tripped, lost = T0, False, {}
    for number, (what, value) in enumerate(events):
        match what:
            case "wait":
                now += timedelta(seconds=value)
            case "trip":
                store.trip_breaker(value, now)
                tripped = True
            case "reset" if value.strip():
                store.reset_breaker(value, "it was a detector", now)
                tripped = False
            case "reset" if tripped:
                with pytest.raises(ValueError, match="say who"):
                    store.reset_breaker(value, "because", now)
            case "reset":
                untouched = store.breaker()
                store.reset_breaker(value, "because", now)  # nothing to reset, so that nobody is asked for
                assert store.breaker() == untouched
            case "lost":
                lost[value] = incident("node_lost", "node", value, id=f"inc-{number}", detected_at=now)
        plant.now, before = now, len(plant.done)
        recover([*lost.values()], topology, store, EASY, dict.fromkeys(get_args(ActionKind), plant), now)
        fresh = [request for _, request in plant.done[before:] if request.kind in DISRUPTIVE]
        assert not (tripped and fresh), "acted behind a tripped breaker"
        assert not tripped or store.breaker().tripped, "reset without a person"
        tripped = store.breaker().tripped  # recovery may trip it itself
    store.close()


@pytest.mark.parametrize("reason", ["", " "])
def test_a_reset_needs_a_reason(store: OperationsStore, reason: str) -> None:
    store.trip_breaker("storm", T0)
    with pytest.raises(ValueError, match="reason"):
        store.reset_breaker("ann", reason, T0)
    assert store.breaker().tripped


# Two people. The same name in other letters, or with blanks, is the same person.

NAMES = {"ann": "ann", "Ann": "ann", " ANN ": "ann", "bob": "bob", "bob ": "bob", "eve": "eve"}
ANSWERS = st.lists(st.tuples(st.sampled_from([*NAMES]), st.booleans()), max_size=6)


@given(
    answers=ANSWERS, needed=st.integers(1, 3), urgent=st.booleans(), seconds=st.sampled_from([0, 29, 30, 31, 900]),
    early=st.booleans(),
)  # fmt: skip
@example(answers=[("ann", True), ("Ann", True), (" ANN ", True)], needed=2, urgent=False, seconds=900, early=True)
@example(answers=[("ann", True), ("bob", True)], needed=2, urgent=False, seconds=0, early=False)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_nothing_is_done_for_fewer_people_than_it_needs(
    topology: Topology, answers: list[tuple[str, bool]], needed: int, seconds: int, *, urgent: bool, early: bool
) -> None:
    """Through the ledger, as people answer, early: before it is due; the last word of each counts, and one objection
    is the end.
    """
    store = OperationsStore.open(":memory:")
    ledger = Ledger(store)
    chosen = RecoverySettings(mode="enforce", approvals={"staged_shutdown": needed}, breaker_share=1.0)
    cause = "coolant_pump_failure" if urgent else "coolant_flow_restricted"
    request = ask("staged_shutdown", "cdu-0", "cdu", cause=cause, deadline_at=later(30).isoformat())
    asked = decide(request, facts(topology, now=T0), chosen)
    assert asked.outcome == "waiting_approval"
    _enter(ledger, request, "scheduled" if early else "waiting_approval")
    said, objected = set[str](), False
    for number, (name, approves) in enumerate(answers):
        verdict: Any = "approved" if approves else "rejected"
        if objected:
            with pytest.raises(ValueError, match="does not wait"):
                ledger.answer(request.id, name, "", later(number), verdict=verdict)
            continue
        ledger.answer(request.id, name, "", later(number), verdict=verdict)
        objected = not approves
        said.add(NAMES[name])
    approvals = ledger.approvals([request.id])
    decided = decide(request, facts(topology, now=later(seconds), approvals=approvals), chosen).outcome
    if objected:
        assert decided == "rejected"
    elif len(said) >= needed:
        assert decided == "pending"
    else:
        assert decided == ("pending" if urgent and seconds >= 30 else "waiting_approval")
    store.close()


def _enter(ledger: Ledger, request: ActionRequest, outcome: Outcome) -> None:
    record = ActionRecord(request=request, mode="enforce", outcome=outcome, why="", at=T0)
    assert ledger.enter(record, None)
