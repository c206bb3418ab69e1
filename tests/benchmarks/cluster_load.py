"""A generated cluster at the usual sampling intervals or at high resolution, as windows, recordings and messages."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from kafka.consumer.fetcher import ConsumerRecord

from replay.scenario import Scenario, load_scenario
from replay.simulate import Window, simulate, topology_of
from schemas.formats import wire
from schemas.tables import TABLE_BY_NAME, TABLES
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
