from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import sqlalchemy as sa

from pipelines.operations_records import NotFound
from pipelines.operations_store import OperationsStore
from pipelines.operations_tables import ACTIONS
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRecord, ActionRequest, Outcome

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


def test_what_is_due_later_is_approved_early_and_what_is_rehearsed_is_not(store: OperationsStore) -> None:
    ledger, due = Ledger(store), entry("scheduled")
    ledger.enter(due, None)
    assert ledger.answer("act-drain_node", "ann", "", later(1), verdict="approved").outcome == "scheduled"
    assert [one.by for one in ledger.approvals(["act-drain_node"])["act-drain_node"]] == ["ann"]
    ledger.enter(replace(entry("scheduled", kind="rma"), mode="dry-run"), None)
    with pytest.raises(ValueError, match="it is scheduled in a dry run"):
        ledger.answer("act-rma", "ann", "", later(1), verdict="approved")


def test_an_early_objection_is_final(store: OperationsStore) -> None:
    ledger = Ledger(store)
    ledger.enter(entry("scheduled"), None)
    assert ledger.answer("act-drain_node", "ann", "not now", later(1), verdict="rejected").outcome == "rejected"


def test_what_is_refused_names_the_command_that_keeps_it_undone(store: OperationsStore) -> None:
    ledger = Ledger(store)
    ledger.enter(entry("refused"), None)
    with pytest.raises(ValueError, match="it is refused; `hotspare actions cancel act-drain_node`"):
        ledger.answer("act-drain_node", "ann", "", later(1), verdict="rejected")


@pytest.mark.parametrize("outcome", ["scheduled", "waiting_approval", "refused"])
def test_who_approved_is_asked_anew_if_the_incident_comes_back(store: OperationsStore, outcome: Any) -> None:
    ledger, due = Ledger(store), entry("scheduled")
    ledger.enter(due, None)
    ledger.answer("act-drain_node", "ann", "", later(1), verdict="approved")
    ledger.enter(entry(outcome, later(2)), due)
    ledger.close_open(["inc-1"], later(3))
    assert [one.verdict for one in ledger.approvals(["act-drain_node"])["act-drain_node"]] == ["lapsed"]
    assert ledger.known(["act-drain_node"])["act-drain_node"].outcome == "cancelled"


def test_a_rejection_is_final(store: OperationsStore) -> None:
    ledger = Ledger(store)
    ledger.enter(entry("waiting_approval"), None)
    ledger.answer("act-drain_node", "ann", "", later(1), verdict="approved")
    rejected = ledger.answer("act-drain_node", "ann", "thought again", later(2), verdict="rejected")
    assert (rejected.outcome, rejected.why) == ("rejected", "rejected by ann: thought again")
    with pytest.raises(ValueError, match="rejected"):
        ledger.answer("act-drain_node", "bob", "", later(3), verdict="approved")


def test_of_what_an_executor_answers_no_more_is_kept_than_is_read(store: OperationsStore) -> None:
    ledger = Ledger(store)
    ledger.enter(entry("pending"), None)
    ledger.begun(entry("pending"), "x" * 1_000_000, later(1))
    ledger.finish("act-drain_node", ActionOutcome(done=True, detail="y" * 1_000_000), later(2))
    assert all(len(why) <= 2_100 for _, _, _, why in ledger.events("act-drain_node"))


def test_the_answer_of_a_slow_worker_outweighs_the_guess_that_it_died(store: OperationsStore) -> None:
    ledger = Ledger(store)
    ledger.enter(entry("pending"), None)
    guess = ledger.resolve({}, RecoverySettings(), later(60))
    assert guess[0].outcome == "failed"
    assert ledger.finish("act-drain_node", ActionOutcome(done=True, detail="late"), later(61)).outcome == "done"


# What the guard and the way back are told of the past: no more than matters, however long it is

DAY = 86400


def did(store: OperationsStore, *what: tuple[float, str, str, str]) -> Ledger:
    """(seconds, kind, target, outcome) of actions."""
    ledger = Ledger(store)
    for number, (seconds, kind, target, outcome) in enumerate(what):
        asked = replace(request(target, kind), id=f"act-{number}")
        mode: Any = "dry-run" if outcome == "dry-run" else "enforce"
        at = later(seconds)
        ledger.enter(ActionRecord(request=asked, mode=mode, outcome=cast("Outcome", outcome), why="", at=at), None)
    return ledger


def numbers(records: Iterable[ActionRecord]) -> set[int]:
    return {int(record.request.id.removeprefix("act-")) for record in records}


def test_a_node_drained_again_after_its_return_is_out(store: OperationsStore) -> None:
    ledger = did(
        store, (0, "drain_node", "n1", "done"), (1, "return_to_service", "n1", "done"), (2, "drain_node", "n1", "done"),
        (3, "drain_node", "n2", "done"), (4, "return_to_service", "n2", "failed"), (5, "drain_node", "n3", "refused"),
    )  # fmt: skip
    assert numbers(ledger.taken_out()) == {2, 3}


def test_a_return_whose_clock_went_back_brings_back(store: OperationsStore) -> None:
    ledger = did(store, (0, "drain_node", "n1", "done"), (-3600, "return_to_service", "n1", "done"))
    assert ledger.taken_out() == ()


def test_a_rehearsed_return_brings_back_what_a_rehearsal_took_and_nothing_else(store: OperationsStore) -> None:
    ledger = did(
        store, (0, "drain_node", "n1", "done"), (1, "return_to_service", "n1", "dry-run"),
        (0, "drain_node", "n2", "dry-run"), (1, "return_to_service", "n2", "dry-run"),
    )  # fmt: skip
    assert numbers(ledger.taken_out()) == {0}


def test_the_guard_remembers_what_is_out_for_ever_and_the_rest_for_its_windows(store: OperationsStore) -> None:
    chosen = RecoverySettings(mode="enforce")
    now = later(400 * DAY)
    ledger = did(
        store,
        (0, "drain_node", "n1", "done"),  # out for a year: counts
        (0, "isolate_port", "leaf-0:1", "failed"),  # nobody knows: counts
        (1, "drain_node", "n2", "done"), (2, "return_to_service", "n2", "done"),  # over
        (3, "allocate_spare", "n1", "done"), (3, "allocate_spare", "n2", "done"),  # stands in for n1 still
        (394 * DAY, "reset_gpu", "n3/0", "done"), (392 * DAY, "reset_gpu", "n3/0", "done"),  # 6 and 8 days ago
        (394 * DAY, "reset_gpu", "n4/0", "done"),  # of another place
        (400 * DAY - 10, "reset_gpu", "n5/0", "done"),  # for the breaker
        (400 * DAY - 10, "restart_app", "n5/0", "refused"),
        (399.5 * DAY, "allocate_spare", "pdu-1", "dry-run"), (398.5 * DAY, "allocate_spare", "pdu-2", "dry-run"),
    )  # fmt: skip
    assert numbers(ledger.history(chosen, now, ["n3", "n3/0"])) == {0, 1, 4, 6, 9, 11}


def test_a_spare_of_an_earlier_failure_does_not_stand_in_for_this_one(store: OperationsStore) -> None:
    ledger = did(
        store, (0, "drain_node", "n1", "done"), (1, "allocate_spare", "n1", "done"),
        (2, "return_to_service", "n1", "done"),
    )  # fmt: skip
    again = replace(request("n1"), id="act-3", incident="inc-2")
    ledger.enter(ActionRecord(request=again, mode="enforce", outcome="done", why="", at=later(300 * DAY)), None)
    assert numbers(ledger.history(RecoverySettings(), later(301 * DAY), ["n2"])) == {3}


def test_a_node_drained_twice_in_a_month_is_a_lemon(store: OperationsStore) -> None:
    ledger = did(
        store, (0, "drain_node", "n1", "done"), (20 * DAY, "drain_node", "n1", "failed"),
        (0, "drain_node", "n2", "done"), (20 * DAY, "drain_node", "n2", "dry-run"),
    )  # fmt: skip
    assert ledger.lemons(["n1", "n2"], RecoverySettings(), later(29 * DAY)) == {"n1"}
    assert ledger.lemons(["n1", "n2"], RecoverySettings(), later(31 * DAY)) == frozenset()
    assert ledger.lemons(["n2"], RecoverySettings(), later(29 * DAY)) == frozenset()


@pytest.mark.parametrize("latest", ["actions_kind", "actions_target", "actions_out"])
def test_history_never_looks_at_every_spare_that_was_ever_given(latest: str) -> None:
    """Of two indices that look as good, SQLite takes whichever was made first or last: neither order may matter."""
    opened, plans = OperationsStore.open(":memory:"), list[str]()
    index = next(one for one in ACTIONS.indexes if one.name == latest)
    with opened.writing() as connection:
        index.drop(connection)
        index.create(connection)

    def explain(connection: Any, _: Any, statement: str, parameters: Any, *__: Any) -> None:
        if statement.lstrip().startswith("SELECT actions."):
            cursor = connection.connection.cursor()
            plans.extend(str(row) for row in cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters))

    sa.event.listen(opened.database.engine, "after_cursor_execute", explain)
    Ledger(opened).history(RecoverySettings(), T0, {"n00001"})
    opened.close()
    assert plans
    assert not [row for row in plans if "actions_kind (kind=?)" in row or "SCAN actions" in row]
