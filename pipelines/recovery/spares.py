"""Which spare takes over, and what the pool knows of nodes that leave and return."""

from collections.abc import Collection, Sequence
from datetime import datetime

from pipelines.operations_store import OperationsStore
from schemas.action import ActionRecord, ActionRequest
from schemas.topology import Topology


def candidates(
    store: OperationsStore, request: ActionRequest, topology: Topology, unfit: Collection[str]
) -> tuple[str, ...]:
    """Available spares, the nearest to what they replace first: same superblock, then same pod. None that is unfit.

    Those that wait in the pool are burnt in: a node comes into it new, or through diagnostics and probation.
    """
    available = [spare.node for spare in store.spares() if spare.state == "available" and spare.node not in unfit]
    kind, rows = str(request.parameters.get("target_kind")), topology.node_rows
    replaced = topology.nodes_under(kind, request.target)
    home = rows[replaced[0]] if replaced else {}

    def distance(node: str) -> tuple[bool, bool, str]:
        row = rows.get(node, {})
        return row.get("superblock") != home.get("superblock"), row.get("pod") != home.get("pod"), node

    return tuple(sorted(available, key=distance))


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
    if record.outcome != "done":
        return
    node, states = record.request.target, {spare.node: spare.state for spare in store.spares()}
    if record.request.kind == "drain_node" and node in states:
        store.put_spare(node, "repair", now)
    if record.request.kind == "return_to_service" and node in topology.node_rows:
        if node in states:
            store.put_spare(node, "available", now)
        elif record.request.parameters.get("replaced"):
            store.add_spares([node], now)
