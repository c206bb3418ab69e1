"""What keeps something out of service: whatever detectors complain about, or did so lately."""

from datetime import datetime

import sqlalchemy as sa

from pipelines.operations_records import incident_from
from pipelines.operations_store import OperationsStore
from pipelines.operations_tables import INCIDENTS
from pipelines.recovery.degraded import ACTIVE
from schemas.incident import Incident

_row = INCIDENTS.c
# Each half by its own index: as one condition it would be asked of every incident there ever was.
_LASTING = sa.select(_row.id).where(_row.state.in_(ACTIVE))
_LATELY_OVER = sa.select(_row.id).where(_row.ends_at >= sa.bindparam("since"))
_WANTED = sa.select(INCIDENTS).where(_row.id.in_(sa.union(_LASTING, _LATELY_OVER))).order_by(_row.id)


def complaints(store: OperationsStore, since: datetime) -> tuple[Incident, ...]:
    """Incidents that last, and those that have ended since then. Raises StoreUnavailable."""
    with store.reading() as connection:
        return tuple(incident_from(row) for row in connection.execute(_WANTED, {"since": since}).mappings())
