"""Rows, steps and a small detector for tests of the engine and the store: one node's GPUs, times in seconds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, Detector, findings_frame
from pipelines.engine import Batch, Engine, EngineState, Step
from schemas.gpu import Gpu
from schemas.tables import TABLE_BY_NAME
from schemas.topology import Topology
from schemas.topology_presets import build

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def rows(table: str, given: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """A frame of the table; what is not given is null."""
    listed, columns = list(given), TABLE_BY_NAME[table].columns
    return pl.DataFrame({name: [row.get(name) for row in listed] for name in columns}, schema=columns)


def gpu_row(seconds: float, node: str = "n00000", gpu: int = 0, celsius: float = 60.0) -> dict[str, Any]:
    return {"time": at(seconds), "node": node, "gpu": gpu, "temperature_celsius": celsius}


def gpu_rows(*given: Mapping[str, Any]) -> pl.DataFrame:
    return rows("gpu", given)


@dataclass(frozen=True, kw_only=True)
class Hot:
    """Says of every row above 90 degrees that its GPU is hot, and how many rows of the GPU it has seen by then."""

    name: str = "test.hot"

    @property
    def keeps(self) -> pl.Schema:
        return pl.Schema({"entity": pl.String(), "seen": pl.Int64()})

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Gpu,)

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        fresh = tables[Gpu].with_columns(entity=pl.format("{}/{}", "node", "gpu")).join(state, on="entity", how="left")
        counted = fresh.with_columns(seen=pl.col("seen").fill_null(0) + pl.int_range(1, pl.len() + 1).over("entity"))
        latest = counted.group_by("entity").agg(pl.col("seen").max())
        seen = pl.concat([state, latest]).group_by("entity").agg(pl.col("seen").max()).sort("entity")
        said = counted.filter(pl.col("temperature_celsius") > 90).with_columns(
            active=True, code=pl.lit("hot"), severity=pl.lit("info"), score=pl.col("temperature_celsius"),
            threshold=90.0, first_bad_at="time", evidence=pl.struct("seen").struct.json_encode(),
        )  # fmt: skip
        return Detection(findings_frame(said, self.name, "gpu_thermal_throttle", "gpu"), seen)


DETECTORS: tuple[Detector, ...] = (Hot(),)


def topology() -> Topology:
    return build("ndr-fat-tree", pods=1, superblocks_per_pod=1, nodes_per_superblock=2, nodes_per_leaf=2)


def engine(detectors: tuple[Detector, ...] = DETECTORS) -> Engine:
    return Engine(detectors=detectors, topology=topology(), intervals_seconds={"gpu": 1.0})


def batch(now: float, quarantined: pl.DataFrame | None = None, **tables: pl.DataFrame) -> Batch:
    given: dict[str, Any] = {} if quarantined is None else {"quarantined": quarantined}
    return Batch(tables=tables, now=at(now), **given)


def steps(chosen: Engine, *batches: Batch, state: EngineState | None = None) -> list[Step]:
    """The batches one after the other, from the beginning or from a state."""
    made: list[Step] = []
    current = chosen.start(START) if state is None else state
    for one in batches:
        made.append(chosen.step(current, one))
        current = made[-1].state
    return made
