"""Whose telemetry is not to be trusted now: an action on what it says would be a guess."""

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from pipelines.operations_store import OperationsStore
from pipelines.operations_tables import INCIDENTS
from schemas.incident import Incident, State
from schemas.topology import node_of

ACTIVE: tuple[State, ...] = ("suspect", "firing", "acknowledged", "mitigating")
TELEMETRY = ("telemetry_stale", "telemetry_frozen", "telemetry_implausible")
# Made once, and no more than is needed: every round of recovery asks it.
_WANTED = sa.select(INCIDENTS.c.id, INCIDENTS.c.roots).where(
    INCIDENTS.c.cause.in_(TELEMETRY), INCIDENTS.c.state.in_(ACTIVE)
)


def blind(incidents: Iterable[Incident]) -> dict[str, Incident]:
    """Those of telemetry, by id."""
    return {incident.id: incident for incident in incidents if incident.cause in TELEMETRY}


def degraded(store: OperationsStore, given: Mapping[str, Incident]) -> frozenset[str]:
    """Sources (and the nodes they are on) whose telemetry has an active incident, stored or given; what is given holds.

    The root of such an incident is "table:source". Raises StoreUnavailable.
    """
    with store.reading() as connection:
        stored = {row.id: row.roots for row in connection.execute(_WANTED)}
    said = {one.id: one.roots if one.state in ACTIVE else () for one in given.values()}
    sources = {root.partition(":")[2] for roots in (stored | said).values() for root in roots}
    return frozenset(sources | {node_of(source) for source in sources})
