"""What most commands begin with: settings, stores, a source through the engine with its progress shown."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines.cli.output import console
from pipelines.operations_store import OperationsStore
from pipelines.rejudge import steps
from pipelines.rounds import Side
from pipelines.settings import Settings, configured, load_settings
from pipelines.sources.contract import Source
from pipelines.sources.gathered import ROWS_AT_ONCE
from pipelines.stream import Tally, added
from pipelines.telemetry_store import TelemetryStore


def settings_at(path: str | None) -> Settings:
    return load_settings(None if path is None else Path(path))


def telemetry_store(settings: Settings) -> TelemetryStore:
    return TelemetryStore(settings.store.telemetry, settings.store.busy_seconds)


def operations_store(settings: Settings, *, create: bool = True) -> OperationsStore:
    """create: False where a store that is not there is an answer of its own: in the wrong folder nothing is wrong."""
    return OperationsStore.open(settings.store.operations, create=create)


def replayed(
    source: Source,
    settings: Settings,
    progress: Callable[[Tally], None] = lambda _: None,
    *,
    rows_at_once: int = ROWS_AT_ONCE,
) -> Tally:
    """Through engine and recovery in memory: nothing is kept, nothing outside is touched. rows_at_once: as of
    pipelines.sources.gathered; 0 for a source that keeps its own time.
    """
    side, tally, last, started = Side(settings), Tally(), None, time.monotonic()
    for engine, step, arrival in steps(source, settings, configured(settings), rows_at_once):
        side.hear(step.findings, step.accepted, engine, step.state)
        counted = added(tally, step, arrival.ignored, (), time.monotonic() - started)
        tally = replace(counted, incidents=side.incidents, actions=tuple(side.actions.values()))
        last = engine, step.state
        progress(tally)
    if last is not None:
        side.end(*last)
        tally = replace(tally, incidents=side.incidents, actions=tuple(side.actions.values()))
    side.close()
    return tally


@contextmanager
def progress_bar(total_seconds: float | None = None, *, quiet: bool) -> Iterator[Callable[[Tally], None]]:
    """A bar that follows a tally, on a terminal; nothing elsewhere."""
    screen = console()
    if quiet or not screen.is_terminal:
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("reading", total=total_seconds)

        def show(tally: Tally) -> None:
            rows = sum(tally.rows.values())
            at = "" if tally.now is None else f"{tally.now:%H:%M:%S}  "
            bar.update(
                task, completed=tally.stream_seconds, description=f"{at}{rows:,} rows  {len(tally.incidents)} incidents"
            )

        yield show


def with_progress(source: Source, run: Callable[[Callable[[Tally], None]], Tally], *, quiet: bool) -> Tally:
    with progress_bar(source.span_seconds, quiet=quiet) as show:
        return run(show)
