"""The ledger: what was asked, what was decided, what became of it. Written before the effect, and once.

An action is one row by its id, and every change of it is one more row of action_events, never changed again. A worker
that moves the row to `pending` owns the effect; of two that try, the database lets one. An intent without an outcome
is what a crash left behind: its executor is asked, and it is never done a second time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from pipelines.operations_people import SAID_MAXIMUM, person, words
from pipelines.operations_records import NotFound
from pipelines.operations_store import OperationsStore, insert_into
from pipelines.operations_tables import ACTION_EVENTS, ACTIONS, APPROVALS
from pipelines.recovery.executors.contract import ActionOutcome, Executor, Lasting
from pipelines.recovery.facts import Approval
from pipelines.recovery.ledger_queries import (
    APPROVALS_OF,
    BEGUN,
    BROUGHT_BACK,
    ENTER,
    EVENT,
    FINISH,
    INTENTS,
    KNOWN,
    LAPSE,
    LEMONS,
    OVER,
    REMEMBERED,
    RENEW,
    TAKEN_OUT,
    UNANSWERED,
    UNDER_WAY,
    WAITING,
)
from pipelines.recovery.ledger_rows import decision_of, new_row, record_of, takes_out
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRecord, ActionRequest, Outcome, action_id


@dataclass(frozen=True)
class Standing:
    """Actions by id, and which of them failed without effect and have tries left."""

    records: dict[str, ActionRecord]
    retryable: frozenset[str]


@dataclass(frozen=True)
class Ledger:
    """All methods raise StoreUnavailable; inside store.writing() several calls are one."""

    store: OperationsStore

    def known(self, ids: Collection[str]) -> dict[str, ActionRecord]:
        return self.standing(ids, 0).records

    def standing(self, ids: Collection[str], attempts_maximum: int) -> Standing:
        with self.store.reading() as connection:
            rows = connection.execute(KNOWN, {"ids": list(ids)}).mappings().all()
        again = (row for row in rows if row["outcome"] == "failed" and row["recoverable"])
        retryable = frozenset(row["id"] for row in again if row["attempts"] < attempts_maximum)
        return Standing({row["id"]: record_of(row) for row in rows}, retryable)

    def actions(
        self, *, incident: str | None = None, outcomes: Collection[Outcome] | None = None, limit: int | None = 100
    ) -> tuple[ActionRecord, ...]:
        """Newest first; what was decided at one time in the order in which it was planned."""
        entered = sa.select(sa.func.min(ACTION_EVENTS.c.sequence)).where(ACTION_EVENTS.c.action == ACTIONS.c.id)
        wanted = sa.select(ACTIONS).order_by(ACTIONS.c.at.desc(), entered.scalar_subquery(), ACTIONS.c.id).limit(limit)
        if incident is not None:
            wanted = wanted.where(ACTIONS.c.incident == incident)
        if outcomes is not None:
            wanted = wanted.where(ACTIONS.c.outcome.in_(list(outcomes)))
        return self._records(wanted)

    def taken_for(self, incidents: Collection[str]) -> dict[str, tuple[ActionRecord, ...]]:
        """Incident -> all its actions, oldest first."""
        wanted = sa.select(ACTIONS).where(ACTIONS.c.incident.in_(list(incidents))).order_by(ACTIONS.c.at, ACTIONS.c.id)
        found: dict[str, tuple[ActionRecord, ...]] = {}
        for record in self._records(wanted) if incidents else ():
            found[record.request.incident] = (*found.get(record.request.incident, ()), record)
        return found

    def events(self, action: str) -> tuple[tuple[datetime, str, str, str], ...]:
        """(at, mode, outcome, why) of everything that happened to an action, oldest first."""
        row = ACTION_EVENTS.c
        wanted = sa.select(row.at, row.mode, row.outcome, row.why).where(row.action == action).order_by(row.sequence)
        with self.store.reading() as connection:
            return tuple((at, mode, outcome, why) for at, mode, outcome, why in connection.execute(wanted))

    def history(self, settings: RecoverySettings, now: datetime, places: Collection[str]) -> tuple[ActionRecord, ...]:
        """What the guard must remember to judge actions on these places, oldest first: all that happened within the
        breaker's window, what is out until it returns, and what was done to the places within the longest window.

        A failure without effect is forgotten, so that trying again is not held up by itself.
        """
        long_ago = max(settings.resets_window_days * 86400, settings.cooldown_seconds, settings.dry_run_counts_seconds)
        since = {
            "lately": settings.breaker_window_seconds, "long_ago": long_ago,
            "promised_since": settings.dry_run_counts_seconds,
        }  # fmt: skip
        times = {name: now - timedelta(seconds=seconds) for name, seconds in since.items()}
        return self._records(REMEMBERED, {**times, "places": list(places)})

    def lemons(self, among: Collection[str], settings: RecoverySettings, now: datetime) -> frozenset[str]:
        """Nodes drained so often of late that they are no spare."""
        since = now - timedelta(days=settings.lemon_window_days)
        values = {"among": list(among), "since": since, "drains": settings.lemon_drains}
        with self.store.reading() as connection:
            return frozenset(connection.scalars(LEMONS, values))

    def taken_out(self) -> tuple[ActionRecord, ...]:
        """Drains and isolations that happened (or were rehearsed) and that nothing has returned since, oldest first."""
        return self._records(TAKEN_OUT)

    def close_open(self, incidents: Collection[str], at: datetime) -> None:
        """What still waited when its incident ended is not done any more: neither at its time nor when approved, and
        if the incident comes back people are asked anew. A return waits for nothing but that end.
        """
        for record in self._records(WAITING, {"incidents": list(incidents)}) if incidents else ():
            if "undoes" not in record.request.parameters:
                with self.store.writing() as connection:
                    self._end(record, "cancelled", OVER, at)
                    connection.execute(LAPSE, {"over": record.request.id})

    def cancel(self, action: str, by: str, comment: str, at: datetime) -> ActionRecord:
        """A person takes an action off the list for good. What has begun or happened is history, not a plan.

        Raises NotFound and ValueError.
        """
        who, said = person(by), words(comment)
        with self.store.writing():
            record = self.known([action]).get(action)
            if record is None:
                raise NotFound(f"{action!r} is not an action in this store; `hotspare actions list` shows them")
            if record.outcome in ("pending", "done", "failed", "rejected", "cancelled"):
                raise ValueError(f"{action} cannot be cancelled: it is {record.outcome}")
            return self._end(record, "cancelled", f"cancelled by {who}: {said}".removesuffix(": "), at)

    def _end(self, record: ActionRecord, outcome: Outcome, why: str, at: datetime) -> ActionRecord:
        final: dict[str, Any] = {"outcome": outcome, "why": why, "at": at}
        unchanged = (ACTIONS.c.id == record.request.id) & (ACTIONS.c.outcome == record.outcome)
        with self.store.writing() as connection:
            if connection.execute(sa.update(ACTIONS).where(unchanged).values(**final, is_out=False)).rowcount == 1:
                self._event(connection, record.request.id, {"mode": record.mode, **final})
            return self.known([record.request.id])[record.request.id]

    def enter(self, record: ActionRecord, before: ActionRecord | None) -> bool:
        """Write a decision. False: another worker was first, and its word stands. `pending` is the intent to act."""
        begun, decided = int(record.outcome == "pending"), decision_of(record)
        with self.store.writing() as connection:
            if before is None:
                insert = insert_into(connection, ACTIONS).on_conflict_do_nothing()
                options = {"preserve_rowcount": True}
                written = connection.execute(insert, new_row(record), execution_options=options)
            else:
                same = (ACTIONS.c.id == record.request.id) & (ACTIONS.c.outcome == before.outcome)
                same &= (ACTIONS.c.at == before.at) & (ACTIONS.c.mode == before.mode)
                change = sa.update(ACTIONS).where(same).values(
                    **decided, parameters=record.request.parameters, attempts=ACTIONS.c.attempts + begun,
                    recoverable=False, is_out=takes_out(record),
                )  # fmt: skip
                written = connection.execute(change)
            if written.rowcount == 1:
                self._event(connection, record.request.id, decided)
                _bring_back(connection, record)
            return written.rowcount == 1

    def enter_new(self, records: Sequence[ActionRecord]) -> None:
        """Decisions about actions of which nothing is written yet, as the caller's transaction has seen."""
        with self.store.writing() as connection:
            if records:
                connection.execute(ENTER, [new_row(record) for record in records])
                connection.execute(EVENT, [{"action": one.request.id, **decision_of(one)} for one in records])
            for record in records:
                _bring_back(connection, record)

    def renew(self, actions: Sequence[str], claimed_at: datetime, at: datetime) -> frozenset[str]:
        """Intents whose turn has not come are made as young as `at`, when the first of them begins: its time is that
        at which its effect begins. Returns those that are the caller's still; the others somebody else has settled.
        """
        with self.store.writing() as connection:
            connection.execute(RENEW, {"ids": list(actions), "claimed_at": claimed_at, "begins_at": at})
            known = self.known(actions)
            ours = frozenset(name for name, one in known.items() if (one.outcome, one.at) == ("pending", at))
            if actions[0] in ours:
                first = known[actions[0]]
                self._event(
                    connection, actions[0], {"mode": first.mode, "outcome": "pending", "why": first.why, "at": at}
                )
            return ours

    def finish(
        self, action: str, outcome: ActionOutcome, at: datetime, *, begun: ActionRecord | None = None
    ) -> ActionRecord | None:
        """Write what the executor answered. It outweighs an earlier guess that the action had failed. begun: the
        intent, where the caller has it at hand. None: another worker has asked meanwhile and written that it is done.
        """
        result: Outcome = "done" if outcome.done else "failed"
        with self.store.writing() as connection:
            decided = begun or self.known([action]).get(action)
            assert decided is not None, f"{action} is finished without having been begun"
            changed: dict[str, Any] = {"outcome": result, "why": outcome.detail[:SAID_MAXIMUM] or decided.why, "at": at}
            ended = replace(decided, **changed)
            effect = {"recoverable": outcome.recoverable, "is_out": takes_out(ended) and not outcome.recoverable}
            if connection.execute(FINISH, {"action": action, **changed, **effect}).rowcount != 1:
                return None
            self._event(connection, action, {"mode": "enforce", **changed})
            _bring_back(connection, ended)
            return ended

    def begun(self, record: ActionRecord, detail: str, at: datetime) -> ActionRecord:
        """Its executor has begun and is not done: the intent stands, and says so."""
        why = f"{UNDER_WAY}: {detail[:SAID_MAXIMUM]}"
        ours = (ACTIONS.c.id == record.request.id) & (ACTIONS.c.outcome == "pending")
        with self.store.writing() as connection:
            if connection.execute(sa.update(ACTIONS).where(ours).values(why=why)).rowcount == 1:
                self._event(connection, record.request.id, {**decision_of(record), "why": why, "at": at})
        return replace(record, why=why)

    def has_intents(self) -> bool:
        """Whether any effect was begun, by whomever, of which no outcome is known yet."""
        with self.store.reading() as connection:
            return bool(connection.scalar(INTENTS))

    def carry_on(self, executors: Mapping[str, Executor], now: datetime) -> tuple[ActionRecord, ...]:
        """What has ended of that which was under way, after one more push by its executor."""
        ended = list[ActionRecord | None]()
        for record in self._records(BEGUN):
            executor = executors.get(record.request.kind)
            if isinstance(executor, Lasting):
                outcome = executor.carry_on(record.request, (now - record.at).total_seconds())
                ended += [] if outcome.under_way else [self.finish(record.request.id, outcome, now)]
        return tuple(one for one in ended if one is not None)

    def resolve(
        self, executors: Mapping[str, Executor], settings: RecoverySettings, now: datetime
    ) -> tuple[ActionRecord, ...]:
        """Settle intents whose worker never came back, by asking who was to carry them out. Nothing is done again."""
        settled = list[ActionRecord | None]()
        for record in self._records(UNANSWERED, {"before": now - timedelta(seconds=settings.unanswered_seconds)}):
            executor = executors.get(record.request.kind)
            answer = None if executor is None else executor.outcome_of(record.request.id)
            if answer is None:
                who = "its executor does not know it" if executor else f"nobody carries out {record.request.kind} now"
                answer = ActionOutcome(done=False, detail=f"interrupted, and {who}; not done again, a person must look")
            settled.append(self.finish(record.request.id, answer, now))
        return tuple(one for one in settled if one is not None)

    def answer(
        self, action: str, by: str, comment: str, at: datetime, *, verdict: Literal["approved", "rejected"]
    ) -> ActionRecord:
        """A person approves or rejects an action that waits for it, or will be due; a rejection is final.

        Raises NotFound, and ValueError when it does not wait (any more) or nobody says who.
        """
        row = {"action": action, "by": person(by), "verdict": verdict, "comment": words(comment), "at": at}
        with self.store.writing() as connection:
            record = self.known([action]).get(action)
            if record is None:
                raise NotFound(f"{action!r} is not an action in this store; `hotspare actions list` shows them")
            is_due_later = record.outcome == "scheduled" and record.mode == "enforce"
            if record.outcome != "waiting_approval" and not is_due_later:
                raise ValueError(f"{action} does not wait for approval: it is {record.outcome}{_instead(record)}")
            insert = insert_into(connection, APPROVALS).values(**row)
            said = {name: insert.excluded[name] for name in ("verdict", "comment", "at")}
            connection.execute(insert.on_conflict_do_update(index_elements=["action", "by"], set_=said))
            if verdict == "rejected":
                final = {"outcome": "rejected", "why": f"rejected by {row['by']}: {comment}", "at": at}
                connection.execute(sa.update(ACTIONS).where(ACTIONS.c.id == action).values(**final))
                self._event(connection, action, {"mode": record.mode, **final})
            return self.known([action])[action]

    def record_return(self, target: str, by: str, at: datetime, comment: str = "") -> ActionRecord:
        """A person put a node or port back to work: it no longer counts as drained or isolated. Raises ValueError."""
        occasion = f"person/{person(by)}/{at.isoformat()}"
        request = ActionRequest(
            id=action_id(occasion, "return_to_service", target), incident=occasion, kind="return_to_service",
            target=target, parameters={}, requested_at=at, reason="a person did it",
        )  # fmt: skip
        why = f"by {person(by)}: {words(comment)}".removesuffix(": ")
        record = ActionRecord(request=request, mode="enforce", outcome="done", why=why, at=at)
        self.enter(record, None)
        return record

    def approvals(self, ids: Collection[str]) -> dict[str, tuple[Approval, ...]]:
        found: dict[str, tuple[Approval, ...]] = {}
        with self.store.reading() as connection:
            for row in connection.execute(APPROVALS_OF, {"ids": list(ids)}):
                said = Approval(row.by, row.verdict, row.comment, row.at)
                found[row.action] = (*found.get(row.action, ()), said)
        return found

    def _records(self, wanted: "sa.Select[Any]", values: Mapping[str, Any] | None = None) -> tuple[ActionRecord, ...]:
        with self.store.reading() as connection:
            return tuple(record_of(row) for row in connection.execute(wanted, values or {}).mappings())

    @staticmethod
    def _event(connection: sa.Connection, action: str, decided: Mapping[str, Any]) -> None:
        connection.execute(EVENT, {"action": action, **decided})


def _instead(record: ActionRecord) -> str:
    """What a person can do about an action that nobody approves or rejects."""
    if record.outcome == "scheduled":
        return " in a dry run"
    return f"; `hotspare actions cancel {record.request.id}` keeps it undone" if record.outcome == "refused" else ""


def _bring_back(connection: sa.Connection, record: ActionRecord) -> None:
    if record.request.kind == "return_to_service" and record.outcome in ("done", "dry-run"):
        connection.execute(BROUGHT_BACK, {"place": record.request.target, "real": record.outcome == "done"})
