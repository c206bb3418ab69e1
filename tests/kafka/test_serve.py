"""`hotspare serve` on a real broker: what one pass gives, whatever happens to broker, file and process meanwhile."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import httpx
import msgspec
import pytest

from detectors.catalog import CATALOG
from pipelines.operations_store import OperationsStore
from pipelines.serve.service import Service
from pipelines.settings import load_settings
from pipelines.sources.kafka import ALLOWED
from pipelines.sources.kafka_sink import send
from replay.scenario import Scenario
from replay.simulate import simulate, topology_of
from tests.kafka.broker import Broker
from tests.kafka.streaming import Place, contents, incidents, place, scenario, scenario_run, send_scenario

pytestmark = pytest.mark.kafka
TOPOLOGY = """
[topology]
preset = "ndr-fat-tree"
parameters = { pods = 2, superblocks_per_pod = 1, nodes_per_superblock = %d, nodes_per_leaf = %d, nodes_per_cdu = %d, nodes_per_pdu = %d }
"""  # noqa: E501  one line of TOML
PATIENCE_SECONDS = 240.0
NEVER = "1970-01-01T00:00:00Z"


def settings_of(there: Place, nodes: int) -> Path:
    path = there.write_settings()
    path.write_text(path.read_text() + TOPOLOGY % (nodes, nodes, nodes, nodes))
    return path


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


@contextmanager
def service(settings: Path) -> Iterator[Service]:
    """In this process; what it fails of is raised at the end."""
    chosen, stopping = load_settings(settings), threading.Event()
    operations = OperationsStore.open(chosen.store.operations)
    made = Service(chosen, operations, stopping)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            made.run()
        except BaseException as error:  # noqa: BLE001  raised below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield made
    finally:
        stopping.set()
        thread.join(PATIENCE_SECONDS)
        operations.close()
    if failures:
        raise failures[0]


def expected_of(chosen: Scenario, folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    scenario_run(chosen, folder, CATALOG)
    return contents(folder)


def compare(there: Place, expected: dict[str, list[tuple[Any, ...]]], scenario_folder: Path) -> None:
    found = contents(there.folder)
    for name, rows in expected.items():
        assert found[name] == rows, name
    assert incidents(there.folder) == incidents(scenario_folder)


def test_two_lanes_give_what_one_pass_gives(broker: Broker, tmp_path: Path) -> None:
    chosen = scenario()
    expected = expected_of(chosen, tmp_path / "scenario")
    there = place(broker, tmp_path / "serve", partitions=2)
    send_scenario(chosen, there.kafka, window_seconds=10)
    rows = sum(len(expected[name]) for name in chosen.tables)
    with service(settings_of(there, 4)) as serving:
        until(lambda: sum(serving.figures().tally.rows.values()) == rows and ended(serving, expected))
        figures = serving.figures()
    assert figures.ready
    assert {name: lane.lag for name, lane in figures.lanes.items()} == {"events": 0, "metrics": 0}
    compare(there, expected, tmp_path / "scenario")
    assert {cause for _, _, cause, *_ in expected["findings"]} >= {"coolant_pump_failure"}


def ended(serving: Service, expected: dict[str, list[tuple[Any, ...]]]) -> bool:
    return serving.figures().tally.findings == len(expected["findings"])


@contextmanager
def process(settings: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The command, and the address of its console."""
    command = [sys.executable, "-m", "pipelines.cli", "serve", "--json", "--port", "0", "--settings", str(settings)]
    log = settings.with_name("serve.log")
    log.write_text("")
    with log.open("a") as said, subprocess.Popen(command, stderr=said, stdout=subprocess.DEVNULL, text=True) as child:
        try:
            until(lambda: '"serving"' in log.read_text() or child.poll() is not None)
            lines = [msgspec.json.decode(line) for line in log.read_text().splitlines()]
            yield child, next(line["console"] for line in lines if line["event"] == "serving")
        finally:
            child.kill()


def asked(address: str) -> dict[str, Any]:
    answer: dict[str, Any] = msgspec.json.decode(httpx.get(f"{address}/api/incidents", timeout=10).content)["serve"]
    return answer


def test_broker_file_and_process_fail_in_turn_and_nothing_is_lost_or_repeated(
    own_broker: Broker, tmp_path: Path
) -> None:
    chosen = scenario("kafka_coolant")
    expected = expected_of(chosen, tmp_path / "scenario")
    there = place(own_broker, tmp_path / "serve", partitions=2, idle_seconds=6.0)
    last = last_watermark(tmp_path / "scenario")
    settings, parts = settings_of(there, 2), quarters(chosen, there)
    next(parts)
    with process(settings) as (child, address):
        until(lambda: asked(address)["rows"] > 0)
        until(lambda: asked(address)["unwritten_rows"] == 0)
        with duckdb.connect(str(there.folder / "telemetry.duckdb")):
            next(parts)
            until(lambda: asked(address)["held"] is not None)
        own_broker.restart()
        next(parts)
        until(lambda: asked(address)["ready"])
        child.kill()
    with process(settings) as (child, address):
        next(parts)
        until(lambda: datetime.fromisoformat(asked(address)["now"] or NEVER) == last)
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE_SECONDS) == 0
        last_words = msgspec.json.decode(settings.with_name("serve.log").read_text().splitlines()[-1])
    assert (last_words["event"], last_words["whole"]) == ("stopped", True)
    compare(there, expected, tmp_path / "scenario")


def quarters(chosen: Scenario, there: Place) -> Iterator[int]:
    """Sends a quarter of the scenario at each step."""
    topology = topology_of(chosen)
    for window in simulate(chosen, topology, window_seconds=20):
        yield send([window], topology, there.kafka, lambda *_: None)


def last_watermark(folder: Path) -> datetime:
    """The newest row, less the lateness that is allowed."""
    with duckdb.connect(str(folder / "telemetry.duckdb"), read_only=True) as connection:
        connection.execute("set timezone = 'UTC'")
        newest = connection.execute(
            "select max(time) from (from coolant_pump select time union all from coolant_loop select time)"
        ).fetchall()
    moment: datetime = newest[0][0]
    return moment - ALLOWED
