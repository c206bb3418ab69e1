"""Recovery while the ground moves: nothing is done twice, nothing is lost, nothing is done that is not written down."""

import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.operations_database import StoreUnavailable
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.contract import ActionOutcome
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.recover import recover
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRequest
from schemas.incident import Incident
from schemas.topology import Topology

T0 = datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC)
ENFORCE = RecoverySettings(mode="enforce", approvals={})
Make = Callable[..., Incident]


class Effects:
    """Counts effects; during(request) is called between an effect and its answer."""

    def __init__(self, during: Callable[[ActionRequest], None] = lambda _: None) -> None:
        self.during, self.done = during, list[str]()

    def apply(self, request: ActionRequest) -> ActionOutcome:
        self.done.append(request.id)
        self.during(request)
        return ActionOutcome(done=True)

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        return ActionOutcome(done=True, detail="it was done") if request_id in self.done else None


def run(one: Incident, topology: Topology, store: OperationsStore, plant: Effects, seconds: float) -> list[str]:
    executors = dict.fromkeys(get_args(ActionKind), plant)
    records = recover([one], topology, store, ENFORCE, executors, T0 + timedelta(seconds=seconds))
    return [record.outcome for record in records]


@pytest.fixture
def hang(incident: Make) -> Incident:
    return incident("gpu_hang", "gpu", "n00001/3")


def test_an_intent_is_on_the_disk_before_its_effect_begins(tmp_path: Path, topology: Topology, hang: Incident) -> None:
    store = OperationsStore.open(tmp_path / "o.sqlite")
    with store.reading() as connection:
        assert connection.exec_driver_sql("pragma synchronous").scalar() == 2  # FULL: a commit is not only in memory
    seen: list[tuple[str, str]] = []

    def look(request: ActionRequest) -> None:
        """As another process sees it, which only sees what was committed."""
        other = sqlite3.connect(tmp_path / "o.sqlite")
        seen.extend(other.execute("select kind, outcome from actions where id = ?", [request.id]))
        other.close()

    run(hang, topology, store, Effects(look), 0)
    assert seen == [("restart_app", "pending"), ("open_ticket", "pending")]
    store.close()


def test_nothing_is_done_while_the_store_is_locked(tmp_path: Path, topology: Topology, hang: Incident) -> None:
    store, plant = OperationsStore.open(tmp_path / "o.sqlite", busy_seconds=0.05), Effects()
    other = sqlite3.connect(tmp_path / "o.sqlite", isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(StoreUnavailable, match="locked"):
        run(hang, topology, store, plant, 0)
    assert plant.done == []
    other.execute("rollback")
    other.close()
    assert set(run(hang, topology, store, plant, 1)) == {"done"}
    store.close()


def test_a_store_that_goes_between_effect_and_outcome_leads_to_no_second_effect(
    tmp_path: Path, topology: Topology, hang: Incident
) -> None:
    store = OperationsStore.open(tmp_path / "o.sqlite", busy_seconds=0.05)
    locks: list[sqlite3.Connection] = []

    def lock(_: ActionRequest) -> None:
        locks.append(sqlite3.connect(tmp_path / "o.sqlite", isolation_level=None))
        locks[-1].execute("begin immediate")

    plant = Effects(lock)
    with pytest.raises(StoreUnavailable):
        run(hang, topology, store, plant, 0)
    assert len(plant.done) == 1
    for held in locks:
        held.execute("rollback")
        held.close()
    plant.during = lambda _: None
    run(hang, topology, store, plant, 5)  # the intent is not old enough to be asked about
    # Whoever did it is asked; the ticket that was planned with it was never begun, which only a person can know.
    assert run(hang, topology, store, plant, 61) == ["done", "failed"]
    assert len(plant.done) == 1
    store.close()


def test_a_store_that_is_gone_stops_recovery_aloud(tmp_path: Path, topology: Topology, hang: Incident) -> None:
    store, plant = OperationsStore.open(tmp_path / "o.sqlite"), Effects()
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(StoreUnavailable):
        run(hang, topology, store, plant, 0)
    assert plant.done == []
    store.close()


def test_a_clock_that_steps_back_neither_repeats_nor_shortens_a_cooldown(
    store: OperationsStore, topology: Topology, incident: Make, hang: Incident
) -> None:
    plant = Effects()
    for seconds in (0, -3600, -1, 0, 5):
        run(hang, topology, store, plant, seconds)
    assert len(plant.done) == len(set(plant.done)) == 2
    again = incident("gpu_hang", "gpu", "n00001/3", id="inc-later")
    assert "refused" in run(again, topology, store, plant, -600)
    assert {record.why.partition(":")[0] for record in Ledger(store).actions(outcomes=["refused"])} == {"cooldown"}


def test_a_hostile_name_is_refused_and_is_kept_as_it_was(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    name, plant = "n1'; drop table actions; --\n$(reboot)`id`", Effects()
    run(incident("node_lost", "node", name), topology, store, plant, 0)
    kept = Ledger(store).actions(limit=None)
    assert {record.request.target for record in kept} == {name}
    done = [record.request.kind for record in kept if record.outcome == "done"]
    assert set(done) <= {"open_ticket"}  # a person may be told of it: as data
    assert {record.why.partition(":")[0] for record in kept if record.outcome == "refused"} == {"unknown_target"}


def test_a_letter_that_a_store_cannot_hold_stops_nothing(
    store: OperationsStore, topology: Topology, incident: Make
) -> None:
    # PostgreSQL has no U+0000 in its text, SQLite has.
    name, plant = "n1\x00", Effects()
    hostile = incident("node_lost", "node", name, id="inc-1", members=(f"{name}/0",))
    store.upsert_incidents([hostile], T0)
    run(hostile, topology, store, plant, 0)
    assert {record.request.target.rstrip("\x00\ufffd") for record in Ledger(store).actions(limit=None)} == {"n1"}


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Failing:
    """An executor that does what the script says, and then all that is asked. done, lost, killed after: an effect."""

    script: list[str]
    forgetful: bool
    store: OperationsStore
    effects: list[str] = field(default_factory=list)

    def apply(self, request: ActionRequest) -> ActionOutcome:
        assert Ledger(self.store).known([request.id])[request.id].outcome == "pending", "no intent in the ledger"
        what = self.script.pop(0) if self.script else "done"
        if what in ("done", "lost", "killed after"):
            self.effects.append(request.id)
        if what.startswith("killed"):
            raise Killed
        recoverable = what == "not reached"
        return ActionOutcome(done=what == "done", recoverable=recoverable, detail=what)

    def outcome_of(self, request_id: str) -> ActionOutcome | None:
        known = ActionOutcome(done=True) if request_id in self.effects else ActionOutcome(done=False)
        return None if self.forgetful else known


FAULTS = st.sampled_from(["done", "done", "lost", "failed", "not reached", "killed before", "killed after"])
STEPS = st.lists(st.sampled_from([-3600.0, -1.0, 0.0, 1.0, 59.0, 61.0, 1000.0]), min_size=4, max_size=8)


@given(script=st.lists(FAULTS, max_size=12), steps=STEPS, forgetful=st.booleans())
@settings(max_examples=20, deadline=None, derandomize=True)
def test_no_sequence_of_faults_and_clocks_acts_twice_or_loses_a_record(
    topology: Topology, incident: Make, script: list[str], steps: list[float], *, forgetful: bool
) -> None:
    """A worker that is killed leaves everything as it was at that moment, and the next one goes on from there."""
    store = OperationsStore.open(":memory:")
    plant = Failing(list(script), forgetful, store)
    lost = incident("gpu_fallen_off_bus", "gpu", "n00001/3")
    at, told = 0.0, dict[str, tuple[Any, ...]]()
    for step in steps:
        at += step
        with contextlib.suppress(Killed):
            recover(
                [lost], topology, store, ENFORCE, dict.fromkeys(get_args(ActionKind), plant), T0 + timedelta(seconds=at)
            )
        ledger = Ledger(store)
        for action in (record.request.id for record in ledger.actions(limit=None)):
            events = ledger.events(action)
            assert events[: len(told.get(action, ()))] == told.get(action, ())  # what was written stays
            told[action] = events
    assert len(set(plant.effects)) == len(plant.effects), "something was done twice"
    for action in plant.effects:
        assert [outcome for _, _, outcome, _ in told[action]][-2:-1] == ["pending"] or told[action][-1][2] == "pending"
    done = {action for action, events in told.items() if events[-1][2] == "done"}
    assert done <= set(plant.effects)  # nothing is said to be done that was not
    store.close()
