"""Which spare takes over, and what the pool knows of nodes that leave and return."""

from collections.abc import Collection, Sequence
from datetime import datetime

import sqlalchemy as sa

from pipelines.operations_store import OperationsStore
from pipelines.operations_tables import SPARES
from pipelines.recovery.policy import spares_of
from schemas.action import ActionRecord, ActionRequest
from schemas.topology import Topology

_AVAILABLE = sa.select(sa.func.count()).where(SPARES.c.state == "available")


def fill_pool(store: OperationsStore, topology: Topology, now: datetime) -> None:
    """The nodes that the topology keeps as spares are in the pool, whatever has become of them since."""
    in_pool = {spare.node for spare in store.spares()}
    store.add_spares([node for node in spares_of(topology) if node not in in_pool], now)


def available(store: OperationsStore) -> int:
    with store.reading() as connection:
        return int(connection.scalar(_AVAILABLE) or 0)


def candidates(
    store: OperationsStore, request: ActionRequest, topology: Topology, unfit: Collection[str]
) -> tuple[str, ...]:
    """Available spares, the nearest to what they replace first: same superblock, then same pod. None that is unfit.

    Those that wait in the pool are burnt in: a node comes into it new, or through diagnostics and probation.
    """
    fit = [spare.node for spare in store.spares() if spare.state == "available" and spare.node not in unfit]
    kind, rows = str(request.parameters.get("target_kind")), topology.node_rows
    replaced = topology.nodes_under(kind, request.target)
    home = rows[replaced[0]] if replaced else {}

    def distance(node: str) -> tuple[bool, bool, str]:
        row = rows.get(node, {})
        return row.get("superblock") != home.get("superblock"), row.get("pod") != home.get("pod"), node

    return tuple(sorted(fit, key=distance))


def allocated(store: OperationsStore, request: ActionRequest, nearest: Sequence[str], now: datetime) -> tuple[str, ...]:
    """The spares that are now this request's: all it asked for, or as many as there are where that helps; or none."""
    count = int(request.parameters.get("count", 1))
    if request.parameters.get("partial"):
        count = min(count, len(nearest))
    return store.allocate_spares(request.id, nearest, count, now) if count else ()


def settle_pool(store: OperationsStore, topology: Topology, record: ActionRecord, now: datetime) -> None:
    """What a finished action means for the pool: a drained spare is none, and a node that returns after a spare has
    taken its place waits for work in its turn.
    """
    if record.outcome != "done" or record.request.kind not in ("drain_node", "return_to_service"):
        return
    node, states = record.request.target, {spare.node: spare.state for spare in store.spares()}
    if record.request.kind == "drain_node" and node in states:
        store.put_spare(node, "repair", now)
    if record.request.kind == "return_to_service" and node in topology.node_rows:
        if node in states:
            store.put_spare(node, "available", now)
        elif record.request.parameters.get("replaced"):
            store.add_spares([node], now)
