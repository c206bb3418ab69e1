"""The same rows judged again, in memory: every finding, incident and requested action, and nothing outside touched."""

from dataclasses import dataclass
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

# What makes two findings the same one; evidence and scores may differ in their last digits.
COMPARED = ("time", "detector", "cause", "kind", "entity", "active", "code", "severity")


@dataclass(frozen=True, kw_only=True)
class Rejudged:
    """What a source gives with these settings. until: the watermark at its end."""

    findings: pl.DataFrame
    incidents: dict[str, Incident]
    actions: tuple[ActionRecord, ...]
    until: datetime | None


def rejudge(source: Source, settings: Settings) -> Rejudged:
    """Through engine and recovery, rehearsed. Raises SourceError."""
    engine = Engine(
        detectors=configured(settings), topology=source.topology, intervals_seconds=source.intervals_seconds
    )
    memory = OperationsStore.open(":memory:")
    identities = identities_from(source.topology, aliases_of(settings.identity), settings.identity.domains)
    rehearsal = settings.recovery.rehearsal()
    state, found = None, [pl.DataFrame(schema=FINDING_COLUMNS)]
    incidents: dict[str, Incident] = {}
    actions: dict[str, ActionRecord] = {}
    for arrival in source.arrivals({}):
        if state is None or state.sources.is_empty():
            state = engine.start(earliest(arrival.batch))
        batch, _ = identified(arrival.batch, arrival.notes, identities, identities.aliases)
        step = engine.step(state, batch)
        state = step.state
        found.append(step.findings)
        incidents |= {one.id: one for one in step.incidents}
        memory.upsert_incidents([*step.incidents, *state.correlation.incidents], at=state.now)
        taken = recover(state.correlation.incidents, source.topology, memory, rehearsal, {}, state.now)
        actions |= {record.request.id: record for record in taken}
    until = None if state is None else state.now
    return Rejudged(findings=pl.concat(found), incidents=incidents, actions=tuple(actions.values()), until=until)
