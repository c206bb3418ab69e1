"""Which spare takes over, and what the pool knows of nodes that leave and return."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from pipelines.operations_records import NotFound
from pipelines.operations_store import FREE_SPARES, HELD_SPARES, OperationsStore
from pipelines.operations_tables import ACTIONS, INCIDENTS, SPARES
from pipelines.recovery.degraded import ACTIVE
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.policy import spares_of
from schemas.action import ActionRecord, ActionRequest
from schemas.topology import Topology

# Made once: every round of recovery asks them.
_AVAILABLE = sa.select(sa.func.count()).where(SPARES.c.state == "available")
_POOLED = sa.select(SPARES.c.node)
_HOLDERS = sa.select(SPARES.c.action).where(SPARES.c.state == "allocated").distinct()
_IN_VAIN = sa.select(SPARES.c.node).join(ACTIONS, SPARES.c.action == ACTIONS.c.id)
_IN_VAIN = _IN_VAIN.where(ACTIONS.c.id == sa.bindparam("holder"), ACTIONS.c.outcome == "failed", ACTIONS.c.recoverable)
_PAGED = sa.select(INCIDENTS.c.root_kind, INCIDENTS.c.roots)
_PAGED = _PAGED.where(INCIDENTS.c.state.in_(ACTIVE), INCIDENTS.c.severity == "page")
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


def failing(store: OperationsStore, topology: Topology) -> frozenset[str]:
    """Nodes for which people are paged now, or for the domain that they stand in: no help for what else fails."""
    with store.reading() as connection:
        lasting = [(str(kind), roots) for kind, roots in connection.execute(_PAGED)]
    return frozenset(node for kind, roots in lasting for root in roots for node in topology.nodes_under(kind, root))


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


def still_short(
    request: ActionRequest, lost: frozenset[str], known: Mapping[str, ActionRecord], ledger: Ledger, topology: Topology
) -> ActionRequest:
    """A reclaim for the nodes lost that no spare stands in for, or would in a rehearsal. known: what was decided since
    the ledger was read.
    """
    taken = ledger.taken_for([request.incident]).get(request.incident, ())
    decided = ({one.request.id: one for one in taken} | dict(known)).values()
    given = [
        one.request.parameters for one in decided
        if (one.request.kind, one.request.incident) == ("allocate_spare", request.incident)
        and one.outcome in ("pending", "done", "dry-run")
    ]  # fmt: skip
    stand_in = sum(len(one["spares"]) if "spares" in one else one.get("would_get", one["count"]) for one in given)
    nodes = max(0, len(lost.difference(spares_of(topology))) - stand_in)
    return replace(request, parameters={**request.parameters, "nodes": nodes})


def lent(ledger: Ledger) -> tuple[ActionRecord, ...]:
    """The allocations of spares that stand in for whole domains. One that stands in for a node stays in its place."""
    with ledger.store.reading() as connection:
        holders = [str(name) for name in connection.scalars(_HOLDERS)]
    records = ledger.known(holders).values() if holders else ()
    return tuple(one for one in records if one.request.parameters.get("target_kind") != "node")


def settle_pool(store: OperationsStore, topology: Topology, record: ActionRecord, now: datetime) -> None:
    """What a finished action means for the pool: a drained spare is none, a node that returns after a spare has taken
    its place waits for work in its turn, and so do spares that are released, or that nobody came to use.
    """
    if record.outcome == "failed" and record.request.kind == "allocate_spare":
        _free_again(store, _IN_VAIN, record.request.id, now)
    if record.outcome != "done" or record.request.kind not in ("drain_node", "return_to_service", "release_spare"):
        return
    if record.request.kind == "release_spare":
        _free_again(store, HELD_SPARES, record.request.parameters["undoes"], now)
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


def returned(store: OperationsStore, target: str, by: str, comment: str, at: datetime) -> ActionRecord:
    """A person says that a node or port is back at work, or a spare waiting again, whatever has taken it: what went to
    its maker, or failed on the way back, comes back by nobody else's word. Raises NotFound, ValueError.
    """
    ledger = Ledger(store)
    with store.writing() as connection:
        state = connection.scalar(_STATE, {"wanted": target})
        out = [one for one in ledger.taken_out() if one.request.target == target]
        if not out and state in (None, "available"):
            raise NotFound(f"{target!r} is not out; `hotspare failures` shows what is")
        record = ledger.record_return(target, by, at, comment)
        given = ("allocate_spare", target, "done")
        done = (one for some in ledger.taken_for({one.request.incident for one in out}).values() for one in some)
        if state is not None:
            store.put_spare(target, "available", at)
        elif any((one.request.kind, one.request.target, one.outcome) == given for one in done):
            store.add_spares([target], at)  # a spare has its place
        return record


def _free_again(store: OperationsStore, held: "sa.Select[Any]", holder: str, now: datetime) -> None:
    with store.writing() as connection:
        for node in list(connection.scalars(held, {"holder": holder})):
            store.put_spare(str(node), "available", now)
