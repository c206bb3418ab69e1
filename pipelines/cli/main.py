"""The command line. Errors are one line, and exit codes follow the one rule of EXITS."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, cast

import structlog
import typer

from pipelines import operations_records
from pipelines.cli.backtest import run_backtest
from pipelines.cli.bundles import export_incident
from pipelines.cli.cable import cable
from pipelines.cli.capacity import checkpoints, failures, spares
from pipelines.cli.demo import demo
from pipelines.cli.detect import detect
from pipelines.cli.doctor import doctor
from pipelines.cli.events import events
from pipelines.cli.holds import holds
from pipelines.cli.incidents import actions, breaker, incidents
from pipelines.cli.ingest import ingest
from pipelines.cli.notify import notify
from pipelines.cli.output import WRONG_USE, Refused
from pipelines.cli.postmortem import postmortem
from pipelines.cli.quarantine import quarantine
from pipelines.cli.replay import replay
from pipelines.cli.schema import schema
from pipelines.cli.score import score
from pipelines.cli.serve import serve
from pipelines.cli.silences import silences
from pipelines.cli.simulate import run_simulation
from pipelines.cli.topology import topology
from pipelines.wording import printable
from pipelines.workplace import REFUSALS

# typer shows no public name for it, only for its subclass
UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
EXPECTED = (Refused, operations_records.NotFound, *REFUSALS)

EXITS = (
    "Exit codes. 0: done; commands that move or list data (ingest, simulate, demo, incidents list) say no more. "
    "1: done, and what was judged needs a person (replay, backtest, score, cable accept, topology check, doctor, "
    "detect, spares, notify). "
    "2: wrong use, or refused, with one line that says why."
)
app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="hotspare watches very large GPU training clusters and drives their recovery.", epilog=EXITS,
)  # fmt: skip
app.command("demo")(demo)
app.command("ingest")(ingest)
app.command("serve")(serve)
app.command("replay")(replay)
app.command("backtest")(run_backtest)
app.command("postmortem")(postmortem)
app.command("score")(score)
app.command("detect")(detect)
incidents.command("export")(export_incident)
app.add_typer(incidents, name="incidents")
app.add_typer(events, name="events")
app.add_typer(silences, name="silences")
app.add_typer(actions, name="actions")
app.add_typer(breaker, name="breaker")
app.add_typer(holds, name="holds")
app.command("notify")(notify)
app.command("spares")(spares)
app.command("checkpoints")(checkpoints)
app.command("failures")(failures)
app.add_typer(cable, name="cable")
app.add_typer(topology, name="topology")
app.command("simulate")(run_simulation)
app.command("doctor")(doctor)
app.command("quarantine")(quarantine)
app.command("schema")(schema)


def main() -> None:
    """Run, and end with the exit code. What we expect to go wrong is one line; anything else is a bug and shows."""
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.add_log_level,
            _as_text,
            structlog.dev.ConsoleRenderer(colors=False),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.getLogger("kafka").setLevel(
        logging.CRITICAL
    )  # it repeats itself many times a second while a broker is away
    try:
        code = app(standalone_mode=False)
    except EXPECTED as error:
        code = _refuse(str(error))
    except typer.Exit as end:
        code = end.exit_code
    except UsageError as error:
        code = _misused(error.format_message(), "hotspare" if error.ctx is None else error.ctx.command_path)
    except (typer.Abort, KeyboardInterrupt):
        code = _refuse("stopped")
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has seen enough
        code = 0
    except OSError as error:  # a path that cannot be read or written; it names itself
        code = _refuse(f"{error.filename or ''}: {error.strerror or error}".removeprefix(": "))
    sys.exit(code if isinstance(code, int) else 0)


def _as_text(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What others have named or answered is no command to the terminal that shows the log."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _misused(message: str, command: str) -> int:
    """command: whose help says more. Without any argument the message is the help itself."""
    if message.startswith("Usage:"):
        sys.stderr.write(message + "\n")
        return WRONG_USE
    return _refuse(f"{message.rstrip('.')} (see {command} --help)")


def _refuse(line: str) -> int:
    sys.stderr.write(f"hotspare: {printable(line)}\n")
    return WRONG_USE
