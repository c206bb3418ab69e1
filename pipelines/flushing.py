"""What was judged goes into the file while what comes next is judged: one flush at a time, in order, in a thread.

A file that somebody holds never delays an alert: its steps wait for the next flush, up to a bound. Each flush is one
transaction with the state and offsets that belong to it, so a crash costs no more than reading again from the last one.
"""

from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

import polars as pl
import structlog

from pipelines.engine import EngineState, Step
from pipelines.source_notes import SourceNotes, together
from pipelines.sources.contract import Offsets
from pipelines.state_packs import Field
from pipelines.telemetry_state import same_fields
from pipelines.telemetry_store import StoreBusy, TelemetryStore

log = structlog.get_logger()
BESIDE_ROWS = 50_000  # fewer are written before the next step: whoever looks at the file after a step finds it there


@dataclass(frozen=True, kw_only=True)
class Unwritten:
    """What waits for a flush. offsets: up to which its steps read. aliases: those of a stream that begins, None once
    they are written. known: the state as it stands in the file, where that is known.
    """

    steps: tuple[Step, ...] = ()
    notes: SourceNotes = field(default_factory=SourceNotes)
    offsets: Offsets = field(default_factory=dict)
    aliases: pl.DataFrame | None = None
    known: EngineState | None = None

    @property
    def rows(self) -> int:
        return sum(frame.height for step in self.steps for frame in step.accepted.values())

    def then(self, later: "Unwritten") -> "Unwritten":
        """Both, as one flush. The states between are nobody's, and are let go of."""
        earlier = (replace(step, state=later.steps[-1].state) for step in self.steps) if later.steps else self.steps
        return replace(
            self, steps=(*earlier, *later.steps), notes=together([self.notes, later.notes]),
            offsets={**self.offsets, **later.offsets},
        )  # fmt: skip


@dataclass(frozen=True)
class _Flight:
    """A flush that is under way, and how many rows it holds: the rows themselves go when they are written. outcome:
    what is still unwritten and why, None when all went through.
    """

    outcome: "Future[tuple[Unwritten, StoreBusy] | None]"
    rows: int
    offsets: Offsets


@dataclass(kw_only=True)
class Flushing:
    """store: None keeps nothing. written: offsets up to which the file stands. held: who holds the file, None where the
    last flush went through. Used as a context, whose end waits for the flush that is under way.
    """

    store: TelemetryStore | None
    stream: str
    rows_maximum: int
    waiting: Unwritten
    written: Offsets
    held: str | None = None
    _flight: _Flight | None = None
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="flush"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True)

    @property
    def rows(self) -> int:
        """That are not in the file yet."""
        return self.waiting.rows + (0 if self._flight is None else self._flight.rows)

    def add(self, step: Step, notes: SourceNotes, offsets: Offsets) -> None:
        if self.store is not None:
            self.waiting = self.waiting.then(Unwritten(steps=(step,), notes=notes, offsets=offsets))

    def flush(self) -> None:
        """Begin to write what waits, unless a flush is under way; nobody waits here but for a buffer that is full, or
        for few rows. Raises StoreBusy when the buffer is full and the file stays held, StreamMoved, StoreUnavailable.
        """
        is_full = self.rows > self.rows_maximum
        if self._flight is None or self._flight.outcome.done() or is_full:
            self._land()
            self._begin(patient=is_full)

    def end(self) -> None:
        """Write all that is left. Raises as flush does, and StoreBusy whenever the file stays held."""
        self._land()
        self._begin(patient=True)

    def _begin(self, *, patient: bool) -> None:
        if self.store is None or not self.waiting.steps:
            return
        known, state = self.waiting.known, self.waiting.steps[-1].state
        # Compared here, so that the state before need not be kept while the flush is under way.
        same = frozenset() if known is None else same_fields(state, known)
        flying = replace(self.waiting, known=None)
        store = self.store if patient else replace(self.store, busy_seconds=0.0)
        outcome = self._thread.submit(_write, store, self.stream, flying, self.written, same)
        self._flight, self.waiting = _Flight(outcome, flying.rows, flying.offsets), Unwritten(known=state)
        if patient or flying.rows < BESIDE_ROWS:
            self._land(patient=patient)

    def _land(self, *, patient: bool = False) -> None:
        """Wait for the flush that is under way, if one is, and take note of how it went."""
        if self._flight is None:
            return
        flight, self._flight = self._flight, None
        failed = flight.outcome.result()
        if failed is None:
            self.held, self.written = None, {**self.written, **flight.offsets}
            return
        unwritten, busy = failed
        self.waiting = unwritten.then(self.waiting)
        if patient:
            raise busy
        if self.held is None:
            log.warning("store_busy", reason=str(busy), what="rows wait in memory until the file is free")
        self.held = str(busy)


def _write(
    store: TelemetryStore, stream: str, flying: Unwritten, since: Offsets, same: AbstractSet[Field]
) -> tuple[Unwritten, StoreBusy] | None:
    try:
        store.flush(
            stream, flying.steps, flying.offsets, since=since, notes=flying.notes, aliases=flying.aliases,
            same=same,
        )  # fmt: skip
    except StoreBusy as busy:
        return flying, busy
    return None
