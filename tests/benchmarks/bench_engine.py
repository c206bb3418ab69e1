"""Where one step of the engine spends its processor seconds: admission, release, memory of repeats, each detector.

Run: python -m tests.benchmarks.bench_engine [--gpus 24576] [--seconds 60] [--profile usual|high] [--idle]
--idle: of a step to which nothing has come, after one that had: what serve pays for every step.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import get_args

import polars as pl

from pipelines import engine as parts
from pipelines.engine import Batch, Engine, EngineState
from pipelines.intake import Piece, take_in
from schemas.tables import INTAKE_TABLES, TABLES, empty
from tests.benchmarks.cluster_load import Profile, load_of
from tests.benchmarks.stages import engine_of


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return round(time.process_time() - began, 4)


def by_part(engine: Engine, state: EngineState, batch: Batch) -> dict[str, float]:
    accepted, late, sources = engine._admit_in_time(state, batch)
    released, _ = parts._release({**accepted, "late": late}, state.pending, batch.now)
    return {
        "admit in time": seconds(lambda: engine._admit_in_time(state, batch)),
        "release in order": seconds(lambda: parts._release({**accepted, "late": late}, state.pending, batch.now)),
        "remember for repeats": seconds(lambda: engine._recent(state.recent, released, sources)),
        "health": seconds(lambda: parts._health(accepted, late, batch.quarantined, batch.now)),
        **by_detector(engine, state, released, batch),
    }


def by_detector(
    engine: Engine, state: EngineState, released: dict[str, pl.DataFrame], batch: Batch
) -> dict[str, float]:
    context = engine._context(state, batch.now, batch.lags)
    rows = {table.schema: released.get(table.name, empty(table)) for table in (*TABLES, *INTAKE_TABLES)}
    return {
        detector.name: seconds(
            lambda detector=detector: detector.detect(  # type: ignore[misc]  bound at once
                {schema: rows[schema] for schema in detector.reads}, state.detectors[detector.name], context
            )
        )
        for detector in engine.detectors
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=24_576)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--profile", choices=get_args(Profile), default="high")
    parser.add_argument("--idle", action="store_true")
    chosen = parser.parse_args()
    load = load_of(chosen.gpus, chosen.seconds, chosen.profile)
    engine, state = engine_of(load)
    (window,) = load.windows(chosen.seconds)
    intake = take_in([Piece(name, frame) for name, frame in window.tables.items()])
    batch = Batch(tables=intake.tables, now=window.ends_at)
    if chosen.idle:
        state = engine.step(state, batch).state
        batch = Batch(tables={}, now=window.ends_at + timedelta(milliseconds=100))
    found = by_part(engine, state, batch)
    ordered = dict(sorted(found.items(), key=lambda part: -part[1]))
    document = {
        "gpus": load.gpus, "cluster_seconds": chosen.seconds, "profile": chosen.profile, "idle": chosen.idle,
        "rows": sum(rows.height for rows in intake.tables.values()), "cpu_seconds": round(sum(found.values()), 3),
        "by_part": ordered,
    }  # fmt: skip
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
