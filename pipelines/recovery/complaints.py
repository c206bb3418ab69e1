"""What keeps something out of service: whatever detectors complain about, or did so lately."""

from datetime import datetime

import sqlalchemy as sa

from pipelines.operations_records import incident_from
from pipelines.operations_store import OperationsStore
from pipelines.operations_tables import INCIDENTS
from pipelines.recovery.degraded import ACTIVE
from schemas.incident import Incident

_WANTED = (
    sa.select(INCIDENTS)
    .where(sa.or_(INCIDENTS.c.state.in_(ACTIVE), INCIDENTS.c.ends_at >= sa.bindparam("since")))
    .order_by(INCIDENTS.c.id)
)


def complaints(store: OperationsStore, since: datetime) -> tuple[Incident, ...]:
    """Incidents that last, and those that have ended since then. Raises StoreUnavailable."""
    with store.reading() as connection:
        return tuple(incident_from(row) for row in connection.execute(_WANTED, {"since": since}).mappings())
