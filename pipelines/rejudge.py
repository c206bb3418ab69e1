"""The same rows judged again, in memory: every finding, incident and requested action, and nothing outside touched."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from detectors.contract import FINDING_COLUMNS
from pipelines.engine import Engine
from pipelines.intake import identified
from pipelines.operations_store import OperationsStore
from pipelines.recovery.recover import recover
from pipelines.settings import Settings, aliases_of, configured
from pipelines.sources.contract import Source
from pipelines.stream import earliest
from schemas.action import ActionRecord
from schemas.identity import identities_from
from schemas.incident import Incident
from schemas.topology import Topology

# What makes two findings the same one; evidence and scores may differ in their last digits.
COMPARED = ("time", "detector", "cause", "kind", "entity", "active", "code", "severity")


@dataclass(frozen=True, kw_only=True)
class Rejudged:
    """What a source gives with these settings. findings: at least the columns COMPARED. until: the watermark at its
    end.
    """

    findings: pl.DataFrame
    incidents: dict[str, Incident]
    actions: tuple[ActionRecord, ...]
    until: datetime | None


@dataclass
class Side:
    """What one settings make of incidents, as they come: the last word about each, and what recovery would do.

    slim: without the evidence of incidents that are over, which a long window would fill memory with.
    """

    settings: Settings
    slim: bool = False
    memory: OperationsStore = field(default_factory=lambda: OperationsStore.open(":memory:"))
    incidents: dict[str, Incident] = field(default_factory=dict)
    actions: dict[str, ActionRecord] = field(default_factory=dict)

    def hear(self, changed: Sequence[Incident], lasting: Sequence[Incident], topology: Topology, at: datetime) -> None:
        """changed: incidents of one step. lasting: those that are open after it. Recovery is rehearsed."""
        self.incidents |= {one.id: _slim(one) if self.slim else one for one in changed}
        self.memory.upsert_incidents([*changed, *lasting], at=at)
        taken = recover(lasting, topology, self.memory, self.settings.recovery.rehearsal(), {}, at)
        self.actions |= {record.request.id: record for record in taken}

    def close(self) -> None:
        self.memory.close()


def rejudge(source: Source, settings: Settings) -> Rejudged:
    """Through engine and recovery, rehearsed. Raises SourceError."""
    engine = Engine(
        detectors=configured(settings), topology=source.topology, intervals_seconds=source.intervals_seconds
    )
    side = Side(settings)
    identities = identities_from(source.topology, aliases_of(settings.identity), settings.identity.domains)
    state, found = None, [pl.DataFrame(schema=FINDING_COLUMNS)]
    for arrival in source.arrivals({}):
        if state is None or state.sources.is_empty():
            state = engine.start(earliest(arrival.batch))
        batch, _ = identified(arrival.batch, arrival.notes, identities, identities.aliases)
        step = engine.step(state, batch)
        state = step.state
        found.append(step.findings)
        side.hear(step.incidents, state.correlation.incidents, source.topology, state.now)
    side.close()
    return Rejudged(
        findings=pl.concat(found), incidents=side.incidents, actions=tuple(side.actions.values()),
        until=None if state is None else state.now,
    )  # fmt: skip


def _slim(incident: Incident) -> Incident:
    return incident if incident.state != "resolved" else Incident(**{**vars(incident), "evidence": ()})
