"""The map of what is out, degraded or in somebody's hands, entity by entity, from the operations store alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipelines.operations_holds import Holds
from pipelines.operations_store import OperationsStore
from pipelines.recovery.complaints import complaints
from pipelines.recovery.degraded import ACTIVE
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.returns import outstanding, ways_back
from pipelines.recovery.settings import RecoverySettings
from schemas.incident import Incident
from schemas.topology import Topology, node_of


@dataclass(frozen=True)
class Entry:
    """state: failed | degraded | drained | isolated | held. since: of the first reason; why: incident or action id."""

    kind: str
    entity: str
    state: str
    since: datetime
    why: str


@dataclass(frozen=True)
class Capacity:
    """GPUs of compute nodes, how many of them are out, and how many GPUs of spares stand in."""

    gpus: int
    gpus_out: int
    gpus_stand_in: int

    @property
    def share(self) -> float:
        """Of full capacity, as it runs now."""
        return 1.0 if not self.gpus else min(1.0, (self.gpus - self.gpus_out + self.gpus_stand_in) / self.gpus)


def failure_map(store: OperationsStore, now: datetime) -> tuple[Entry, ...]:
    """Sorted by kind and entity. Raises StoreUnavailable."""
    entries = [
        Entry(incident.root_kind, root, "failed" if incident.members else "degraded", incident.starts_at, incident.id)
        for incident in store.incidents(states=ACTIVE, limit=None)
        for root in incident.roots
    ]
    words = {"drain_node": ("node", "drained"), "isolate_port": ("port", "isolated")}
    out: dict[str, Entry] = {}
    for record in Ledger(store).taken_out():
        if record.outcome == "dry-run":
            continue
        kind, state = words[record.request.kind]
        out[record.request.target] = Entry(kind, record.request.target, state, record.at, record.request.id)
    held = [Entry("", hold.target, "held", hold.starts_at, hold.by) for hold in Holds(store).in_force(now)]
    return tuple(sorted([*entries, *out.values(), *held], key=lambda one: (one.kind, one.entity, one.since)))


def returning(store: OperationsStore, settings: RecoverySettings, now: datetime) -> dict[str, str]:
    """Action that took something out -> when that returns, or what it waits for. Raises StoreUnavailable."""
    ledger, window = Ledger(store), max(settings.link_clean_seconds, settings.node_clean_seconds)
    with store.reading():
        out = [record for record in ledger.taken_out() if record.outcome == "done"]
        if settings.mode_of("return_to_service") != "enforce":
            by_hand = "only by a person's word, as return_to_service is not enforced: hotspare actions returned"
            return {record.request.id: f"{by_hand} {record.request.target}" for record in out}
        ours = {record.request.incident for record in out}
        incidents = {one.id: one for one in (store.incidents(ids=ours, limit=None) if ours else ())}
        said = complaints(store, now - timedelta(seconds=window))
        return ways_back(outstanding(out, settings), incidents, said, ledger.taken_for(ours), settings)


def capacity(store: OperationsStore, topology: Topology) -> Capacity:
    """GPUs that active incidents hold or that were drained, and the spares that were allocated in their place."""
    compute = {node for node, row in topology.node_rows.items() if row["role"] != "spare"}
    lost = _lost(store.incidents(states=ACTIVE, limit=None), topology)
    drained = {record.request.target for record in Ledger(store).taken_out() if record.outcome == "done"} & compute
    lost.update(gpu for node in drained for gpu in topology.gpus_of_node(node))
    stand_in = sum(spare.state == "allocated" for spare in store.spares()) * topology.gpus_per_node
    out = sum(node_of(gpu) in compute for gpu in lost)
    return Capacity(len(compute) * topology.gpus_per_node, out, stand_in)


def _lost(incidents: Iterable[Incident], topology: Topology) -> set[str]:
    return {gpu for one in incidents for gpu in one.members if node_of(gpu) in topology.node_rows}
