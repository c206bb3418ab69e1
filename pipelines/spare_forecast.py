"""The pool of spares against the failures to come."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipelines.capacity import CapacitySettings, shortage_probability, spares_needed
from pipelines.operations_store import OperationsStore
from schemas.causes import CAUSE_BY_NAME
from schemas.incident import Incident
from schemas.topology import Topology

COSTLY = frozenset(name for name, cause in CAUSE_BY_NAME.items() if cause.takes_gpus)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """pool: state -> nodes. failures_per_day: observed, or the reference rate for so many GPUs. needed: spares that
    suffice with the target's probability; with_domain: and the largest power domain on top. shortage: probability
    that the nodes out outnumber the spares that are not in repair.
    """

    pool: Mapping[str, int]
    failures_per_day: float
    observed: bool
    repair_hours: float
    target: float
    needed: int
    with_domain: int
    shortage: float

    @property
    def usable(self) -> int:
        return self.pool.get("available", 0) + self.pool.get("allocated", 0)

    @property
    def is_short(self) -> bool:
        return self.usable < self.needed


def forecast(store: OperationsStore, topology: Topology, settings: CapacitySettings, now: datetime) -> Forecast:
    """now: of the cluster. Raises StoreUnavailable."""
    pool = Counter(spare.state for spare in store.spares())
    if not pool:
        pool["available"] = sum(row["role"] == "spare" for row in topology.node_rows.values())
    gpus = topology.nodes.height * topology.gpus_per_node
    seen = observed_per_day(store.incidents(since=now - timedelta(days=settings.observed_days), limit=None), settings)
    per_day = gpus * settings.failures_per_gpu_day if seen is None else seen
    domains = [len(nodes) for (kind, _), nodes in topology.nodes_by_domain.items() if kind == "pdu"]
    needed = spares_needed(per_day, settings.repair_hours, settings.target)
    usable = pool["available"] + pool["allocated"]
    return Forecast(
        pool=dict(pool), failures_per_day=per_day, observed=seen is not None, repair_hours=settings.repair_hours,
        target=settings.target, needed=needed, with_domain=needed + max(domains, default=0),
        shortage=shortage_probability(usable, per_day, settings.repair_hours),
    )  # fmt: skip


def observed_per_day(incidents: tuple[Incident, ...], settings: CapacitySettings) -> float | None:
    """Incidents that took GPUs, per day between the first and the last; None when there are too few to tell."""
    times = sorted(one.detected_at for one in incidents if one.cause in COSTLY and one.state != "suspect")
    if len(times) < settings.observed_minimum:
        return None
    days = (times[-1] - times[0]).total_seconds() / 86400
    return None if days < 1 else (len(times) - 1) / days
