"""From a scenario to telemetry, window by window, and to the truth about it.

Physics and tables run in fixed blocks of a minute with their own random numbers, and windows are cut from the blocks:
the same seed gives the same rows however they are cut.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import polars as pl

from replay.cluster import Block, Cluster
from replay.conditions import Conditions, DriverEvent
from replay.exporters import ARRIVED, Exporters
from replay.fabric_tables import FabricTables
from replay.facility_tables import FacilityTables
from replay.fault import Fault, Throttling, Truth
from replay.faults import faults_of
from replay.faults_exporters import ClockOff
from replay.faults_fiber import OneFiber
from replay.fiber_tables import FiberTables
from replay.gpu_tables import GpuTables, pci_address
from replay.hardware_tables import HardwareTables
from replay.job_tables import JobTables
from replay.layout import Layout, layout_of
from replay.rows import microseconds
from replay.scenario import Scenario
from schemas.label import Label
from schemas.tables import TABLE_BY_NAME, empty
from schemas.topology import Topology
from schemas.topology_presets import build

BLOCK_SECONDS = 60
LABEL_COLUMNS = pl.Schema({name: column.dtype for name, column in Label.columns().items()})


@dataclass(frozen=True, eq=False)
class Window:
    """Rows with starts_at <= time < ends_at, a frame for every table, each in order of time.

    arrived: by table when each row was sent; there only where a clock is off. Then these are what is in order and
    within the window.
    """

    starts_at: datetime
    ends_at: datetime
    tables: Mapping[str, pl.DataFrame]
    arrived: Mapping[str, pl.Series] = field(default_factory=dict)

    def as_arrived(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Tables by name, with ARRIVED where it says more than time."""
        for name, rows in self.tables.items():
            yield name, rows.with_columns(self.arrived[name].alias(ARRIVED)) if name in self.arrived else rows


def topology_of(scenario: Scenario) -> Topology:
    """The cluster that the scenario names. Raises ValueError, one line, for parameters no cluster can have."""
    return build(scenario.topology.preset, **scenario.topology.parameters)


def simulate(scenario: Scenario, topology: Topology, *, window_seconds: int = 60) -> Iterator[Window]:
    """Windows from the scenario's beginning to its end, every one as long but perhaps the last.

    Raises ScenarioError for a fault that is not known or at a place the topology does not have, before the first.
    """
    layout = layout_of(topology, scenario.seed)
    blocks = _rendered(scenario, layout, faults_of(scenario, layout))
    return _cut(scenario, blocks, window_seconds)


def labels(scenario: Scenario, topology: Topology) -> pl.DataFrame:
    """The truth, one row a fault (schemas.label); a disturbance has none.

    Runs the physics to learn who was throttled, if a fault throttles.
    """
    layout = layout_of(topology, scenario.seed)
    faults = faults_of(scenario, layout)
    watched = [fault.watched(layout) for fault in faults]
    throttling = _throttling(scenario, layout, faults) if any(len(gpus) for gpus in watched) else None
    never = np.full(layout.gpus, np.nan)
    rows = []
    for number, fault in enumerate(faults):
        truth = fault.truth(layout, Throttling(never, never) if throttling is None else throttling[number])
        if truth is not None:
            rows.append(_label_row(scenario, truth))
    return pl.DataFrame(rows, schema=LABEL_COLUMNS).sort("starts_at", maintain_order=True)


def _label_row(scenario: Scenario, truth: Truth) -> dict[str, object]:
    return {
        "cause": truth.cause,
        "root_kind": truth.root_kind,
        "roots": list(truth.roots),
        "members": list(truth.members),
        "starts_at": scenario.starts_at + timedelta(seconds=truth.starts),
        "ends_at": None if truth.ends is None else scenario.starts_at + timedelta(seconds=truth.ends),
    }


def _blocks(scenario: Scenario, layout: Layout, faults: tuple[Fault, ...]) -> Iterator[tuple[int, Block, Conditions]]:
    cluster = Cluster(scenario, layout)
    for number in range(-(-scenario.duration_seconds // BLOCK_SECONDS)):
        seconds = np.arange(number * BLOCK_SECONDS, (number + 1) * BLOCK_SECONDS, dtype=np.float64)
        conditions = Conditions(seconds=seconds, layout=layout)
        for fault in faults:
            fault.bend(conditions)
        yield number, cluster.advance(number, conditions), conditions


def _rendered(scenario: Scenario, layout: Layout, faults: tuple[Fault, ...]) -> Iterator[dict[str, pl.DataFrame]]:
    """The block's rows, table by table."""
    began, seed, every = microseconds(scenario.starts_at), scenario.seed, scenario.intervals
    gpus = GpuTables(seed, layout, began, every["gpu"], every["cold_plate"])
    plant = FacilityTables(seed, layout, began, dict(every))
    boxes = HardwareTables(seed, layout, began, every["hardware_sensor"])
    job = JobTables(layout, began, every["heartbeat"], scenario.job)
    fabric = FabricTables(seed, layout, began, every["fabric_port"], every["optic"])
    bent = tuple(fault.entity for fault in faults if isinstance(fault, OneFiber))
    fiber = FiberTables(seed, layout, began, scenario.otdr, bent)
    exporters = Exporters(scenario.starts_at)
    for number, block, conditions in _blocks(scenario, layout, faults):
        conditions.driver_events.extend(_shutdowns(block, layout))
        rendered: dict[str, Callable[[], pl.DataFrame]] = {
            "gpu": partial(gpus.gpu, number, block, conditions),
            "gpu_event": partial(gpus.events, block, conditions),
            "heartbeat": partial(job.heartbeat, block, conditions),
            "job_event": partial(job.events, number, block, conditions),
            "maintenance": partial(job.maintenance, block, conditions),
            "fabric_port": partial(fabric.fabric_port, number, block, conditions),
            "optic": partial(fabric.optic, number, block, conditions),
            "otdr_trace": partial(fiber.traces, block, conditions),
            "otdr_event": partial(fiber.events, block, conditions),
            "coolant_loop": partial(plant.coolant_loop, number, block, conditions),
            "coolant_pump": partial(plant.coolant_pump, number, block),
            "cold_plate": partial(gpus.cold_plate, number, block, conditions),
            "power": partial(plant.power, number, block, conditions),
            "hardware_sensor": partial(boxes.hardware_sensor, number, block, conditions),
        }
        sent = {
            name: exporters.sent(name, rendered[name](), conditions) for name in scenario.tables if name in rendered
        }
        if any(isinstance(fault, ClockOff) for fault in faults):
            sent = {name: exporters.stamped(name, rows, conditions) for name, rows in sent.items()}
        yield sent


def _shutdowns(block: Block, layout: Layout) -> list[DriverEvent]:
    """A GPU that reached its shutdown limit leaves the bus."""
    return [
        DriverEvent(
            second, gpu, "xid", 79,
            f"NVRM: Xid (PCI:{pci_address(int(layout.gpu_slot[gpu]))}): 79, pid='<unknown>', name=<unknown>, "
            "GPU has fallen off the bus.",
        )
        for second, gpu in block.shut_down
    ]  # fmt: skip


def _cut(scenario: Scenario, blocks: Iterator[dict[str, pl.DataFrame]], window_seconds: int) -> Iterator[Window]:
    """Windows from blocks. A row's time is at most half a second into its second, so it never leaves its block."""
    end = scenario.starts_at + timedelta(seconds=scenario.duration_seconds)
    held = {name: empty(table) for name, table in TABLE_BY_NAME.items()}
    simulated, starts_at = scenario.starts_at, scenario.starts_at
    while starts_at < end:
        ends_at = min(starts_at + timedelta(seconds=window_seconds), end)
        fresh: list[dict[str, pl.DataFrame]] = []
        while simulated < ends_at:
            fresh.append(next(blocks))
            simulated += timedelta(seconds=BLOCK_SECONDS)
        tables = {}
        for name, rest in held.items():
            frame = pl.concat([rest, *(block[name] for block in fresh if name in block)], how="diagonal")
            ordered = ARRIVED if ARRIVED in frame.columns else TABLE_BY_NAME[name].time
            place = frame[ordered].search_sorted(ends_at, side="left")
            tables[name], held[name] = frame[:place], frame[place:]
        arrived = {name: rows[ARRIVED] for name, rows in tables.items() if ARRIVED in rows.columns}
        tables = {name: rows.drop(ARRIVED, strict=False) for name, rows in tables.items()}
        yield Window(starts_at, ends_at, tables, arrived)
        starts_at = ends_at


def _throttling(scenario: Scenario, layout: Layout, faults: tuple[Fault, ...]) -> list[Throttling]:
    """For each fault the throttling among its watched GPUs from its beginning on."""
    found = [Throttling(np.full(layout.gpus, np.nan), np.full(layout.gpus, np.nan)) for _ in faults]
    for _, block, _ in _blocks(scenario, layout, faults):
        within = block.seconds < scenario.duration_seconds
        slowed = (block.clock_share < 1.0) & within[:, None]
        for second, gpu in block.shut_down:
            slowed[int(second - block.seconds[0]), gpu] = True
        if not slowed.any():
            continue
        for fault, throttling in zip(faults, found, strict=True):
            for gpu in fault.watched(layout):
                when = block.seconds[slowed[:, gpu] & (block.seconds >= fault.at_seconds)]
                if len(when):
                    throttling.first[gpu] = np.fmin(throttling.first[gpu], when[0])
                    throttling.last[gpu] = when[-1]
    return found
