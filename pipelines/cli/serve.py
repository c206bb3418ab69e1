"""hotspare serve: the engine in a loop on Kafka, and the web console beside it."""

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Annotated

import structlog
import typer
import uvicorn

from pipelines.cli.output import FOUND_SOMETHING, SettingsFile, console
from pipelines.cli.session import operations_store, settings_at
from pipelines.lease import ingesting
from pipelines.operations_store import OperationsStore
from pipelines.settings import Settings
from pipelines.sources.choose import topology_of
from pipelines.sources.contract import SourceError
from pipelines.sources.kafka import KafkaSource
from pipelines.stream import Tally
from pipelines.web.console import Serving, console_app
from pipelines.workplace import Workplace

log = structlog.get_logger()
BACKOFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass
class Loop:
    """The streaming loop in its own thread; a broker that is away is tried again, with growing pauses."""

    settings: Settings
    operations: OperationsStore
    stopping: threading.Event = field(default_factory=threading.Event)
    tally: Tally = field(default_factory=Tally)
    trouble: str | None = "has not read anything yet"
    failure: BaseException | None = None

    def run(self) -> None:
        chosen, failures = self.settings, 0
        source = KafkaSource(
            settings=chosen.kafka, limits=chosen.limits, formats=dict(chosen.topics), topology=topology_of(chosen),
            following=lambda: not self.stopping.is_set(),
        )  # fmt: skip
        stream = Workplace(settings=chosen).stream(source, self.operations)
        try:
            while not self.stopping.is_set():
                try:
                    stream.run(self._seen)
                except SourceError as error:
                    self.trouble = str(error)
                    pause = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)]
                    log.warning("source_away", reason=str(error), again_in_seconds=pause)
                    failures += 1
                    self.stopping.wait(pause)
                else:
                    failures = 0
        except BaseException as error:  # noqa: BLE001  kept, and raised again where the command ends
            self.failure = error

    def _seen(self, tally: Tally) -> None:
        self.tally, self.trouble = tally, None


def serve(
    host: Annotated[str, typer.Option(help="Address of the web console.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8080,
    settings: SettingsFile = None,
) -> int:
    """Watch Kafka until stopped; the console is at http://HOST:PORT, with /healthz, /readyz and /metrics."""
    chosen = settings_at(settings)
    operations = operations_store(chosen)
    with ingesting(operations, "serve"):
        loop = Loop(chosen, operations)
        thread = threading.Thread(target=loop.run, name="stream")
        serving = Serving(tally=lambda: loop.tally, trouble=lambda: loop.trouble, alive=thread.is_alive)
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        config = uvicorn.Config(
            console_app(operations, serving), host=host, port=port, log_level="warning", lifespan="off"
        )
        server = uvicorn.Server(config)
        thread.start()
        watching = threading.Thread(target=_end_with, args=(thread, server), daemon=True)
        watching.start()
        console().print(f"hotspare: console at http://{host}:{port}, stop with Ctrl-C")
        try:
            server.run()
        finally:
            loop.stopping.set()
            thread.join(timeout=30)
    if loop.failure is not None:
        raise loop.failure
    return FOUND_SOMETHING if loop.trouble and not loop.tally.rows else 0


def _end_with(thread: threading.Thread, server: uvicorn.Server) -> None:
    """When the loop ends by a failure the console must not go on as if somebody watched."""
    thread.join()
    while not server.started:
        time.sleep(0.05)
    server.should_exit = True
