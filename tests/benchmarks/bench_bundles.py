"""What a bundle costs: export from a store of a full day of 24,576 GPUs, replay of an hour of 1,024 GPUs, its report.

Run: python -m tests.benchmarks.bench_bundles [--pods 24] [--folder FOLDER]; minutes, and 5 GB of disk. Each part runs
in a process of its own. Prints one JSON object: seconds by the clock and of the processor, and peak memory, each
beside its limit on two cores. A folder that is there already is measured as it is.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pipelines.bundles.bundle import decode, encode
from pipelines.bundles.export import export
from pipelines.bundles.source import bundle_source
from pipelines.operations_store import OperationsStore
from pipelines.pacing import window_seconds
from pipelines.postmortem.report import html, markdown
from pipelines.rejudge import rejudge
from pipelines.settings import Settings, stored_in
from pipelines.telemetry_store import TelemetryStore
from tests.benchmarks import day_store
from tests.benchmarks.peak import peak_mebibytes

LIMITS_SECONDS = {"export": 5.0, "replay": 30.0, "report": 5.0}
BYTES_MAXIMUM = 2**30


def exported(folder: Path) -> dict[str, object]:
    settings = stored_in(Settings(), folder)
    operations = OperationsStore.open(settings.store.operations)
    (incident,) = operations.incidents()
    store = TelemetryStore(settings.store.telemetry)
    bundle = export(incident, settings, store, operations, datetime.now(UTC))
    data = encode(bundle)
    (folder / "incident.hotspare").write_bytes(data)
    rows = {name: frame.height for name, frame in bundle.tables.items() if frame.height}
    gpus = bundle.topology.nodes.height * bundle.topology.gpus_per_node
    return {"gpus": gpus, "bytes": len(data), "rows": sum(rows.values()), "rows_by_table": rows}


def replayed(folder: Path) -> dict[str, object]:
    bundle = decode(folder / "incident.hotspare", BYTES_MAXIMUM)
    again = rejudge(bundle_source(bundle, seconds=window_seconds(None)), Settings())
    found = next(one for one in again.incidents.values() if one.roots == bundle.incident.roots)
    judged = replace(
        bundle, incidents=tuple(again.incidents.values()), actions=again.actions, findings=again.findings,
        manifest=replace(bundle.manifest, incident=found.id),
    )  # fmt: skip
    (folder / "judged.hotspare").write_bytes(encode(judged))
    seconds = (bundle.manifest.ends_at - bundle.manifest.starts_at).total_seconds()
    return {"cluster_seconds": seconds, "findings": again.findings.height, "incidents": len(again.incidents)}


def reported(folder: Path) -> dict[str, object]:
    bundle = decode(folder / "judged.hotspare", BYTES_MAXIMUM)
    page, text = html(bundle, 2.0), markdown(bundle, 2.0)
    return {"html_bytes": len(page.encode()), "markdown_bytes": len(text.encode())}


PARTS: dict[str, Callable[[Path], dict[str, object]]] = {"export": exported, "replay": replayed, "report": reported}


def measured(part: str, folder: Path) -> dict[str, object]:
    """In this process, which does nothing else."""
    wall, processor, thread = time.monotonic(), time.process_time(), time.thread_time()
    found = PARTS[part](folder)
    return {
        "wall_seconds": round(time.monotonic() - wall, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
        "main_thread_seconds": round(time.thread_time() - thread, 2),
        "peak_megabytes": peak_mebibytes(),
        "limit_wall_seconds": LIMITS_SECONDS[part], **found,
    }  # fmt: skip


def run(folder: Path, pods: int) -> dict[str, object]:
    document: dict[str, object] = {"gpus_in_the_store": pods * day_store.GPUS_PER_POD}
    if not (folder / "telemetry.duckdb").exists():
        folder.mkdir(parents=True, exist_ok=True)
        day = day_store.make(folder, pods)
        document |= {"rows": day.rows, "rows_of_the_hour": day.rows_of_the_hour, "bytes": day.bytes}
    for part in PARTS:
        command = [sys.executable, "-m", "tests.benchmarks.bench_bundles", "--part", part, "--folder", str(folder)]
        document[part] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=24, help="of 1,024 GPUs each")
    parser.add_argument("--folder", type=Path, help="where the store is made and kept")
    parser.add_argument("--part", choices=list(PARTS), help="this one alone, in this process")
    chosen = parser.parse_args()
    if chosen.part is not None:
        document = measured(chosen.part, chosen.folder)
    elif chosen.folder is not None:
        document = run(chosen.folder, chosen.pods)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            document = run(Path(scratch), chosen.pods)
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
