"""Which spare takes over, and what the pool knows of nodes that leave and return."""

from collections.abc import Collection, Sequence
from datetime import datetime

import sqlalchemy as sa

from pipelines.operations_store import FREE_SPARES, HELD_SPARES, OperationsStore
from pipelines.operations_tables import SPARES
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.policy import spares_of
from schemas.action import ActionRecord, ActionRequest
from schemas.topology import Topology

# Made once: every round of recovery asks them.
_AVAILABLE = sa.select(sa.func.count()).where(SPARES.c.state == "available")
_POOLED = sa.select(SPARES.c.node)
_HOLDERS = sa.select(SPARES.c.action).where(SPARES.c.state == "allocated").distinct()
_STATE = sa.select(SPARES.c.state).where(SPARES.c.node == sa.bindparam("wanted"))


def fill_pool(store: OperationsStore, topology: Topology, now: datetime) -> None:
    """The nodes that the topology keeps as spares are in the pool, whatever has become of them since."""
    with store.reading() as connection:
        pooled = frozenset(connection.scalars(_POOLED))
    new = [node for node in spares_of(topology) if node not in pooled]
    if new:
        store.add_spares(new, now)


def available(store: OperationsStore) -> int:
    with store.reading() as connection:
        return int(connection.scalar(_AVAILABLE) or 0)


def free(store: OperationsStore) -> frozenset[str]:
    """Nodes that wait in the pool. They are burnt in: one comes into it new, or through diagnostics and probation."""
    with store.reading() as connection:
        return frozenset(connection.scalars(FREE_SPARES))


def nearest(request: ActionRequest, fit: Collection[str], topology: Topology) -> tuple[str, ...]:
    """The nearest to what they replace first: same superblock, then same pod."""
    kind, rows = str(request.parameters.get("target_kind")), topology.node_rows
    replaced = topology.nodes_under(kind, request.target)
    home = rows[replaced[0]] if replaced else {}

    def distance(node: str) -> tuple[bool, bool, str]:
        row = rows.get(node, {})
        return row.get("superblock") != home.get("superblock"), row.get("pod") != home.get("pod"), node

    return tuple(sorted(fit, key=distance))


def allocated(
    store: OperationsStore, request: ActionRequest, preferred: Sequence[str], now: datetime
) -> tuple[str, ...]:
    """The spares that are now this request's: all it asked for, or as many as there are where that helps; or none."""
    count = int(request.parameters.get("count", 1))
    if request.parameters.get("partial"):
        count = min(count, len(preferred))
    return store.allocate_spares(request.id, preferred, count, now) if count else ()


def lent(ledger: Ledger) -> tuple[ActionRecord, ...]:
    """The allocations of spares that stand in for whole domains. One that stands in for a node stays in its place."""
    with ledger.store.reading() as connection:
        holders = [str(name) for name in connection.scalars(_HOLDERS)]
    records = ledger.known(holders).values() if holders else ()
    return tuple(one for one in records if one.request.parameters.get("target_kind") != "node")


def settle_pool(store: OperationsStore, topology: Topology, record: ActionRecord, now: datetime) -> None:
    """What a finished action means for the pool: a drained spare is none, a node that returns after a spare has taken
    its place waits for work in its turn, and so do spares that are released.
    """
    if record.outcome != "done" or record.request.kind not in ("drain_node", "return_to_service", "release_spare"):
        return
    if record.request.kind == "release_spare":
        with store.writing() as connection:
            for free_again in list(connection.scalars(HELD_SPARES, {"holder": record.request.parameters["undoes"]})):
                store.put_spare(str(free_again), "available", now)
        return
    node = record.request.target
    with store.reading() as connection:
        pooled = connection.scalar(_STATE, {"wanted": node}) is not None
    if record.request.kind == "drain_node" and pooled:
        store.put_spare(node, "repair", now)
    if record.request.kind == "return_to_service" and node in topology.node_rows:
        if pooled:
            store.put_spare(node, "available", now)
        elif record.request.parameters.get("replaced"):
            store.add_spares([node], now)
