"""Holds: a person has something in hand, and automation keeps its hands off it until the hold ends.

A maintenance window that the stream announces is one too, over its entity and all that goes away with it; while it is
in force nobody is paged for what it covers either (pipelines/notify/quiet.py).
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl
import sqlalchemy as sa

from pipelines.operations_people import person, place, words
from pipelines.operations_records import NotFound
from pipelines.operations_store import OperationsStore, content_id, insert_into
from pipelines.operations_tables import HOLDS
from schemas.topology import Topology

# Made once: every round of recovery asks it.
IN_FORCE = sa.select(HOLDS).where(HOLDS.c.starts_at <= sa.bindparam("now"), HOLDS.c.ends_at > sa.bindparam("now"))
IN_FORCE = IN_FORCE.order_by(HOLDS.c.ends_at, HOLDS.c.id)


MAINTENANCE = "maintenance"  # who holds what a window covers
OPEN_END = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Hold:
    """starts_at <= time < ends_at. target: a node, GPU, port, link, switch, or a whole CDU, PDU, superblock or pod.
    announced_at, window: of one that is part of a maintenance window, and the entity of that.
    """

    id: str
    target: str
    starts_at: datetime
    ends_at: datetime
    by: str
    comment: str
    announced_at: datetime | None = None
    window: str | None = None


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
        identity = content_id("hold", target, starts_at, by)
        made = Hold(identity, place(target), starts_at, ends_at, person(by), words(comment))
        with self.store.writing() as connection:
            connection.execute(insert_into(connection, HOLDS).values(**vars(made)).on_conflict_do_nothing())
        return made

    def announce(self, windows: pl.DataFrame, topology: Topology) -> None:
        """Rows of table maintenance. What is announced later of a window from the same instant takes its place, in
        whatever order both are read; of two announced at once the earlier end holds.
        """
        rows = [
            {
                "id": content_id("hold", target, window["starts_at"], MAINTENANCE), "target": target,
                "starts_at": window["starts_at"], "ends_at": window["ends_at"] or OPEN_END, "by": MAINTENANCE,
                "comment": window["reason"] or "", "announced_at": window["announced_at"] or window["starts_at"],
                "window": window["id"],
            }
            for window in windows.iter_rows(named=True)
            for target in covered(window["kind"], window["id"], topology)
        ]  # fmt: skip
        if not rows:
            return
        with self.store.writing() as connection:
            insert = insert_into(connection, HOLDS)
            new, known = insert.excluded, HOLDS.c
            changed = {name: new[name] for name in ("ends_at", "comment", "announced_at", "window")}
            at_once = (new.announced_at == known.announced_at) & (new.ends_at < known.ends_at)
            newer = known.announced_at.is_(None) | (new.announced_at > known.announced_at) | at_once
            connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changed, where=newer), rows)

    def windows(self, since: datetime, until: datetime) -> tuple[Hold, ...]:
        """Maintenance that has begun by `until` and was in force at `since` or later."""
        row = HOLDS.c
        wanted = sa.select(HOLDS).where(row.by == MAINTENANCE, row.starts_at <= until, row.ends_at > since)
        with self.store.reading() as connection:
            return tuple(Hold(**found) for found in connection.execute(wanted).mappings())

    def in_force(self, at: datetime) -> tuple[Hold, ...]:
        with self.store.reading() as connection:
            rows = connection.execute(IN_FORCE, {"now": at}).mappings().all()
        return tuple(Hold(**row) for row in rows)

    def release(self, target: str, at: datetime) -> int:
        """Let every hold on the target end now, of a maintenance window with all that it covers; how many there were.
        Raises NotFound when there was none.
        """
        named = (HOLDS.c.target == target) | (HOLDS.c.window == target)
        ending = sa.update(HOLDS).where(named, HOLDS.c.ends_at > at).values(ends_at=at)
        with self.store.writing() as connection:
            released = connection.execute(ending).rowcount
        if not released:
            raise NotFound(f"nobody holds {target!r}; `hotspare holds list` shows what is held")
        return int(released)


def covered(kind: str, entity: str, topology: Topology) -> tuple[str, ...]:
    """The entity, the nodes that go away with it, the loops and power domains that a superblock or pod has to itself,
    and the links that end at any of the nodes.
    """
    nodes = topology.nodes_under(kind, entity) if kind in ("node", "pdu", "cdu", "superblock", "pod") else ()
    supplies = _supplies(nodes, topology) if kind in ("superblock", "pod") else ()
    devices = (entity, *(hca for node in nodes for hca in topology.hcas_by_node.get(node, ())))
    cables = (cable for device in devices for cable in topology.links_by_device.get(device, ()))
    return tuple(dict.fromkeys((entity, *nodes, *supplies, *cables)))


def _supplies(nodes: tuple[str, ...], topology: Topology) -> tuple[str, ...]:
    """The CDUs and PDUs of which every node is among these."""
    return tuple(
        supply
        for kind in ("cdu", "pdu")
        for supply in topology.nodes.filter(pl.col("node").is_in(nodes))[kind].drop_nulls().unique().sort()
        if set(topology.nodes_under(kind, supply)) <= set(nodes)
    )
