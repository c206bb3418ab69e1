"""The process that reports to Dagster. Dagster takes a second and 150 MB to import, which the loop must not pay for."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import structlog

from pipelines.serve.service import Figures

log = structlog.get_logger()
HOME_VARIABLE = "DAGSTER_HOME"
HOME = Path("var/dagster")  # where `make ui` keeps it
REPORT_SECONDS = 60.0
STOP_SECONDS = 1.0


class Report(msgspec.Struct, frozen=True):
    """What one report says: of the time since the last one. newest: event time up to which all is judged."""

    stream: str
    rows: dict[str, int]
    findings: int
    incidents: int
    quarantined: int
    late: int
    behind_seconds: float | None
    newest: float | None
    lag_messages: dict[str, int]


def dagster_home() -> Path | None:
    """Where a Dagster instance is, if there is one to report to."""
    home = Path(os.environ.get(HOME_VARIABLE, HOME))
    return home.absolute() if (home / "dagster.yaml").exists() else None


@contextmanager
def reporting(figures: Callable[[], Figures]) -> Iterator[None]:
    """Report every minute while inside, where there is a Dagster instance. A reporter that dies is said, no more."""
    home = dagster_home()
    if home is None:
        yield
        return
    environment = os.environ | {HOME_VARIABLE: str(home), "DAGSTER_DISABLE_TELEMETRY": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "pipelines.serve.dagster_reports"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, text=True, start_new_session=True)  # noqa: S603 our own module
    done = threading.Event()
    thread = threading.Thread(target=_report, args=(child, figures, done), name="dagster", daemon=True)
    thread.start()
    log.info("reporting_to_dagster", home=str(home))
    try:
        yield
    finally:
        done.set()
        thread.join(STOP_SECONDS)
        child.terminate()
        child.wait(STOP_SECONDS)


def _report(child: "subprocess.Popen[str]", figures: Callable[[], Figures], done: threading.Event) -> None:
    assert child.stdin is not None
    before: Figures | None = None
    while not done.wait(REPORT_SECONDS if before is not None else 5.0):
        stands = figures()
        if stands.tally.now is None:
            continue
        try:
            child.stdin.write(msgspec.json.encode(report(stands, before)).decode() + "\n")
            child.stdin.flush()
        except OSError:
            log.warning("dagster_reporter_ended", what="the Dagster UI is no longer told; serve goes on")
            return
        before = stands


def report(stands: Figures, before: Figures | None) -> Report:
    tally, earlier = stands.tally, None if before is None else before.tally
    known = {} if earlier is None else earlier.rows
    return Report(
        stream="kafka", rows={name: max(0, rows - known.get(name, 0)) for name, rows in tally.rows.items()},
        findings=tally.findings - (0 if earlier is None else earlier.findings), incidents=len(tally.incidents),
        quarantined=tally.quarantined - (0 if earlier is None else earlier.quarantined),
        late=tally.late - (0 if earlier is None else earlier.late), behind_seconds=stands.behind_seconds,
        newest=None if tally.now is None else tally.now.timestamp(),
        lag_messages={name: lane.lag for name, lane in stands.lanes.items()},
    )  # fmt: skip
