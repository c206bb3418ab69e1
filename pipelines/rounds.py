"""Findings become incidents, and incidents requests, in rounds of event time, whatever the cut of the rows: so a replay
asks for the same, at the same times, in windows of any length.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import polars as pl

from detectors.contract import FINDING_COLUMNS
from detectors.correlate import correlate
from detectors.correlation_state import Correlation
from pipelines.engine import Engine, EngineState
from pipelines.operations_holds import Holds
from pipelines.operations_jobs import Jobs
from pipelines.operations_store import OperationsStore
from pipelines.recovery.recover import recover
from pipelines.settings import Settings
from pipelines.sources.windows import EPOCH
from schemas.action import ActionRecord
from schemas.incident import Incident
from schemas.tables import TABLE_BY_NAME, empty

ROUND = timedelta(seconds=10)
"""About as soon after a finding as a live stream decides."""
AGAIN = timedelta(minutes=2)
"""So often recovery looks again where nothing has changed: what waits may be due, what was put off possible."""


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
    _correlation: Correlation = field(default_factory=Correlation)
    _findings: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=FINDING_COLUMNS))
    _jobs: pl.DataFrame = field(default_factory=lambda: empty(TABLE_BY_NAME["job_event"]))
    _windows: pl.DataFrame = field(default_factory=lambda: empty(TABLE_BY_NAME["maintenance"]))
    _at: datetime | None = None

    def hear(
        self, findings: pl.DataFrame, accepted: Mapping[str, pl.DataFrame], engine: Engine, state: EngineState
    ) -> None:
        """Findings and accepted rows of a step of the engine, and the state behind it."""
        self._findings = pl.concat([self._findings, findings])
        if "job_event" in accepted:
            self._jobs = pl.concat([self._jobs, accepted["job_event"]])
        if "maintenance" in accepted:
            self._windows = pl.concat([self._windows, accepted["maintenance"]])
        at = self._skipped(state.began if self._at is None else self._at, state.now)
        while (following := EPOCH + ((at - EPOCH) // ROUND + 1) * ROUND) <= state.now:
            at = following
            self._round(at, engine, state)
        self._at = at

    def end(self, engine: Engine, state: EngineState) -> None:
        """The source has ended at the state's watermark, and nothing more is known of it; another begins anew."""
        self._round(state.now, engine, state)
        self._correlation, self._at = Correlation(), None
        self._findings, self._jobs = self._findings.clear(), self._jobs.clear()
        self._windows = self._windows.clear()

    def close(self) -> None:
        self.memory.close()

    def _skipped(self, at: datetime, now: datetime) -> datetime:
        """Until a first word nothing is to be decided, however long that takes: one row of 1970 is no reason to go
        through fifty years.
        """
        if self.incidents or self._correlation.cases or self._correlation.held:
            return at
        said = (self._findings["time"], self._jobs["time"], _announced(self._windows))
        first = min([now, *(each for each in map(pl.Series.min, said) if isinstance(each, datetime))])
        return max(at, EPOCH + ((first - EPOCH) // ROUND) * ROUND)

    def _round(self, at: datetime, engine: Engine, state: EngineState) -> None:
        """What is known before `at`."""
        said, self._findings = _before(self._findings, self._findings["time"], at)
        told, self._jobs = _before(self._jobs, self._jobs["time"], at)
        if not told.is_empty():
            Jobs(self.memory).remember(told)
        planned, self._windows = _before(self._windows, _announced(self._windows), at)
        if not planned.is_empty():
            Holds(self.memory).announce(planned, engine.topology)
        context = engine.context(state, at, {})
        changed, self._correlation = correlate(said, self._correlation, context)
        if changed:
            self.incidents |= {one.id: _slim(one) if self.slim else one for one in changed}
            self.memory.upsert_incidents(changed, at=at)
        if changed or not (at - EPOCH) % AGAIN:
            rehearsing = self.settings.recovery.rehearsal()
            taken = recover(self._correlation.incidents, engine.topology, self.memory, rehearsing, {}, at)
            self.actions |= {record.request.id: record for record in taken}


def _before(rows: pl.DataFrame, times: pl.Series, at: datetime) -> tuple[pl.DataFrame, pl.DataFrame]:
    if rows.is_empty():
        return rows, rows
    passed = times < at
    return rows.filter(passed), rows.filter(~passed)


def _announced(windows: pl.DataFrame) -> pl.Series:
    """Since when each is known; where nobody says, since it began."""
    return windows.select(pl.coalesce("announced_at", "starts_at")).to_series()


def _slim(incident: Incident) -> Incident:
    return incident if incident.state != "resolved" else replace(incident, evidence=())
