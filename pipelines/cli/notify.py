"""hotspare notify: tell receivers what has changed; `serve` does it by itself."""

import threading
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Annotated

import structlog
import typer

from pipelines.cli.output import FOUND_SOMETHING, AsJson, SettingsFile, console, print_json
from pipelines.cli.session import operations_store, settings_at
from pipelines.notify.choose import receivers_from
from pipelines.notify.deliver import deliver
from pipelines.notify.receivers import ConsoleReceiver, Receiver
from pipelines.notify.settings import NotifySettings
from pipelines.operations_database import StoreUnavailable
from pipelines.operations_store import OperationsStore

log = structlog.get_logger()
ROUND_SECONDS = 1.0


def notify(
    show: Annotated[bool, typer.Option("--show", help="Print the pages here too.")] = False,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """One round: tell every receiver of the settings what it has not been told. Exit 1: one was not reached."""
    chosen = settings_at(settings)
    receivers = receivers_from(chosen) + ((ConsoleReceiver(),) if show else ())
    done = deliver(operations_store(chosen), receivers, chosen.notify, datetime.now(UTC))
    if as_json:
        print_json({"receivers": [one.name for one in receivers], "told": done.told, "troubles": list(done.troubles)})
    else:
        console().print(_summary(done.told, [one.name for one in receivers], chosen.notify))
        for trouble in done.troubles:
            console().print(trouble)
    return FOUND_SOMETHING if done.troubles else 0


def _summary(told: int, receivers: Sequence[str], settings: NotifySettings) -> str:
    if not receivers:
        return "No receiver: set notify.alertmanager, notify.webhook or notify.topic, or see pages here with --show"
    why = f": all is told, over, silenced, or was detected more than {settings.old_seconds:g} s ago"
    return f"{told} {'page' if told == 1 else 'pages'} told to {', '.join(receivers)}{'' if told else why}"


def keep_telling(
    operations: OperationsStore, receivers: Sequence[Receiver], settings: NotifySettings, stopping: threading.Event,
    lasting_now: Callable[[], Collection[str]],
) -> None:  # fmt: skip
    """Beside the loop, until stopped: a receiver or a store that is away is tried again. lasting_now: see `deliver`."""
    while receivers and not stopping.wait(ROUND_SECONDS):
        try:
            done = deliver(operations, receivers, settings, datetime.now(UTC), lasting_now())
        except StoreUnavailable as error:
            log.warning("notify_waits", reason=str(error))
            continue
        except Exception:  # a bug at one page must not be the end of all later ones
            log.exception("notify_failed")
            continue
        for trouble in done.troubles:
            log.warning("receiver_away", reason=trouble)
