"""Holds: a person has something in hand, and automation keeps its hands off it until the hold ends."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from pipelines.operations_records import NotFound
from pipelines.operations_store import OperationsStore, content_id, insert_into, person
from pipelines.operations_tables import HOLDS

# Made once: every round of recovery asks it.
IN_FORCE = sa.select(HOLDS).where(HOLDS.c.starts_at <= sa.bindparam("now"), HOLDS.c.ends_at > sa.bindparam("now"))
IN_FORCE = IN_FORCE.order_by(HOLDS.c.ends_at, HOLDS.c.id)


@dataclass(frozen=True)
class Hold:
    """starts_at <= time < ends_at. target: a node, GPU, port, link, switch, or a whole CDU, PDU, superblock or pod."""

    id: str
    target: str
    starts_at: datetime
    ends_at: datetime
    by: str
    comment: str


@dataclass(frozen=True)
class Holds:
    """All methods raise StoreUnavailable."""

    store: OperationsStore

    def hold(self, target: str, starts_at: datetime, ends_at: datetime, by: str, comment: str) -> Hold:
        """Raises ValueError when nobody says who, or it ends before it starts."""
        if ends_at <= starts_at:
            raise ValueError("a hold must end after it starts")
        if not target.strip():
            raise ValueError("say what to hold: a node, GPU, port, link, switch, CDU, PDU, superblock or pod")
        made = Hold(content_id("hold", target, starts_at, by), target, starts_at, ends_at, person(by), comment)
        with self.store.writing() as connection:
            connection.execute(insert_into(connection, HOLDS).values(**vars(made)).on_conflict_do_nothing())
        return made

    def in_force(self, at: datetime) -> tuple[Hold, ...]:
        with self.store.reading() as connection:
            rows = connection.execute(IN_FORCE, {"now": at}).mappings().all()
        return tuple(Hold(**row) for row in rows)

    def release(self, target: str, at: datetime) -> int:
        """Let every hold on the target end now; how many there were. Raises NotFound when there was none."""
        ending = sa.update(HOLDS).where(HOLDS.c.target == target, HOLDS.c.ends_at > at).values(ends_at=at)
        with self.store.writing() as connection:
            released = connection.execute(ending).rowcount
        if not released:
            raise NotFound(f"nobody holds {target!r}; `hotspare holds list` shows what is held")
        return int(released)
