"""What most commands begin with: settings, stores, a source through the engine with its progress shown."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines.cli.output import console
from pipelines.operations_store import OperationsStore
from pipelines.settings import Settings, aliases_of, configured, load_settings
from pipelines.sources.contract import Source
from pipelines.stream import Responder, Stream, Tally
from pipelines.telemetry_store import TelemetryStore


def settings_at(path: str | None) -> Settings:
    return load_settings(None if path is None else Path(path))


def telemetry_store(settings: Settings) -> TelemetryStore:
    return TelemetryStore(settings.store.telemetry, settings.store.busy_seconds)


def operations_store(settings: Settings, *, create: bool = True) -> OperationsStore:
    """create: False where a store that is not there is an answer of its own: in the wrong folder nothing is wrong."""
    return OperationsStore.open(settings.store.operations, create=create)


def replayed(source: Source, settings: Settings, progress: Callable[[Tally], None] = lambda _: None) -> Tally:
    """Through the engine in memory: nothing is kept, nothing outside is touched."""
    memory = OperationsStore.open(":memory:")
    rehearsing = Responder(operations=memory, settings=settings.recovery.rehearsal(), executors={})
    return Stream(
        source=source, detectors=configured(settings), responder=rehearsing, aliases=aliases_of(settings.identity),
        domains=settings.identity.domains,
    ).run(progress)  # fmt: skip


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
