"""The operations store: incidents, what people said about them, silences, the breaker, spares and leases.

Several processes use it at once. Ids come from content, so writing twice is harmless. `now` and `at` are always
arguments. The action ledger stands on the same database, in pipelines/recovery/ledger.py.
"""

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2s
from pathlib import Path
from typing import Any, Literal, Self

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from pipelines.operations_database import BUSY_SECONDS, Database, open_database
from pipelines.operations_migrations import migrate
from pipelines.operations_people import person, place, words
from pipelines.operations_records import Breaker, Lease, NotFound, Remark, Silence, Spare, incident_from
from pipelines.operations_tables import (
    ACKNOWLEDGEMENTS,
    BREAKER,
    INCIDENTS,
    LEASES,
    NOTES,
    SILENCES,
    SPARES,
    VERDICTS,
)
from schemas.incident import Incident, State

# Asked in every round of recovery: a statement that is built anew costs more than its answer.
LAST_OF_BREAKER = sa.select(BREAKER).order_by(BREAKER.c.sequence.desc()).limit(1)
POOL = sa.select(SPARES).order_by(SPARES.c.node)
FREE_SPARES = sa.select(SPARES.c.node).where(SPARES.c.state == "available")
HELD_SPARES = sa.select(SPARES.c.node).where(SPARES.c.action == sa.bindparam("holder")).order_by(SPARES.c.node)


@dataclass(frozen=True)
class OperationsStore:
    """All methods raise StoreUnavailable when the database is missing, locked for too long or unreachable."""

    database: Database

    @classmethod
    def open(cls, where: str | Path, *, create: bool = True, busy_seconds: float = BUSY_SECONDS) -> Self:
        """A SQLite path, ":memory:" or a PostgreSQL URL, brought to the current version. Raises NewerStore too."""
        database = open_database(where, create=create, busy_seconds=busy_seconds)
        migrate(database)
        return cls(database)

    def close(self) -> None:
        self.database.close()

    def reading(self) -> AbstractContextManager[sa.Connection]:
        return self.database.reading()

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """Several calls as one: everything inside is written together, and no other process writes in between."""
        return self.database.writing()

    # Incidents

    def upsert_incidents(self, incidents: Iterable[Incident], at: datetime) -> None:
        """What the engine's step of event time `at` says; an older step never overwrites a newer one.

        A state that people set stays until the engine says resolved.
        """
        rows = [{**_incident_row(incident), "updated_at": at} for incident in incidents]
        if not rows:
            return
        with self.writing() as connection:
            connection.execute(_say(connection.dialect.name), rows)

    def incidents(
        self,
        *,
        states: Collection[State] | None = None,
        causes: Collection[str] | None = None,
        since: datetime | None = None,
        ids: Collection[str] | None = None,
        limit: int | None = 100,
    ) -> tuple[Incident, ...]:
        """Newest first. states, causes, ids: any of these. since: detected at or after. limit: None is all."""
        row = INCIDENTS.c
        chosen = {row.cause: causes, row.state: states, row.id: ids}
        any_of = {column: column.in_(list(values)) for column, values in chosen.items() if values is not None}
        since_then = [] if since is None else [row.detected_at >= since]
        first = row.cause if states is None else row.state
        several = chosen[first] or ()
        if limit is None or len(several) < 2:
            wanted = _newest(sa.select(INCIDENTS), [*any_of.values(), *since_then], limit)
        else:  # an index gives the newest of one state or cause in order; of several it would give all, to be sorted
            others = [*(where for column, where in any_of.items() if column is not first), *since_then]
            each = (_newest(sa.select(row.id), [first == value, *others], limit) for value in several)
            newest = sa.union_all(*(sa.select(one.subquery().c.id) for one in each))
            wanted = _newest(sa.select(INCIDENTS), [row.id.in_(newest)], limit)
        with self.reading() as connection:
            return tuple(incident_from(found) for found in connection.execute(wanted).mappings())

    def incident(self, name: str) -> Incident:
        """By id, or by as much of it (with or without "inc-") as is unique. Raises NotFound."""
        short = name.removeprefix("inc-")
        wanted = sa.select(INCIDENTS).where(INCIDENTS.c.id.startswith(f"inc-{short}", autoescape=True)).limit(2)
        with self.reading() as connection:
            exact = connection.execute(sa.select(INCIDENTS).where(INCIDENTS.c.id == name)).mappings().all()
            found = exact or (connection.execute(wanted).mappings().all() if short else [])
        if len(found) != 1:
            why = "is the beginning of more than one incident's id" if found else "is not an incident in this store"
            raise NotFound(f"{name!r} {why}; `hotspare incidents list` shows them")
        return incident_from(found[0])

    # What people say

    def acknowledge(
        self,
        name: str,
        by: str,
        comment: str,
        at: datetime,
        *,
        state: Literal["acknowledged", "mitigating"] = "acknowledged",
    ) -> Incident:
        """A person has seen it or works on it. A resolved incident stays resolved. Raises NotFound, ValueError."""
        row = {"by": person(by), "comment": words(comment), "at": at, "state": state}
        before = ("suspect", "firing") if state == "acknowledged" else ("suspect", "firing", "acknowledged")
        with self.writing() as connection:
            found = self.incident(name)
            self._insert_new(connection, ACKNOWLEDGEMENTS, [{"incident": found.id, **row}])
            moved = sa.update(INCIDENTS).where(INCIDENTS.c.id == found.id, INCIDENTS.c.state.in_(before))
            connection.execute(moved.values(state=state))
            return self.incident(found.id)

    def note(self, name: str, by: str, text: str, at: datetime) -> None:
        """Raises NotFound, ValueError."""
        with self.writing() as connection:
            found = self.incident(name)
            row = {"incident": found.id, "at": at, "by": person(by), "text": words(text)}
            self._insert_new(connection, NOTES, [{"id": content_id("note", *row.values()), **row}])

    def remarks(self, name: str) -> tuple[Remark, ...]:
        """Acknowledgements, notes and verdicts of an incident, oldest first. Raises NotFound."""
        with self.reading() as connection:
            found = self.incident(name)
            said = ACKNOWLEDGEMENTS.c
            acknowledged = sa.select(said.at, said.by, said.state, said.comment).where(said.incident == found.id)
            noted = sa.select(NOTES.c.at, NOTES.c.by, sa.literal("note"), NOTES.c.text).where(
                NOTES.c.incident == found.id
            )
            word = sa.case((VERDICTS.c.is_true, "judged true"), else_="judged false")
            judged = sa.select(VERDICTS.c.at, VERDICTS.c.by, word, VERDICTS.c.why).where(
                VERDICTS.c.incident == found.id
            )
            rows = [*connection.execute(acknowledged), *connection.execute(noted), *connection.execute(judged)]
        return tuple(Remark(*row) for row in sorted(rows, key=tuple))

    def silence(
        self, matchers: Sequence[tuple[str, str]], starts_at: datetime, ends_at: datetime, by: str, comment: str
    ) -> Silence:
        """Raises ValueError for no or unknown matchers, or an end that is not after the start."""
        chosen = tuple(sorted((name, place(value)) for name, value in matchers))
        identity = content_id("sil", chosen, starts_at, ends_at, by)
        silence = Silence(identity, chosen, starts_at, ends_at, person(by), words(comment))
        with self.writing() as connection:
            self._insert_new(connection, SILENCES, [vars(silence)])
        return silence

    def silences(self, at: datetime, since: datetime | None = None) -> tuple[Silence, ...]:
        """Those in force at this time: starts_at <= at < ends_at; with `since` those too that have ended after it."""
        wanted = sa.select(SILENCES).where(SILENCES.c.starts_at <= at, SILENCES.c.ends_at > (since or at))
        with self.reading() as connection:
            rows = connection.execute(wanted.order_by(SILENCES.c.ends_at, SILENCES.c.id)).mappings().all()
        return tuple(Silence(**{**row, "matchers": tuple(map(tuple, row["matchers"]))}) for row in rows)

    def end_silence(self, identity: str, at: datetime) -> None:
        """Let it end now instead of later. Raises NotFound when no silence of that id lasts beyond `at`."""
        ending = sa.update(SILENCES).where(SILENCES.c.id == identity, SILENCES.c.ends_at > at).values(ends_at=at)
        with self.writing() as connection:
            if connection.execute(ending).rowcount != 1:
                raise NotFound(f"{identity!r} is not a silence that is still in force")

    # The breaker

    def breaker(self) -> Breaker:
        with self.reading() as connection:
            row = connection.execute(LAST_OF_BREAKER).mappings().one_or_none()
        if row is None:
            return Breaker(tripped=False, at=None, by="", reason="")
        return Breaker(tripped=row["event"] == "tripped", at=row["at"], by=row["by"], reason=row["reason"])

    def trip_breaker(self, reason: str, at: datetime) -> None:
        """Tripping a tripped breaker changes nothing."""
        with self.writing() as connection:
            if not self.breaker().tripped:
                connection.execute(sa.insert(BREAKER).values(event="tripped", at=at, by="recovery", reason=reason))

    def reset_breaker(self, by: str, reason: str, at: datetime) -> None:
        """Only a person does this, and says why. Raises ValueError when either is missing."""
        if not reason.strip():
            raise ValueError("a breaker is reset with a reason")
        with self.writing() as connection:
            if self.breaker().tripped:
                row = {"event": "reset", "at": at, "by": person(by), "reason": words(reason)}
                connection.execute(sa.insert(BREAKER).values(**row))

    # Leases

    def acquire_lease(self, name: str, holder: str, now: datetime, seconds: float) -> Lease:
        """The lease as it stands afterwards: ours if it was free, had run out or was ours, else the other holder's."""
        row = {"name": name, "holder": holder, "acquired_at": now, "expires_at": now + timedelta(seconds=seconds)}
        with self.writing() as connection:
            insert = insert_into(connection, LEASES).values(**row)
            taken: dict[str, Any] = {column: insert.excluded[column] for column in ("holder", "expires_at")}
            same = LEASES.c.holder == insert.excluded.holder
            taken["acquired_at"] = sa.case((same, LEASES.c.acquired_at), else_=insert.excluded.acquired_at)
            free = same | (LEASES.c.expires_at <= now)
            connection.execute(insert.on_conflict_do_update(index_elements=["name"], set_=taken, where=free))
            return Lease(**connection.execute(sa.select(LEASES).where(LEASES.c.name == name)).mappings().one())

    def lease(self, name: str) -> Lease | None:
        """As it stands, run out or not."""
        with self.reading() as connection:
            row = connection.execute(sa.select(LEASES).where(LEASES.c.name == name)).mappings().one_or_none()
        return None if row is None else Lease(**row)

    def renew_lease(self, name: str, holder: str, now: datetime, seconds: float) -> bool:
        """False: it ran out or is another's, and the holder must stop what it guards."""
        ours = (LEASES.c.name == name) & (LEASES.c.holder == holder) & (LEASES.c.expires_at > now)
        renewed = sa.update(LEASES).where(ours).values(expires_at=now + timedelta(seconds=seconds))
        with self.writing() as connection:
            return connection.execute(renewed).rowcount == 1

    def release_lease(self, name: str, holder: str) -> None:
        """Another's lease is left alone."""
        with self.writing() as connection:
            connection.execute(sa.delete(LEASES).where(LEASES.c.name == name, LEASES.c.holder == holder))

    # Spares

    def add_spares(self, nodes: Iterable[str], at: datetime) -> None:
        """Nodes that wait for work. One that is already in the pool keeps its state."""
        rows = [{"node": node, "state": "available", "action": None, "at": at} for node in nodes]
        with self.writing() as connection:
            self._insert_new(connection, SPARES, rows)

    def spares(self) -> tuple[Spare, ...]:
        with self.reading() as connection:
            rows = connection.execute(POOL).mappings().all()
        return tuple(Spare(**row) for row in rows)

    def allocate_spares(self, action: str, preferred: Sequence[str], count: int, at: datetime) -> tuple[str, ...]:
        """The first `count` available nodes in the order preferred; none at all when there are fewer.

        An action that has its spares already gets the same again.
        """
        with self.writing() as connection:
            held = tuple(connection.scalars(HELD_SPARES, {"holder": action}))
            if held:
                return held
            available = frozenset(connection.scalars(FREE_SPARES))
            chosen = tuple(node for node in preferred if node in available)[:count]
            if len(chosen) < count:
                return ()
            taken = sa.update(SPARES).where(SPARES.c.node.in_(chosen))
            connection.execute(taken.values(state="allocated", action=action, at=at))
            return chosen

    def put_spare(self, node: str, state: Literal["available", "repair"], at: datetime) -> None:
        """Back into the pool, or out of it for repair. Raises NotFound."""
        change = sa.update(SPARES).where(SPARES.c.node == node).values(state=state, action=None, at=at)
        with self.writing() as connection:
            if connection.execute(change).rowcount != 1:
                raise NotFound(f"{node!r} is not in the spare pool")

    @staticmethod
    def _insert_new(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        if rows:
            connection.execute(insert_into(connection, table).on_conflict_do_nothing(), rows)


def _newest(wanted: "sa.Select[Any]", where: Iterable["sa.ColumnElement[bool]"], limit: int | None) -> "sa.Select[Any]":
    return wanted.where(*where).order_by(INCIDENTS.c.detected_at.desc(), INCIDENTS.c.id).limit(limit)


@cache
def _say(dialect: str) -> "sqlite.Insert | postgresql.Insert":
    """What is said of an incident, in place of what was said before; made once, as every step says something."""
    insert = _insert(dialect, INCIDENTS)
    new = insert.excluded
    by_people = (INCIDENTS.c.state == "acknowledged") | (INCIDENTS.c.state == "mitigating")
    changed: dict[str, Any] = {column.name: new[column.name] for column in INCIDENTS.c if column.name != "id"}
    changed["state"] = sa.case((by_people & (new.state != "resolved"), INCIDENTS.c.state), else_=new.state)
    newer = new.updated_at >= INCIDENTS.c.updated_at
    return insert.on_conflict_do_update(index_elements=["id"], set_=changed, where=newer)


def _insert(dialect: str, table: sa.Table) -> "sqlite.Insert | postgresql.Insert":
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


def insert_into(connection: sa.Connection, table: sa.Table) -> "sqlite.Insert | postgresql.Insert":
    """An INSERT that knows ON CONFLICT, which SQLAlchemy has once per database."""
    return _insert(connection.dialect.name, table)


def content_id(prefix: str, *parts: object) -> str:
    """The same parts give the same id on every machine; times are compared as instants."""
    plain = [part.astimezone(UTC).isoformat() if isinstance(part, datetime) else part for part in parts]
    return f"{prefix}-{blake2s(repr(plain).encode(), digest_size=6).hexdigest()}"


def _incident_row(incident: Incident) -> dict[str, Any]:
    row = vars(incident)
    return {column.name: row[column.name] for column in INCIDENTS.c if column.name != "updated_at"}
