"""hotspare serve: the engine in a loop on Kafka, and the web console beside it."""

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import structlog
import typer

from pipelines.cli.notify import keep_telling
from pipelines.cli.output import Refused, SettingsFile, console
from pipelines.cli.session import operations_store, settings_at, telemetry_store
from pipelines.lease import ingesting
from pipelines.notify.choose import receivers_from
from pipelines.serve.dagster_child import reporting
from pipelines.serve.service import Service

log = structlog.get_logger()
STOP_SECONDS = 4.5
CONSOLE_STOP_SECONDS = 1


def serve(
    host: Annotated[str, typer.Option(help="Address of the web console.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes one that is free.")] = 8080,
    settings: SettingsFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Log one JSON object a line.")] = False,
) -> int:
    """Watch Kafka until stopped; the console is at http://HOST:PORT, with /healthz, /readyz and /metrics."""
    import uvicorn  # noqa: PLC0415  # costs every command a fifth of a second, and few need it

    from pipelines.web.console import console_app  # noqa: PLC0415  # costs every command a fifth of a second, and few need it
    from pipelines.web.events import event_routes  # noqa: PLC0415  # as the console

    chosen = settings_at(settings)
    if as_json:
        _log_json()
    receivers = receivers_from(chosen)
    listening = _listening(host, port)
    operations = operations_store(chosen)
    with ingesting(operations, "serve"), _until_stopped() as stopping:
        service = Service(chosen, operations, stopping)
        worker = _Worker(service)
        server = uvicorn.Server(
            uvicorn.Config(
                console_app(operations, service.figures, event_routes(chosen.web, telemetry_store(chosen))),
                log_config=None, lifespan="off",
                timeout_graceful_shutdown=CONSOLE_STOP_SECONDS,
            )
        )  # fmt: skip
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        web = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="console", daemon=True)
        web.start()
        worker.thread.start()
        at = listening.getsockname()[1]
        if as_json:
            log.info("serving", console=f"http://{host}:{at}", process=os.getpid())
        else:
            console().print(f"hotspare: console at http://{host}:{at}, stop with Ctrl-C")
        told = (operations, receivers, chosen.notify, stopping, service.lasting_now)
        threading.Thread(target=keep_telling, args=told, name="notify", daemon=True).start()
        with reporting(service.figures):
            stopping.wait()
        asked = time.monotonic()
        worker.thread.join(STOP_SECONDS)
        server.should_exit = True
        web.join(max(0.1, STOP_SECONDS - (time.monotonic() - asked)))
        log.info("stopped", in_seconds=round(time.monotonic() - asked, 2), whole=not worker.thread.is_alive())
    if worker.failure is not None:
        raise worker.failure
    return 0


@dataclass
class _Worker:
    """The service in its own thread; when it fails everything stops, so that nobody believes that somebody watches."""

    service: Service
    failure: BaseException | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def _run(self) -> None:
        try:
            self.service.run()
        except BaseException as error:  # noqa: BLE001  kept, and raised again where the command ends
            self.failure = error
        finally:
            self.service.stopping.set()


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; a second one ends the process the hard way, which loses nothing either."""
    stopping = threading.Event()

    def stop(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        raise Refused(f"console at {host}:{port}: {error.strerror}; choose another with --host or --port") from None
    return listening


def _log_json() -> None:
    """One JSON object a line on standard error, as a log collector wants it."""
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso"), structlog.processors.add_log_level,
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )  # fmt: skip
