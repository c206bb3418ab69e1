"""What `hotspare ingest` holds in memory, hour after hour of a large cluster.

Run: python -m tests.benchmarks.memory [--gpus 24576] [--hours 2] [--thinned 1]. A recording is made first (about 1.5 GB
an hour at full size) and then read into stores by a process of its own, which tells how large it is. thinned: every
table is sampled so many times less often, so that a day of all entities fits into a session. Prints a line for each
step to standard error, with the most that was held up to its end since the one before, and one JSON object; goal
(issue 6): at most 3 GiB, and no growth after the first hour.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.pacing import window_seconds
from pipelines.settings import Settings, stored_in
from pipelines.stream import Tally
from pipelines.workplace import Workplace
from replay.recording import meta_of, write_recording
from tests.benchmarks.cluster_load import Load, load_of
from tests.benchmarks.peak import begin_anew, peak_mebibytes


def thinned(load: Load, times: int) -> Load:
    intervals = {name: seconds * times for name, seconds in load.scenario.intervals.items()}
    return replace(load, scenario=replace(load.scenario, intervals=intervals))


def read(recording: Path, stores: Path) -> None:
    """Take the recording in; a line of JSON after every step."""

    def tell(tally: Tally) -> None:
        stands = {"hours": round(tally.stream_seconds / 3600, 3), "mebibytes": peak_mebibytes()}
        begin_anew()  # what is held between two steps is less than within one
        sys.stdout.write(json.dumps(stands) + "\n")
        sys.stdout.flush()

    place = Workplace(settings=stored_in(Settings(), stores), progress=tell)
    place.ingest(place.source(str(recording)), "ingest")


def steps_of(recording: Path, stores: Path) -> list[Mapping[str, Any]]:
    """What the process that reads it said."""
    command = [sys.executable, "-m", "tests.benchmarks.memory", "--read", str(recording), "--stores", str(stores)]
    said: list[Mapping[str, Any]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            said.append(json.loads(line))
            sys.stderr.write(f"{said[-1]['hours']:8.2f} h {said[-1]['mebibytes']:8} MiB\n")
    if child.returncode:
        raise RuntimeError(f"the process that reads the recording ended with {child.returncode}")
    return said


def measured(load: Load, folder: Path) -> dict[str, Any]:
    """Halves: of what comes after the first hour, or of a recording that is shorter."""
    recording = folder / "recording"
    rows = write_recording(
        recording,
        load.windows(window_seconds(None, load.topology)),
        load.topology,
        meta_of(load.scenario, load.topology),
    )
    began = time.monotonic()
    said = steps_of(recording, folder / "stores")
    took = time.monotonic() - began
    after = [one["mebibytes"] for one in said if one["hours"] > 1.0] or [one["mebibytes"] for one in said]
    half = len(after) // 2
    return {
        "gpus": load.gpus, "hours": load.seconds / 3600, "rows": sum(rows.values()), "steps": len(said),
        "times_real_time": round(load.seconds / took, 1), "peak_mebibytes": max(one["mebibytes"] for one in said),
        "peak_mebibytes_by_half": [max(after[:half] or after), max(after[half:])],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=24_576)
    parser.add_argument("--hours", type=float, default=2)
    parser.add_argument("--thinned", type=int, default=1)
    parser.add_argument("--folder", help="where the recording and the stores are made; by default a temporary folder")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--stores", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(Path(given.read), Path(given.stores))
        return
    load = thinned(load_of(given.gpus, int(given.hours * 3600), "usual"), given.thinned)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        sys.stdout.write(json.dumps({**measured(load, Path(folder)), "thinned": given.thinned}) + "\n")


if __name__ == "__main__":
    main()
