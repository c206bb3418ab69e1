"""The same rows judged again, in memory: every finding, incident and requested action, and nothing outside touched."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from detectors.contract import FINDING_COLUMNS, Detector
from pipelines.engine import Engine, EngineState, Step
from pipelines.intake import identified
from pipelines.rounds import Side
from pipelines.settings import Settings, aliases_of, configured
from pipelines.sources.contract import Arrival, Source
from pipelines.sources.gathered import ROWS_AT_ONCE, ahead, gathered
from pipelines.stream import earliest
from schemas.action import ActionRecord
from schemas.identity import identities_from
from schemas.incident import Incident

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


def rejudge(source: Source, settings: Settings, rows_at_once: int = ROWS_AT_ONCE) -> Rejudged:
    """Through engine and recovery, rehearsed. rows_at_once: of a step, which changes nothing. Raises SourceError."""
    side, found, last = Side(settings), [pl.DataFrame(schema=FINDING_COLUMNS)], None
    for engine, step, _ in steps(source, settings, configured(settings), rows_at_once):
        found.append(step.findings)
        side.hear(step.findings, step.accepted, engine, step.state)
        last = engine, step.state
    if last is not None:
        side.end(*last)
    side.close()
    return Rejudged(
        findings=pl.concat(found), incidents=side.incidents, actions=tuple(side.actions.values()),
        until=None if last is None else last[1].now,
    )  # fmt: skip


def steps(
    source: Source, settings: Settings, detectors: tuple[Detector, ...], rows_at_once: int = ROWS_AT_ONCE
) -> Iterator[tuple[Engine, Step, Arrival]]:
    """An engine with its steps over a source, without incidents: those are made in rounds (pipelines.rounds)."""
    engine = Engine(detectors=detectors, topology=source.topology, intervals_seconds=source.intervals_seconds)
    identities = identities_from(source.topology, aliases_of(settings.identity), settings.identity.domains)
    state: EngineState | None = None
    for arrival in ahead(gathered(source.arrivals({}), rows_at_once)):
        if state is None or state.sources.is_empty():  # nothing but refused messages has come so far
            state = engine.start(earliest(arrival.batch))
        batch, _ = identified(arrival.batch, arrival.notes, identities, identities.aliases)
        step = engine.judge(state, batch)
        state = step.state
        yield engine, step, arrival
