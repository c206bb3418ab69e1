"""What nobody is told of now: silences that people set, and maintenance windows that cover all roots of an incident."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pipelines.operations_holds import Hold, Holds
from pipelines.operations_records import Silence
from pipelines.operations_store import OperationsStore
from schemas.incident import Incident
from schemas.topology import node_of


@dataclass(frozen=True)
class Quiet:
    """windows: holds of maintenance."""

    silences: tuple[Silence, ...]
    windows: tuple[Hold, ...]

    def mutes(self, incident: Incident) -> bool:
        """Whether one of them covers the incident, and lasted beyond its detection."""
        begun = incident.detected_at
        covered = {window.target for window in self.windows if window.ends_at > begun}
        under_work = bool(incident.roots) and all(not covered.isdisjoint(_places(root)) for root in incident.roots)
        return under_work or any(one.mutes(incident) for one in self.silences if one.ends_at > begun)


def quiet(store: OperationsStore, old: Sequence[Incident], now: datetime) -> tuple[Quiet, Quiet]:
    """(in force now, over by now). old: what the second is asked about; it was muted, and is told now."""
    since = min([now, *(one.detected_at for one in old)])
    silences, windows = store.silences(now, since), Holds(store).windows(since, now)
    return (
        Quiet(tuple(one for one in silences if one.ends_at > now), tuple(one for one in windows if one.ends_at > now)),
        Quiet(
            tuple(one for one in silences if one.ends_at <= now), tuple(one for one in windows if one.ends_at <= now)
        ),
    )


def _places(root: str) -> set[str]:
    """The root, and the host of a GPU, an HCA or a telemetry source."""
    sender = root.partition(":")[2] or root
    return {root, sender, node_of(sender)}
