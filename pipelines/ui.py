"""What `make ui` runs: the Dagster UI and its daemon, with everything they keep under var/dagster, until Ctrl-C.

A simulated stream has stores of its own below var/ui; another source has those of the settings.
HOTSPARE_UI_PORT: another port than 3000. HOTSPARE_HOME: another folder for hotspare.toml and var/ than this one.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

from pipelines.settings import STORE_FOLDER_VARIABLE, Settings, configured, load_settings, stored_in
from pipelines.sources.live_simulation import SINCE_VARIABLE, SPEC
from pipelines.workplace import REFUSALS, Workplace

PORT = 3000
STORES = "var/ui"
# So much has already happened when the UI opens, so that the first run has something to show.
HEAD_START = timedelta(seconds=150)
# A stream that ended longer ago is not caught up with: another one begins.
RESUMED = timedelta(minutes=15)
STARTS_WITHIN_SECONDS = 300
# A run is marked as failed when its process has not begun by then; Dagster's 60 s are few on a busy machine.
PATIENCE_SECONDS = "300"
STOPS_WITHIN_SECONDS = 20
DAGSTER_YAML = """\
# Written by `make ui` at every start. Nothing leaves this machine.
telemetry:
  enabled: false
concurrency:
  pools:
    default_limit: 1
    granularity: run
  runs:
    max_concurrent_runs: 3
schedules:
  use_threads: true
  num_workers: 2
sensors:
  use_threads: true
  num_workers: 3
retention:
  schedule:
    purge_after_days: {skipped: 1, success: 7, failure: 30, started: 1}
  sensor:
    purge_after_days: {skipped: 1, success: 7, failure: 30, started: 1}
"""


class Unusable(RuntimeError):
    """The UI cannot be started: one line that says what to do."""


def main() -> int:
    """Exit 0 after Ctrl-C, 2 when it could not be started, 1 when Dagster ended by itself."""
    try:
        return _run()
    except (Unusable, *REFUSALS) as refusal:
        sys.stderr.write(f"hotspare: {refusal}\n")
        return 2


def _run() -> int:
    os.chdir(os.environ.get("HOTSPARE_HOME", "."))
    port = _port(os.environ.get("HOTSPARE_UI_PORT", str(PORT)))
    workplace = Workplace(settings=_settings())
    home = Path("var/dagster").absolute()
    home.mkdir(parents=True, exist_ok=True)
    workplace.settings.dagster.drop_folder.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text(DAGSTER_YAML, "utf-8")
    (home / ".nux").mkdir(exist_ok=True)
    (home / ".nux" / "nux.yaml").write_text("seen: 1\n", "utf-8")  # or the first page asks for an e-mail address
    environment = {"DAGSTER_GRPC_TIMEOUT_SECONDS": PATIENCE_SECONDS} | os.environ | {
        "DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "1", "PYTHONWARNINGS": "ignore",
        SINCE_VARIABLE: simulated_since(workplace).isoformat(),
        STORE_FOLDER_VARIABLE: str(workplace.settings.store.telemetry.parent) if _simulated(workplace.settings) else "",
    }  # fmt: skip
    sys.stdout.write(
        f"hotspare: starting the Dagster UI on http://localhost:{port}, please wait\n{_stores(workplace.settings)}"
    )
    sys.stdout.flush()
    if (home / "history").exists():
        _end_leftover_runs(environment)
    return _serve(port, environment, workplace)


def _settings() -> Settings:
    """What is simulated must not get into the stores of what is real: it has some of its own."""
    settings = load_settings()
    if not _simulated(settings):
        return settings
    folder = Path(os.environ.get(STORE_FOLDER_VARIABLE) or STORES)
    apart = stored_in(settings, folder)
    folder.mkdir(parents=True, exist_ok=True)
    kept = apart.store
    places = (("telemetry", kept.telemetry), ("operations", kept.operations), ("actions", kept.actions))
    lines = [f"{name} = {json.dumps(str(place))}" for name, place in places]  # JSON strings are TOML strings
    (folder / "hotspare.toml").write_text("\n".join(["[store]", *lines, ""]), "utf-8")
    return apart


def _simulated(settings: Settings) -> bool:
    return settings.dagster.scheduled_source.partition("@")[0] == SPEC


def _stores(settings: Settings) -> str:
    """Where everything is kept, and how to see it from the command line."""
    store = settings.store
    if not _simulated(settings):
        return f"hotspare: stores {store.telemetry} and {store.operations}, those of the settings\n"
    return (
        f"hotspare: a simulated stream with stores of its own, {store.telemetry} and {store.operations}; "
        f"see them with: hotspare incidents list --settings {store.telemetry.parent / 'hotspare.toml'}\n"
    )


def _port(text: str) -> int:
    """The port if it is one, and free."""
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise Unusable(f"HOTSPARE_UI_PORT={text}: a port is a number from 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(text)))
        except OSError as error:
            raise Unusable(f"port {text}: {error.strerror}; set HOTSPARE_UI_PORT to another one") from None
    return int(text)


def simulated_since(workplace: Workplace) -> datetime:
    """When the simulated cluster was switched on: goes on where a recent one was left, else begins shortly ago.

    A simulated stream that is not gone on with is over, and so are its incidents.
    """
    now, known = workplace.clock(), workplace.telemetry.streams()
    simulated = {name: at for name, at in known.items() if name.startswith(f"{SPEC}@")}
    for name, at in simulated.items():
        if now - at <= RESUMED:
            return datetime.fromisoformat(name.partition("@")[2]).astimezone(UTC)
    for name in simulated:
        _close(workplace, name)
    return (now - HEAD_START).replace(microsecond=0)


def _close(workplace: Workplace, stream: str) -> None:
    state = workplace.telemetry.state(stream, configured(workplace.settings))
    if state is not None:
        still_open = [one for one in state.correlation.incidents if one.state != "resolved"]
        with workplace.operations() as operations:
            operations.upsert_incidents(
                [replace(one, state="resolved", ends_at=one.ends_at or state.now) for one in still_open], at=state.now
            )
    workplace.telemetry.forget(stream)


def _end_leftover_runs(environment: Mapping[str, str]) -> None:
    """Runs that a killed UI left behind would hold the pool for ever."""
    subprocess.run([sys.executable, "-m", "pipelines.leftover_runs"], env=dict(environment), check=True)


def _serve(port: int, environment: Mapping[str, str], workplace: Workplace) -> int:
    """Dagster in a process group of its own; a signal to us is passed on once, and nothing of the group survives us."""
    command = [
        sys.executable, "-m", "dagster", "dev", "--module-name", "pipelines.definitions", "--host", "127.0.0.1",
        "--port", str(port), "--log-level", "error", "--code-server-log-level", "error",
    ]  # fmt: skip

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    # Set before the child begins, so that neither of us inherits a shell's wish that Ctrl-C be ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    child = subprocess.Popen(command, env=dict(environment), start_new_session=True)  # noqa: S603  our own words
    try:
        _wait_until_open(port, child)
        sys.stdout.write(_greeting(port, workplace))
        sys.stdout.flush()
        return 1 if child.wait() else 0
    except KeyboardInterrupt:
        sys.stdout.write("\nhotspare: stopping\n")
        return 0
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _stop(child)


def _wait_until_open(port: int, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise Unusable("Dagster ended while it was starting; what it said is above")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=5):
                return
        except OSError:
            time.sleep(0.25)
    raise Unusable(f"Dagster did not answer on port {port} within {STARTS_WITHIN_SECONDS} s")


def _greeting(port: int, workplace: Workplace) -> str:
    store = workplace.settings.store
    return (
        f"hotspare: http://localhost:{port} is open\n"
        f"  assets   http://localhost:{port}/asset-groups\n"
        f"  runs     http://localhost:{port}/runs (the first one at the next full minute)\n"
        f"  source   {workplace.settings.dagster.scheduled_source}, every minute\n"
        f"  stores   {store.telemetry} and {store.operations}\n"
        f"  drop     recordings and files put into {workplace.settings.dagster.drop_folder} are ingested\n"
        "  stop     Ctrl-C\n"
    )


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Ask, wait, then make sure: the whole group goes."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STOPS_WITHIN_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
