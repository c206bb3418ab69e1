"""A generated cluster at the usual sampling intervals or at high resolution, as windows, recordings and messages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

import polars as pl
from kafka.consumer.fetcher import ConsumerRecord

from replay.scenario import Scenario, load_scenario
from replay.simulate import BLOCK_SECONDS, Window, simulate, topology_of
from schemas.formats import wire
from schemas.tables import TABLE_BY_NAME, TABLES, Table
from schemas.topology import Topology

Profile = Literal["usual", "high"]
# domain.md 5.1: usual is DCGM at its exporter's 30 s; high resolution reads GPUs every second.
INTERVALS: dict[Profile, dict[str, int]] = {"usual": {"gpu": 30}, "high": {"gpu": 1}}
GPUS_PER_SUPERBLOCK = 256


@dataclass(frozen=True)
class Load:
    """A cluster and the rows that it sends in `seconds` of its time. profile: how often each table is sampled."""

    profile: Profile
    scenario: Scenario
    topology: Topology

    @property
    def seconds(self) -> int:
        return self.scenario.duration_seconds

    @property
    def gpus(self) -> int:
        return self.topology.nodes.height * self.topology.gpus_per_node

    def windows(self, window_seconds: int) -> Iterator[Window]:
        return simulate(self.scenario, self.topology, window_seconds=window_seconds)


def load_of(gpus: int, seconds: int, profile: Profile) -> Load:
    """`gpus` is rounded up to whole superblocks of 256, four to a pod."""
    superblocks = -(-gpus // GPUS_PER_SUPERBLOCK)
    pods, each = (1, superblocks) if superblocks <= 4 else (-(-superblocks // 4), 4)
    healthy = load_scenario("healthy")
    chosen = replace(
        healthy, duration_seconds=seconds, intervals={**healthy.intervals, "cold_plate": 1, **INTERVALS[profile]},
        topology=replace(healthy.topology, parameters={"pods": pods, "superblocks_per_pod": each}),
    )  # fmt: skip
    return Load(profile, chosen, topology_of(chosen))


def out_of_step(load: Load, window_seconds: int) -> Iterator[Window]:
    """The load's windows with each source at a point of its own in its tables' intervals, as collectors are: a cluster
    that is sampled all in one second is a load that nobody has. Rows of hosts come earlier by that and all others
    later, so that a host is not heard after it was lost, and nobody knows of it before; what would be sent before the
    beginning or after the end is left out.
    """
    kept: dict[str, pl.DataFrame] = {}
    for block in load.windows(BLOCK_SECONDS):
        rows = {name: _own_time(rows, TABLE_BY_NAME[name], load) for name, rows in block.tables.items()}
        rows = {name: pl.concat([kept[name], fresh]) if name in kept else fresh for name, fresh in rows.items()}
        if kept:
            yield from _seconds_of(rows, block.starts_at - timedelta(seconds=BLOCK_SECONDS), window_seconds)
        kept = {name: some.filter(some[TABLE_BY_NAME[name].time] >= block.starts_at) for name, some in rows.items()}
        begins = block.starts_at
    ends_at = load.scenario.starts_at + timedelta(seconds=load.seconds)
    if kept:
        yield from (one for one in _seconds_of(kept, begins, window_seconds) if one.ends_at <= ends_at)


def _own_time(rows: pl.DataFrame, table: Table, load: Load) -> pl.DataFrame:
    seconds = load.scenario.intervals.get(table.name, 0)
    if not 1 < seconds <= BLOCK_SECONDS or rows.is_empty():
        return rows
    source = pl.col(table.source)
    phase = pl.duration(microseconds=source.hash(seed=0) % int(seconds * 1_000_000))
    of_host = pl.lit(value=True) if table.source == "node" else source.str.contains("/", literal=True)  # an HCA's
    return rows.with_columns(pl.when(of_host).then(pl.col(table.time) - phase).otherwise(pl.col(table.time) + phase))


def _seconds_of(tables: Mapping[str, pl.DataFrame], begins: datetime, window_seconds: int) -> Iterator[Window]:
    """A block as windows."""
    ordered = {name: rows.sort(TABLE_BY_NAME[name].time, maintain_order=True) for name, rows in tables.items()}
    for at in range(0, BLOCK_SECONDS, window_seconds):
        starts_at = begins + timedelta(seconds=at)
        ends_at = starts_at + timedelta(seconds=window_seconds)
        yield Window(
            starts_at, ends_at,
            {
                name: rows.set_sorted(TABLE_BY_NAME[name].time).filter(
                    pl.col(TABLE_BY_NAME[name].time).is_between(starts_at, ends_at, closed="left")
                )
                for name, rows in ordered.items()
            },
        )  # fmt: skip


def samples(window: Window) -> int:
    """Values that were sampled: neither the time nor what names the row, and not null."""
    return sum(
        rows[name].len() - rows[name].null_count()
        for table, rows in window.tables.items()
        for name in rows.columns
        if name not in (TABLE_BY_NAME[table].time, *TABLE_BY_NAME[table].key)
    )


def messages(window: Window, each: Literal["source", "row"]) -> dict[str, list[ConsumerRecord]]:
    """By table, as a consumer gives them: JSON, one message per source and time, or one per row."""
    found: dict[str, list[ConsumerRecord]] = {}
    for table in TABLES:
        rows = window.tables.get(table.name)
        if rows is None or rows.is_empty() or table.name.startswith("otdr"):
            continue
        apart = (table.time, table.source) if each == "source" else (table.time, *table.key)
        written = int(window.ends_at.timestamp() * 1000)
        found[table.name] = [
            ConsumerRecord(table.name, 0, 0, offset, written, 0, b"", value, [], None, 0, len(value), 0)
            for offset, value in enumerate(wire.encode_json(rows.sort(table.time, maintain_order=True), table, apart))
        ]
    return found
