"""Where the steps of the engine spend their processor seconds: each detector, and the engine around them.

Run: python -m tests.benchmarks.bench_engine [--gpus 24576] [--seconds 60] [--step 1] [--profile usual|high]
[--idle] [--apart]
The first `seconds` warm up, as every entity is new in them; the next are judged in steps of `step` seconds: 1 as serve
does, 60 as replay does. --idle: steps to which nothing has come, what serve pays at least; figures are then per step.
--apart: each source at a point of its own in the interval, as collectors are, so that a step hears few of the slow
ones.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import get_args

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, Detector
from pipelines.engine import Batch
from pipelines.intake import Piece, take_in
from tests.benchmarks.cluster_load import Load, Profile, load_of, out_of_step
from tests.benchmarks.stages import engine_of

IDLE_STEPS = 20


@dataclass
class Timed:
    """A detector whose processor seconds are counted."""

    inner: Detector
    cpu_seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return self.inner.reads

    @property
    def keeps(self) -> pl.Schema:
        return self.inner.keeps

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        began = time.process_time()
        found = self.inner.detect(tables, state, context)
        self.cpu_seconds += time.process_time() - began
        return found


def batches(load: Load, seconds: int, step_seconds: int, *, apart: bool) -> tuple[Batch, list[Batch]]:
    """The batch that warms up, and those that count."""
    found, warm = [], []
    for window in out_of_step(load, step_seconds) if apart else load.windows(step_seconds):
        intake = take_in([Piece(name, frame) for name, frame in window.tables.items() if not frame.is_empty()])
        batch = Batch(tables=intake.tables, now=window.ends_at)
        (warm if window.ends_at <= load.scenario.starts_at + timedelta(seconds=seconds) else found).append(batch)
    names = {name for batch in warm for name in batch.tables}
    tables = {name: pl.concat(batch.tables[name] for batch in warm if name in batch.tables) for name in names}
    return Batch(tables=tables, now=warm[-1].now), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=24_576)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--step", type=int, default=60)
    parser.add_argument("--profile", choices=get_args(Profile), default="usual")
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--apart", action="store_true")
    chosen = parser.parse_args()
    load = load_of(chosen.gpus, 2 * chosen.seconds, chosen.profile)
    warm, counted = batches(load, chosen.seconds, min(chosen.step, chosen.seconds), apart=chosen.apart)
    engine, state = engine_of(load)
    state = engine.step(state, warm).state
    timed = [Timed(detector) for detector in engine.detectors]
    engine = replace(engine, detectors=tuple(timed))
    if chosen.idle:
        counted = [Batch(tables={}, now=warm.now + n * timedelta(milliseconds=10)) for n in range(1, IDLE_STEPS + 1)]
    began = time.process_time()
    for batch in counted:
        state = engine.step(state, batch).state
    total, share = time.process_time() - began, 1000 / (IDLE_STEPS if chosen.idle else chosen.seconds)
    spent = sum(each.cpu_seconds for each in timed)
    document = {
        "gpus": load.gpus, "profile": chosen.profile, "step_seconds": chosen.step, "idle": chosen.idle,
        "apart": chosen.apart,
        "rows": sum(rows.height for batch in counted for rows in batch.tables.values()),
        "unit": f"CPU milliseconds per {'step' if chosen.idle else 'cluster second'}",
        "total": round(total * share, 2), "detectors": round(spent * share, 2),
        "engine": round((total - spent) * share, 2),
        "by_detector": {
            each.name: round(each.cpu_seconds * share, 2) for each in sorted(timed, key=lambda each: -each.cpu_seconds)
        },
    }  # fmt: skip
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
