"""What nobody is told of now: silences that people set, and maintenance windows that cover all roots of an incident."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from pipelines.operations_holds import Holds
from pipelines.operations_records import Silence
from pipelines.operations_store import OperationsStore
from pipelines.operations_tables import SILENCES
from schemas.incident import Incident
from schemas.topology import node_of


@dataclass(frozen=True)
class Quiet:
    """covered: entities under maintenance."""

    silences: tuple[Silence, ...]
    covered: frozenset[str]

    def mutes(self, incident: Incident) -> bool:
        under_work = bool(incident.roots) and all(not self.covered.isdisjoint(_places(root)) for root in incident.roots)
        return under_work or any(silence.mutes(incident) for silence in self.silences)


def quiet(store: OperationsStore, since: datetime, now: datetime) -> tuple[Quiet, Quiet]:
    """(in force now, over since then): what was muted by the second is told now, however old it is."""
    wanted = sa.select(SILENCES).where(SILENCES.c.starts_at <= now, SILENCES.c.ends_at > since)
    with store.reading() as connection:
        rows = connection.execute(wanted).mappings().all()
    silences = [Silence(**{**row, "matchers": tuple(map(tuple, row["matchers"]))}) for row in rows]
    windows = Holds(store).windows(since, now)
    return (
        _made((one for one in silences if one.ends_at > now), (one.target for one in windows if one.ends_at > now)),
        _made((one for one in silences if one.ends_at <= now), (one.target for one in windows if one.ends_at <= now)),
    )


def _made(silences: Iterable[Silence], covered: Iterable[str]) -> Quiet:
    return Quiet(tuple(silences), frozenset(covered))


def _places(root: str) -> set[str]:
    """The root, and the host of a GPU, an HCA or a telemetry source."""
    sender = root.partition(":")[2] or root
    return {root, sender, node_of(sender)}
