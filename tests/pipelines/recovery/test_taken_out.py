"""What is out of service: kept in a column as the ledger is written, and the same as reading all of it again."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.operations_store import OperationsStore
from pipelines.operations_tables import ACTIONS
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from schemas.action import ActionRecord, ActionRequest

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
HAPPENED = ("done", "pending", "failed", "dry-run")


class Said(NamedTuple):
    """One change of an action, in the order of writing."""

    action: str
    kind: str
    target: str
    outcome: str
    without_effect: bool = False


def folded(log: Iterable[Said]) -> dict[str, str]:
    """Action -> outcome, of what is out."""
    out: dict[str, Said] = {}
    for said in log:
        if said.kind == "return_to_service":
            if said.outcome in ("done", "dry-run"):
                back = [
                    name for name, one in out.items()
                    if one.target == said.target and (said.outcome == "done" or one.outcome == "dry-run")
                ]  # fmt: skip
                out = {name: one for name, one in out.items() if name not in back}
        elif said.outcome in HAPPENED and not said.without_effect:
            out[said.action] = said
        else:
            out.pop(said.action, None)
    return {name: one.outcome for name, one in out.items()}


def entered(ledger: Ledger, said: Said, at: datetime) -> Said:
    """A decision, or another one on the same action."""
    kind: Any = said.kind
    outcome: Any = said.outcome
    request = ActionRequest(
        id=said.action,
        incident="inc-1",
        kind=kind,
        target=said.target,
        parameters={},
        requested_at=T0,
        reason="because",
    )
    record = ActionRecord(
        request=request, mode="dry-run" if outcome == "dry-run" else "enforce", outcome=outcome, why="", at=at
    )
    assert ledger.enter(record, ledger.known([said.action]).get(said.action))
    return said


def finished(ledger: Ledger, said: Said, how: str, at: datetime) -> Said:
    """how: done | failed | not reached."""
    recoverable = how == "not reached"
    record = ledger.finish(said.action, ActionOutcome(done=how == "done", recoverable=recoverable), at)
    return said._replace(outcome=record.outcome, without_effect=recoverable)


def kept(store: OperationsStore) -> list[tuple[str, bool]]:
    with store.reading() as connection:
        rows = connection.execute(sa.select(ACTIONS.c.id, ACTIONS.c.is_out).order_by(ACTIONS.c.id)).all()
    return [(row.id, row.is_out) for row in rows]


KINDS = st.sampled_from(["drain_node", "isolate_port", "return_to_service"])
OUTCOMES = st.sampled_from([*HAPPENED, "refused", "waiting_approval"])
NUMBERS = st.integers(0, 3)
MOVES = st.one_of(
    st.tuples(KINDS, st.sampled_from(["n1", "n2"]), OUTCOMES),
    st.tuples(st.just("finish"), NUMBERS, st.sampled_from(["done", "failed", "not reached"])),
    st.tuples(st.just("again"), NUMBERS, OUTCOMES),
    st.tuples(st.just("cancel"), NUMBERS, st.just("")),
    st.tuples(st.just("wait"), st.sampled_from([-3600, -1, 60]), st.just("")),
)


@given(moves=st.lists(MOVES, max_size=15))
@example(moves=[("drain_node", "n1", "done"), ("wait", -60, ""), ("return_to_service", "n1", "done")])
@example(moves=[("drain_node", "n1", "dry-run"), ("cancel", 0, "")])
@example(moves=[("drain_node", "n1", "pending"), ("finish", 0, "not reached")])
@settings(max_examples=100, deadline=None, derandomize=True)
def test_what_is_out_is_what_the_ledger_says_from_its_beginning(moves: list[tuple[str, Any, Any]]) -> None:
    store = OperationsStore.open(":memory:")
    ledger, now, log = Ledger(store), T0, list[Said]()
    latest: dict[int, Said] = {}
    for what, which, how in moves:
        now += timedelta(seconds=which if what == "wait" else 1)
        number = which if isinstance(which, int) else len(latest)
        said = latest.get(number)
        match what:
            case "drain_node" | "isolate_port" | "return_to_service":
                latest[number] = entered(ledger, Said(f"act-{number}", what, which, how), now)
            case "finish" if said is not None and said.outcome in ("pending", "failed"):
                latest[number] = finished(ledger, said, how, now)
            case "again" if said is not None and (said.without_effect or said.outcome not in HAPPENED[:3]):
                latest[number] = entered(ledger, said._replace(outcome=how, without_effect=False), now)
            case "cancel" if said is not None and said.outcome not in (*HAPPENED[:3], "cancelled"):
                ledger.cancel(said.action, "ann", "", now)
                latest[number] = said._replace(outcome="cancelled")
            case _:
                continue
        log.append(latest[number])
        out = folded(log)
        assert {name for name, is_out in kept(store) if is_out} == {*out}  # which the guard's budgets count
        to_return = {name for name, outcome in out.items() if outcome != "failed"}  # that is for a person
        assert {record.request.id for record in ledger.taken_out()} == to_return
    store.close()


def test_a_file_of_version_2_learns_what_is_out(tmp_path: Path) -> None:
    """(seconds, kind, target, outcome) in the order of writing, and whether it is out."""
    rows: tuple[tuple[int, str, str, str, bool], ...] = (
        (0, "drain_node", "n1", "done", True),
        (0, "drain_node", "n2", "done", False), (9, "return_to_service", "n2", "done", False),
        (0, "drain_node", "n3", "done", False), (9, "return_to_service", "n3", "done", False),
        (20, "drain_node", "n3", "done", True),
        (0, "drain_node", "n4", "done", True), (9, "return_to_service", "n4", "failed", False),
        (0, "drain_node", "n5", "done", True), (9, "return_to_service", "n5", "dry-run", False),
        (0, "drain_node", "n6", "dry-run", False), (9, "return_to_service", "n6", "dry-run", False),
        (0, "isolate_port", "leaf-0:1", "dry-run", True),
        (0, "isolate_port", "leaf-0:2", "failed", True),  # nobody knows
        (0, "isolate_port", "leaf-0:3", "not reached", False),
        (0, "drain_node", "n7", "refused", False), (0, "reset_gpu", "n7", "done", False),
        (0, "drain_node", "n8", "done", False), (-60, "return_to_service", "n8", "done", False),  # a clock's step
        (-60, "drain_node", "n8", "done", True),
    )  # fmt: skip
    path = tmp_path / "o.sqlite"
    store = OperationsStore.open(path)
    for number, (seconds, kind, target, outcome, _) in enumerate(rows):
        at = T0 + timedelta(seconds=seconds)
        begun = "pending" if outcome == "not reached" else outcome
        said = entered(Ledger(store), Said(f"act-{number:02}", kind, target, begun), at)
        if outcome == "not reached":
            finished(Ledger(store), said, outcome, at)
    with store.writing() as connection:
        for statement in (
            "DROP INDEX incidents_ended", "DROP INDEX actions_out", "DROP INDEX actions_kind",
            "DROP INDEX actions_target",
            "ALTER TABLE actions DROP COLUMN is_out", "DROP TABLE verdicts",
            "ALTER TABLE holds DROP COLUMN announced_at", 'ALTER TABLE holds DROP COLUMN "window"',
            "UPDATE schema_version SET version = 2",
        ):  # fmt: skip
            connection.exec_driver_sql(statement)
    store.close()
    store = OperationsStore.open(path)
    assert [(row, is_out) for row, (_, is_out) in zip(rows, kept(store), strict=True) if row[-1] != is_out] == []
    store.close()
