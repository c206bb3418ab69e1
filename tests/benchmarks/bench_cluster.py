"""What hotspare costs on a generated cluster, as ratios to cluster time and to the limits of this machine.

Run: make bench (24,576 GPUs), or python -m tests.benchmarks.bench_cluster --quick (1,024 GPUs, half a minute; exits 1
where a ratio that does not depend on the machine is missed). Prints a table to standard error and one JSON object. Each
part runs in a process of its own, whose peak of memory is named with it; what is generated for it is part of that.
"""

import argparse
import json
import logging
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import structlog
from rich.console import Console
from rich.table import Table

from pipelines import pacing
from tests.benchmarks.broker_drain import drain_seconds
from tests.benchmarks.cluster_load import Load, Profile, load_of
from tests.benchmarks.peak import peak_mebibytes
from tests.benchmarks.stages import (
    bytes_per_sample,
    from_messages,
    insert_alone,
    replay,
    told_ahead_milliseconds,
)

FULL_GPUS, QUICK_GPUS = 24_576, 1_024
GROWTH_SECONDS = 120  # the second half counts
# Ratios between things measured in one run. Each leaves room for noise: it finds a regression, not a percent.
QUICK_LIMITS = {"judged_to_drain_and_insert": 8.0, "growth_exponent": 1.15, "sealed_bytes_per_sample": 2.5}


def apart(work: Callable[..., Any], *given: object) -> tuple[Any, int]:
    """What it returns, run in a process of its own, and the most memory in mebibytes that this one held."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = pool.submit(work, *given).result()
        return found, pool.submit(peak_mebibytes).result()


def replayed(gpus: int, seconds: int, profile: Profile, folder: Path) -> dict[str, Any]:
    """In windows as long as `hotspare ingest` takes, but a minute at the most. The first half warms up."""
    quiet()
    folder.mkdir()
    load = load_of(gpus, seconds, profile)
    return replay(load, folder, min(60, pacing.window_seconds(None, load.topology)), seconds // 2).document()


def growth(gpus: list[int], folder: Path) -> dict[str, object]:
    """Processor seconds and peak of a replay at several sizes, and the exponents of the power laws through them."""
    points = []
    for size in gpus:
        found, peak = apart(replayed, size, GROWTH_SECONDS, "usual", folder / f"{size}")
        points.append((size, found["cpu_seconds_total"], peak))
    sizes = [size for size, _, _ in points]
    return {
        "points": [[size, round(seconds, 3), peak] for size, seconds, peak in points],
        "exponent": exponent(sizes, [seconds for _, seconds, _ in points]),
        "exponent_of_memory": exponent(sizes, [peak for _, _, peak in points]),
    }  # fmt: skip


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    xs, ys = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
    return round(slope, 3)


def judged(load: Load, folder: Path, each: Literal["source", "row"]) -> dict[str, Any]:
    quiet()
    return from_messages(load, folder, load.seconds // 2, each).document()


def with_limits(load: Load, folder: Path) -> dict[str, object]:
    """From messages on, and beside it what draining and inserting alone cost for the same bytes."""
    folder.mkdir()
    window_seconds = load.seconds // 2
    by_source, source_peak = apart(judged, load, folder, "source")
    by_row, row_peak = apart(judged, load, folder, "row")
    insert = insert_alone(load, folder, window_seconds)
    drain = drain_seconds(load, folder, window_seconds)
    limit = insert.total + (drain or 0.0)
    return {
        "messages_per_source": {**by_source, "peak_megabytes": source_peak},
        "messages_per_row": {**by_row, "peak_megabytes": row_peak},
        "insert_alone_cpu_seconds": round(insert.total, 3),
        "drain_alone_cpu_seconds": None if drain is None else round(drain, 3),
        "judged_to_drain_and_insert": round((by_source["cpu_seconds_total"] + (drain or 0.0)) / limit, 2),
        "bytes_per_sample": bytes_per_sample(load, folder, window_seconds),
    }  # fmt: skip


def told_ahead(gpus: int, folder: Path) -> list[float]:
    quiet()
    return told_ahead_milliseconds(load_of(gpus, 60, "high"), folder, 40)


def quantile(ordered: list[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)


def run(*, quick: bool) -> dict[str, object]:
    gpus = QUICK_GPUS if quick else FULL_GPUS
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        document: dict[str, object] = {
            "gpus": gpus,
            "usual": of_profile(gpus, 240, "usual", folder / "usual"),
            "high": of_profile(gpus, 120, "high", folder / "high"),
            "kafka": with_limits(load_of(gpus, 40 if quick else 60, "usual"), folder / "kafka"),
        }
        (folder / "growth").mkdir()
        sizes = [256, 1_024, 2_048] if quick else [1_024, 6_144, 24_576, 98_304]
        document["growth"] = growth(sizes, folder / "growth")
        told, _ = apart(told_ahead, gpus, folder)
        document["told_ahead_milliseconds"] = {"p50": quantile(told, 0.5), "p99": quantile(told, 0.99)}
    return document


def of_profile(gpus: int, seconds: int, profile: Profile, folder: Path) -> dict[str, object]:
    found, peak = apart(replayed, gpus, seconds, profile, folder)
    return {"replay": {**found, "peak_megabytes": peak}}


def shown(document: dict[str, object]) -> Table:
    table = Table("work", "x real time, one core", "CPU s per million samples", "peak MB", "CPU seconds by stage")
    for name, part in _parts(document):
        by_stage = ", ".join(f"{stage} {seconds}" for stage, seconds in part["cpu_seconds"].items())
        speed, cost = part["times_real_time_per_core"], part["cpu_seconds_per_million_samples"]
        table.add_row(name, f"{speed}", f"{cost}", f"{part['peak_megabytes']}", by_stage)
    return table


def _parts(document: dict[str, object]) -> list[tuple[str, dict]]:  # type: ignore[type-arg]  plain JSON
    return [
        (f"{group}: {name}", part)
        for group in ("usual", "high", "kafka")
        for name, part in document[group].items()  # type: ignore[attr-defined]  plain JSON
        if isinstance(part, dict) and "cpu_seconds" in part
    ]


def missed(document: dict) -> list[str]:  # type: ignore[type-arg]  plain JSON
    """What breaks QUICK_LIMITS, in words."""
    values = {
        "judged_to_drain_and_insert": document["kafka"]["judged_to_drain_and_insert"],
        "growth_exponent": document["growth"]["exponent"],
        "sealed_bytes_per_sample": document["kafka"]["bytes_per_sample"]["sealed"],
    }
    return [f"{name} is {values[name]}, limit {limit}" for name, limit in QUICK_LIMITS.items() if values[name] > limit]


def quiet() -> None:
    """Only warnings: a new process begins without what was set in another."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    began = time.monotonic()
    quiet()
    document = run(quick=quick)
    screen = Console(stderr=True, width=150)
    screen.print(shown(document))
    screen.print(f"{document['gpus']} GPUs, {time.monotonic() - began:.0f} s")
    sys.stdout.write(json.dumps(document) + "\n")
    broken = missed(document) if quick else []
    for line in broken:
        screen.print(f"missed: {line}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
