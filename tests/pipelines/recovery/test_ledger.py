from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipelines.operations_records import NotFound
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRecord, ActionRequest

T0 = datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC)
HOSTILE = "n1'; drop table actions; --\n$(reboot) `id` \u202e"


def later(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def request(target: str = "n00001", kind: Any = "drain_node") -> ActionRequest:
    return ActionRequest(
        id=f"act-{kind}", incident="inc-1", kind=kind, target=target, parameters={"why": target},
        requested_at=T0, reason=target,
    )  # fmt: skip


def entry(outcome: Any, at: datetime = T0, **changes: Any) -> ActionRecord:
    return ActionRecord(request=request(**changes), mode="enforce", outcome=outcome, why="", at=at)


def test_a_hostile_name_is_plain_data(store: OperationsStore) -> None:
    ledger = Ledger(store)
    assert ledger.enter(entry("refused", target=HOSTILE), None)
    assert ledger.actions() == (entry("refused", target=HOSTILE),)


def test_entering_an_action_twice_is_entering_it_once(store: OperationsStore) -> None:
    ledger = Ledger(store)
    assert ledger.enter(entry("pending"), None)
    assert not ledger.enter(entry("pending", later(1)), None)
    assert ledger.actions() == (entry("pending"),)
    assert len(ledger.events("act-drain_node")) == 1


def test_of_two_workers_that_saw_the_same_row_one_wins(store: OperationsStore) -> None:
    ledger, seen = Ledger(store), entry("refused")
    ledger.enter(seen, None)
    assert ledger.enter(entry("pending", later(1)), seen)
    assert not ledger.enter(entry("pending", later(1)), seen)


def test_every_change_is_kept(store: OperationsStore) -> None:
    ledger = Ledger(store)
    ledger.enter(entry("refused"), None)
    ledger.enter(entry("pending", later(1)), entry("refused"))
    ledger.finish("act-drain_node", ActionOutcome(done=True, detail="drained"), later(2))
    assert [(outcome, why) for _, _, outcome, why in ledger.events("act-drain_node")] == [
        ("refused", ""), ("pending", ""), ("done", "drained"),
    ]  # fmt: skip


def test_nobody_approves_what_does_not_wait(store: OperationsStore) -> None:
    ledger = Ledger(store)
    ledger.enter(entry("done"), None)
    with pytest.raises(ValueError, match="does not wait for approval: it is done"):
        ledger.answer("act-drain_node", "ann", "", T0, verdict="approved")
    with pytest.raises(NotFound):
        ledger.answer("act-nothing", "ann", "", T0, verdict="approved")


def test_a_rejection_is_final(store: OperationsStore) -> None:
    ledger = Ledger(store)
    ledger.enter(entry("waiting_approval"), None)
    ledger.answer("act-drain_node", "ann", "", later(1), verdict="approved")
    rejected = ledger.answer("act-drain_node", "ann", "thought again", later(2), verdict="rejected")
    assert (rejected.outcome, rejected.why) == ("rejected", "rejected by ann: thought again")
    with pytest.raises(ValueError, match="rejected"):
        ledger.answer("act-drain_node", "bob", "", later(3), verdict="approved")


def test_the_answer_of_a_slow_worker_outweighs_the_guess_that_it_died(store: OperationsStore) -> None:
    ledger = Ledger(store)
    ledger.enter(entry("pending"), None)
    guess = ledger.resolve({}, RecoverySettings(), later(60))
    assert guess[0].outcome == "failed"
    assert ledger.finish("act-drain_node", ActionOutcome(done=True, detail="late"), later(61)).outcome == "done"
