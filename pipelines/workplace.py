"""Settings, both stores and the shared loop, put together once for whoever takes telemetry in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pipelines import operations_database, telemetry_store
from pipelines.lease import Held, holder_of, ingesting
from pipelines.operations_store import OperationsStore
from pipelines.recovery.executors.choose import executors_from
from pipelines.settings import Settings, SettingsError, aliases_of, configured
from pipelines.sources.choose import source_for
from pipelines.sources.contract import Source, SourceError
from pipelines.stream import Responder, Stream, Tally
from pipelines.telemetry_schema import NewerStore
from pipelines.telemetry_store import TelemetryStore
from replay.recording import RecordingError
from replay.scenario import ScenarioError
from schemas.formats.decoded import Unreadable

# What a person can put right, each with one line that says how. Anything else is a bug and keeps its traceback.
REFUSALS = (
    SettingsError, SourceError, ScenarioError, RecordingError, Unreadable, NewerStore, Held,
    telemetry_store.StoreUnavailable, operations_database.StoreUnavailable,
)  # fmt: skip
SCHEDULED = "scheduled"


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """settings: as loaded. progress: told after every arrival how far a run is. clock: wall-clock time in UTC."""

    settings: Settings
    progress: Callable[[Tally], None] = lambda _: None
    clock: Callable[[], datetime] = utc_now

    @property
    def telemetry(self) -> TelemetryStore:
        return TelemetryStore(self.settings.store.telemetry, self.settings.store.busy_seconds)

    @contextmanager
    def operations(self) -> Iterator[OperationsStore]:
        store = OperationsStore.open(self.settings.store.operations)
        try:
            yield store
        finally:
            store.close()

    def ingested_by(self) -> str | None:
        """Who ingests just now, and keeps everybody else from it; None where nobody does, or the store is away."""
        try:
            store = OperationsStore.open(self.settings.store.operations, create=False)
        except operations_database.StoreUnavailable:
            return None
        try:
            return holder_of(store)
        finally:
            store.close()

    def source(self, spec: str) -> Source:
        """The source that `spec` names; "scheduled" is the one that the settings give to the schedule."""
        return source_for(self.settings.dagster.scheduled_source if spec == SCHEDULED else spec, self.settings)

    def stream(self, source: Source, operations: OperationsStore) -> Stream:
        """The shared loop over a source, into both stores. What is enforced goes to whom settings name."""
        return Stream(
            source=source, detectors=configured(self.settings), store=self.telemetry,
            responder=Responder(
                operations=operations, settings=self.settings.recovery,
                executors=executors_from(self.settings),
            ),
            buffered_rows_maximum=self.settings.limits.buffered_rows_maximum,
            aliases=aliases_of(self.settings.identity), domains=self.settings.identity.domains,
        )  # fmt: skip

    def ingest(self, source: Source, role: str) -> Tally:
        """One pass over the source, alone: raises Held while another process ingests."""
        with self.operations() as operations, ingesting(operations, role):
            return self.stream(source, operations).run(self.progress)
