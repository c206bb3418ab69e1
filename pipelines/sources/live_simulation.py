"""A small cluster that lives by the clock, so that everything can be seen at work without Kafka.

Cycles of ten minutes follow one another from `since` on. Each brings the same kinds of fault to other entities, and
all of them end before the cycle does. A pass gives what happened since the last one, up to now.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

import polars as pl

from pipelines.sources.contract import Arrival, Offsets, SourceError
from pipelines.sources.windows import EPOCH, PROGRESS, WindowSource
from replay.scenario import FaultPlan, JobPlan, OtdrPlan, Scenario, TopologyChoice
from replay.simulate import Window, simulate, topology_of
from schemas.tables import TABLES
from schemas.topology import Topology

SPEC = "simulated"
SINCE_VARIABLE = "HOTSPARE_SIMULATED_SINCE"
CYCLE_SECONDS = 600
WINDOW_SECONDS = 20
SEED = 24576
# 128 GPUs: two superblocks, two coolant loops, four power domains of 32 GPUs.
CLUSTER = TopologyChoice(
    parameters={
        "pods": 1, "superblocks_per_pod": 2, "nodes_per_superblock": 8, "nodes_per_leaf": 8,
        "nodes_per_pdu": 4, "nodes_per_cdu": 8,
    }
)  # fmt: skip
# Slower than the real thing where seconds do not matter: a UI that is left open for days should not fill the disk.
INTERVALS = {
    "gpu": 5, "cold_plate": 5, "heartbeat": 2, "fabric_port": 20, "optic": 60, "coolant_loop": 1, "coolant_pump": 1,
    "power": 1, "hardware_sensor": 60,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LiveSimulation:
    """since: when the cluster was switched on; the same instant gives the same rows for ever. clock: up to when."""

    since: datetime
    clock: Callable[[], datetime]

    @property
    def stream(self) -> str:
        return f"{SPEC}@{self.since:%Y-%m-%dT%H:%M:%SZ}"

    @cached_property
    def topology(self) -> Topology:
        return topology_of(_bare(self.since))

    @property
    def intervals_seconds(self) -> Mapping[str, float]:
        return {name: float(seconds) for name, seconds in INTERVALS.items()}

    @property
    def span_seconds(self) -> float | None:
        return None

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        """What ended between the last pass and now, in windows of WINDOW_SECONDS."""
        done = EPOCH + timedelta(microseconds=offsets[PROGRESS]) if PROGRESS in offsets else self.since
        until = self.clock()
        passed = WindowSource(
            stream=self.stream, topology=self.topology, intervals_seconds=self.intervals_seconds, span_seconds=None,
            windows=lambda: self._windows(done, until),
        )  # fmt: skip
        yield from passed.arrivals(offsets)

    def _windows(self, done: datetime, until: datetime) -> Iterator[Window]:
        """Windows of every cycle that reaches into done..until. A cycle is made from its beginning: it is cheap."""
        number = (done - self.since) // timedelta(seconds=CYCLE_SECONDS)
        while self.since + timedelta(seconds=number * CYCLE_SECONDS) < until:
            for window in simulate(self.cycle(number), self.topology, window_seconds=WINDOW_SECONDS):
                if window.ends_at > until:
                    return
                yield window
            number += 1

    def cycle(self, number: int) -> Scenario:
        """The scenario of one cycle."""
        starts_at = self.since + timedelta(seconds=number * CYCLE_SECONDS)
        return _bare(starts_at, faults_of_cycle(number, self.topology))


def live_simulation(spec: str, clock: Callable[[], datetime]) -> LiveSimulation:
    """From `simulated` or `simulated@2026-03-01T08:00:00Z`. Without a time: what `make ui` chose, else this hour."""
    _, _, said = spec.partition("@")
    chosen = said or os.environ.get(SINCE_VARIABLE, "")
    if not chosen:
        return LiveSimulation(since=clock().replace(minute=0, second=0, microsecond=0), clock=clock)
    try:
        since = datetime.fromisoformat(chosen)
    except ValueError:
        raise SourceError(f"{SPEC}@{chosen}: write a time like 2026-03-01T08:00:00Z after the @") from None
    since = since.replace(tzinfo=UTC) if since.tzinfo is None else since.astimezone(UTC)
    return LiveSimulation(since=since.replace(microsecond=0), clock=clock)


def faults_of_cycle(number: int, topology: Topology) -> tuple[FaultPlan, ...]:
    """Seven faults, none of which outlasts the cycle; where they strike moves on with the number."""
    nodes = topology.nodes["node"].to_list()
    pdus = sorted(set(topology.nodes["pdu"].drop_nulls()))
    cdus = sorted(set(topology.nodes["cdu"].drop_nulls()))
    cables = topology.links.filter(pl.col("tier") == "leaf-spine")["cable"].sort().to_list()

    def node(step: int) -> str:
        return str(nodes[(5 * number + step) % len(nodes)])

    def gpu(step: int) -> str:
        return f"{node(step)}/{(3 * number + step) % topology.gpus_per_node}"

    return (
        FaultPlan(fault="gpu_fallen_off_bus", at_seconds=25, lasts_seconds=215, entity=gpu(1)),
        FaultPlan(
            fault="pump_failure", at_seconds=65, lasts_seconds=115, entity=cdus[number % len(cdus)],
            parameters={"pumps_stopped": 1},
        ),
        FaultPlan(fault="thermal_throttle", at_seconds=190, lasts_seconds=120, entity=gpu(6)),
        FaultPlan(
            fault="link_flap", at_seconds=250, lasts_seconds=160, entity=cables[(7 * number) % len(cables)],
            parameters={"times": 4, "every_seconds": 40},
        ),
        FaultPlan(fault="memory_decay", at_seconds=280, lasts_seconds=240, entity=gpu(10)),
        FaultPlan(fault="node_lost", at_seconds=430, lasts_seconds=60, entity=node(13)),
        FaultPlan(fault="pdu_cascade", at_seconds=500, lasts_seconds=40, roots=(pdus[number % len(pdus)],)),
    )  # fmt: skip


def _bare(starts_at: datetime, faults: tuple[FaultPlan, ...] = ()) -> Scenario:
    return Scenario(
        name=SPEC, description="the small cluster of `make ui`", seed=SEED, starts_at=starts_at,
        duration_seconds=CYCLE_SECONDS, topology=CLUSTER, job=JobPlan(), otdr=OtdrPlan(cables=2), intervals=INTERVALS,
        tables=tuple(table.name for table in TABLES), faults=faults, expects=(), nothing_else=True,
    )  # fmt: skip
