"""`make ui` from an empty folder: the UI opens by itself, runs go green, incidents appear, and Ctrl-C ends it all."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from pipelines.operations_store import OperationsStore

REPOSITORY = Path(__file__).parents[2]
BOUND_SECONDS = 240  # a bound on a hang, not a measurement: on two free cores it takes about ninety
RUNS = """{ runsOrError(filter: {pipelineName: "ingest_job"}) { ... on Runs { results {
  status tags { key value }
  assetMaterializations { assetKey { path } metadataEntries { label ... on IntMetadataEntry { intValue } } }
} } } }"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def green_runs(port):
    """Rows taken, by scheduled run that succeeded; nothing while the UI does not answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql", json.dumps({"query": RUNS}).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            runs = json.load(answer)["data"]["runsOrError"]["results"]
    except OSError:
        return []
    scheduled = [run for run in runs if any(tag["key"] == "dagster/schedule_name" for tag in run["tags"])]
    assert "FAILURE" not in {run["status"] for run in scheduled}, "a scheduled run failed"
    return [
        max((entry.get("intValue") or 0) for told in run["assetMaterializations"] for entry in told["metadataEntries"]
            if entry["label"] == "run_rows")
        for run in scheduled if run["status"] == "SUCCESS"
    ]  # fmt: skip


def group_of(leader):
    """Processes whose parents lead to `leader`, as /proc tells."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.parent.name)] = int(fields[1])
    found = {leader}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {leader}


@pytest.mark.ui
@pytest.mark.skipif(not Path("/proc").exists(), reason="counts processes in /proc")
def test_the_ui_shows_green_scheduled_runs_and_incidents_and_stops_when_asked(tmp_path):
    port = free_port()
    environment = os.environ | {
        "HOTSPARE_UI_PORT": str(port),
        "HOTSPARE_HOME": str(tmp_path),
        "PYTHONPATH": str(REPOSITORY),
    }
    environment.pop("DAGSTER_HOME", None)
    said = tmp_path / "said.txt"
    with said.open("wb") as output:
        ui = subprocess.Popen(
            [sys.executable, "-m", "pipelines.ui"], env=environment, stdout=output, stderr=output, cwd=REPOSITORY
        )
    try:
        deadline = time.monotonic() + BOUND_SECONDS
        rows = []
        while not rows and time.monotonic() < deadline and ui.poll() is None:
            time.sleep(2)
            rows = green_runs(port)
        assert rows, said.read_text()
        assert min(rows) > 0
        operations = OperationsStore.open(tmp_path / "var" / "ui" / "operations.sqlite", create=False)
        incidents = operations.incidents()
        operations.close()
        assert incidents
        assert not list((tmp_path / "var").glob("*.*")), "what is simulated is in the stores of what is real"
        assert "var/ui/telemetry.duckdb" in "".join(said.read_text().splitlines()[:2])
        assert f"http://localhost:{port}" in said.read_text()
        children = group_of(ui.pid)
        assert children
        ui.send_signal(signal.SIGINT)
        assert ui.wait(60) == 0
        assert [one for one in children if Path(f"/proc/{one}").exists() and not zombie(one)] == []
    finally:
        if ui.poll() is None:
            ui.terminate()
            ui.wait(60)


def zombie(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_port_that_is_taken_is_one_line_and_exit_2(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        environment = os.environ | {"HOTSPARE_UI_PORT": str(port), "HOTSPARE_HOME": str(tmp_path)}
        ended = subprocess.run(
            [sys.executable, "-m", "pipelines.ui"], env=environment, cwd=REPOSITORY, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert f"port {port}" in ended.stderr
