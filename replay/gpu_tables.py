"""What the exporters of the nodes say of their GPUs: gpu, gpu_event and cold_plate rows of a block."""

import numpy as np
import polars as pl

from replay.cluster import Block, clock_share_at
from replay.conditions import Conditions
from replay.layout import Layout
from replay.randomness import Array, Flags, Floats, Integers, generator
from replay.rows import Column, event_rows, sampled_rows, ticks_of
from replay.thermal import ACTING_CELSIUS, outlet_rise
from schemas.gpu import (
    CLOCKS_EVENT_HARDWARE_POWER_BRAKE,
    CLOCKS_EVENT_HARDWARE_SLOWDOWN,
    CLOCKS_EVENT_HARDWARE_THERMAL,
    CLOCKS_EVENT_IDLE,
    CLOCKS_EVENT_SOFTWARE_POWER_CAP,
    CLOCKS_EVENT_SOFTWARE_THERMAL,
)

# H100 SXM (domain.md 4.1): 1980 MHz at most, in 15 MHz steps; 80 GB.
CLOCK_MAXIMUM_MEGAHERTZ, CLOCK_STEP_MEGAHERTZ, CLOCK_IDLE_MEGAHERTZ = 1980, 15, 345
MEMORY_ABOVE_CORE_CELSIUS = 8.0
DRIVER_BYTES = 620_000_000  # what is used of a GPU on which nothing runs
CORRECTABLE_PER_SECOND = 2e-7  # background of corrected errors: one per GPU in two months
PCIE_REPLAYS_PER_SECOND = 1e-6
PCI_BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")


class GpuTables:
    """Counters are carried from block to block; they start anywhere, as on machines that have been up for months."""

    def __init__(self, seed: int, layout: Layout, starts_at: int, interval: int, plate_interval: int) -> None:
        drawn = generator(seed, "gpu exporters")
        count = layout.gpus
        self.seed, self.layout, self.starts_at = seed, layout, starts_at
        self.interval, self.plate_interval = interval, plate_interval
        self.clock_at_cap = 1755 + CLOCK_STEP_MEGAHERTZ * drawn.integers(-3, 4, count)
        self.temperature_offset = drawn.normal(0, 0.4, count)
        self.memory_offset = MEMORY_ABOVE_CORE_CELSIUS + drawn.normal(0, 1.0, count)
        self.flow_gauge = drawn.normal(1.0, 0.008, count)
        self.memory_used = np.where(layout.in_job, 71_000_000_000 + drawn.integers(0, 2**30, count), DRIVER_BYTES)
        self.energy = drawn.uniform(1e9, 6e9, count)
        self.correctable = drawn.geometric(0.3, count) - 1
        self.uncorrectable = (drawn.random(count) < 0.01).astype(np.int64)
        self.remapped_correctable = (drawn.random(count) < 0.02).astype(np.int64)
        self.pcie_replays = drawn.integers(0, 40, count) + np.where(drawn.random(count) < 0.05, 150, 0)
        crc = (drawn.random(count) < 0.01) * drawn.integers(1, 20, count)
        self.nvlink = {"crc": crc, "replay": np.zeros_like(crc), "recovery": np.zeros_like(crc)}
        identity = drawn.integers(0, 2**32, (count, 3))
        self.entities = pl.DataFrame(
            {
                "node": [layout.nodes[node] for node in layout.gpu_node],
                "gpu": layout.gpu_slot,
                "uuid": [f"GPU-{a:08x}-{b & 0xFFFF:04x}-{b >> 16:04x}-{c:08x}" for a, b, c in identity.tolist()],
            }
        )
        self.offsets = layout.node_offsets[layout.gpu_node]

    def gpu(self, number: int, block: Block, conditions: Conditions) -> pl.DataFrame:
        noise = generator(self.seed, "gpu", number)
        ticks = ticks_of(block.seconds, self.interval)
        energy = self.energy + np.cumsum(block.power, axis=0) - block.power
        self.energy = energy[-1] + block.power[-1]
        correctable, replays = self._count_errors(number, block, conditions)
        shape = (len(ticks), self.layout.gpus)
        temperature = block.temperature[ticks] + self.temperature_offset + 0.25 * noise.standard_normal(shape)
        power = block.power[ticks] + 1.5 * noise.standard_normal(shape)
        crc, link_replays, recoveries = self._count_link_errors(number, block, conditions)
        clock, reasons, busy = self._clocks(block, conditions, ticks, noise)
        remapped = _at(conditions.get("rows_remapped_uncorrectable"), ticks, shape)
        kept = block.alive[ticks] & ~_silent(conditions, "gpu", ticks, self.layout)
        readings: dict[str, Column] = {
            "temperature_celsius": np.rint(temperature),
            "thermal_margin_celsius": ACTING_CELSIUS - np.rint(temperature),
            "memory_temperature_celsius": np.rint(
                temperature + self.memory_offset * np.minimum(block.power[ticks] / 680, 1)
            ),
            "power_watts": np.round(np.maximum(power, 0.0), 2),
            "sm_clock_megahertz": clock,
            "utilization_percent": busy,
            "memory_used_bytes": self._memory_used(conditions, ticks, shape),
            "clocks_event_reasons": reasons,
            "ecc_correctable_total": correctable[ticks],
            "ecc_uncorrectable_total": self.uncorrectable + _at(conditions.get("ecc_uncorrectable"), ticks, shape),
            "rows_remapped_correctable_total": np.broadcast_to(self.remapped_correctable, shape),
            "rows_remapped_uncorrectable_total": self.uncorrectable + remapped,
            "row_remap_pending": _at(conditions.get("row_remap_pending"), ticks, shape).astype(np.bool_),
            "row_remap_failure": _at(conditions.get("row_remap_failure"), ticks, shape).astype(np.bool_),
            "pcie_replay_total": replays[ticks],
            "pcie_generation": _at(conditions.get("pcie_generation"), ticks, shape, 5),
            "pcie_width": _at(conditions.get("pcie_width"), ticks, shape, 16),
            "nvlink_crc_error_total": crc[ticks],
            "nvlink_replay_total": link_replays[ticks],
            "nvlink_recovery_total": recoveries[ticks],
            "energy_joules_total": np.round(energy[ticks], 1),
        }
        return sampled_rows("gpu", self.entities, self.offsets, self._times(block, ticks), readings, kept)

    def events(self, block: Block, conditions: Conditions) -> pl.DataFrame:
        layout = self.layout
        rows = [
            {
                "time": self.starts_at + event.second * 1_000_000 + int(self.offsets[event.gpu]),
                "node": layout.nodes[layout.gpu_node[event.gpu]],
                "gpu": int(layout.gpu_slot[event.gpu]),
                "pci": pci_address(int(layout.gpu_slot[event.gpu])),
                "kind": event.kind,
                "code": event.code,
                "recovery_action": event.recovery_action,
                "message": event.message,
            }
            for event in conditions.driver_events
            if block.node_on[event.second - int(block.seconds[0]), layout.gpu_node[event.gpu]]
        ]
        return event_rows("gpu_event", rows)

    def cold_plate(self, number: int, block: Block, conditions: Conditions) -> pl.DataFrame:
        """Plate sensors hang on the host, not on the GPU: they go on when the GPU has fallen off the bus."""
        noise = generator(self.seed, "cold_plate", number)
        ticks = ticks_of(block.seconds, self.plate_interval)
        shape = (len(ticks), self.layout.gpus)
        flow = block.flow[ticks]
        outlet = block.inlet[ticks] + outlet_rise(block.heat[ticks], flow)
        gauge = flow * self.flow_gauge * (1 + 0.006 * noise.standard_normal(shape))
        node_on = block.node_on[ticks][:, self.layout.gpu_node]
        readings: dict[str, Column] = {
            "inlet_celsius": np.round(block.inlet[ticks] + 0.08 * noise.standard_normal(shape), 2),
            "outlet_celsius": np.round(np.minimum(outlet + 0.08 * noise.standard_normal(shape), 140.0), 2),
            "flow_liters_per_minute": np.round(np.maximum(gauge, 0.0), 3),
            "valve_percent": np.round(100.0 * block.valve[ticks], 1),
        }
        kept = node_on & ~_silent(conditions, "cold_plate", ticks, self.layout)
        entities = self.entities.select("node", "gpu")
        return sampled_rows("cold_plate", entities, self.offsets, self._times(block, ticks), readings, kept)

    def _memory_used(self, conditions: Conditions, ticks: Integers, shape: tuple[int, int]) -> Integers:
        """Of a job that does not run only the driver's own is left."""
        down, used = conditions.get("job_down"), np.broadcast_to(self.memory_used, shape)
        return used if down is None else np.where(down[ticks][:, None], np.minimum(used, DRIVER_BYTES), used)

    def _times(self, block: Block, ticks: Integers) -> Integers:
        return self.starts_at + block.seconds[ticks].astype(np.int64) * 1_000_000

    def _clocks(
        self, block: Block, conditions: Conditions, ticks: Integers, noise: np.random.Generator
    ) -> tuple[Floats, Integers, Floats]:
        """Clock in 15 MHz steps, event reasons, utilisation. The power cap's bit is normal under load."""
        shape = (len(ticks), self.layout.gpus)
        share, activity = block.clock_share[ticks], block.activity[ticks][:, None]
        training = self.layout.in_job & (activity > 0.0)
        loaded = training & (activity > 0.8)
        free = np.where(
            loaded, self.clock_at_cap + CLOCK_STEP_MEGAHERTZ * noise.integers(-1, 2, shape), CLOCK_MAXIMUM_MEGAHERTZ
        )
        limits = conditions.get("board_limit_watts")
        if limits is not None:
            free = free * np.where(loaded, clock_share_at(limits[ticks]), 1.0)
        stepped = np.rint(np.where(training, free, CLOCK_IDLE_MEGAHERTZ) * share / CLOCK_STEP_MEGAHERTZ)
        clock = np.maximum(stepped * CLOCK_STEP_MEGAHERTZ, CLOCK_IDLE_MEGAHERTZ)
        held = conditions.get("clock_limit_share")
        limit = np.ones(shape) if held is None else held[ticks]
        clock = np.maximum(np.rint(clock * limit / CLOCK_STEP_MEGAHERTZ) * CLOCK_STEP_MEGAHERTZ, CLOCK_IDLE_MEGAHERTZ)
        throttled, slowed = share < 1.0, block.hardware_slowed[ticks]
        capped = loaded & ~throttled & (limit == 1.0)
        braked = _at(conditions.get("power_braked"), ticks, shape).astype(np.bool_)
        reasons = np.where(capped, CLOCKS_EVENT_SOFTWARE_POWER_CAP, 0)
        reasons |= np.where(~training, CLOCKS_EVENT_IDLE, 0)
        reasons |= np.where(throttled, CLOCKS_EVENT_SOFTWARE_THERMAL, 0)
        reasons |= np.where(slowed, CLOCKS_EVENT_HARDWARE_THERMAL | CLOCKS_EVENT_HARDWARE_SLOWDOWN, 0)
        reasons |= np.where(braked, CLOCKS_EVENT_HARDWARE_POWER_BRAKE | CLOCKS_EVENT_HARDWARE_SLOWDOWN, 0)
        busy = np.where(training, np.where(loaded, 97 + noise.integers(0, 4, shape), 100), 0)
        stuck = conditions.get("rank_stuck")
        if stuck is not None:
            busy = np.where(stuck[ticks], 0, busy)
        return clock, reasons.astype(np.int64), busy.astype(np.float64)

    def _count_errors(self, number: int, block: Block, conditions: Conditions) -> tuple[Integers, Integers]:
        noise = generator(self.seed, "gpu counters", number)
        shape = block.power.shape
        beyond = conditions.get("ecc_correctable_per_second")
        new = noise.poisson(CORRECTABLE_PER_SECOND, shape)
        if beyond is not None:
            new = new + generator(self.seed, "gpu decay", number).poisson(beyond)
        correctable = self.correctable + np.cumsum(new, axis=0)
        again = noise.poisson(PCIE_REPLAYS_PER_SECOND, shape)
        worse = conditions.get("pcie_replay_per_second")
        if worse is not None:
            again = again + generator(self.seed, "gpu replays", number).poisson(worse)
        replays = self.pcie_replays + np.cumsum(again, axis=0)
        self.correctable, self.pcie_replays = correctable[-1], replays[-1]
        return correctable, replays

    def _count_link_errors(self, number: int, block: Block, conditions: Conditions) -> tuple[Integers, ...]:
        """(t, g) totals of CRC errors, replays and recoveries. Healthy NVLinks have none at all."""
        totals = []
        for name, before in self.nvlink.items():
            rate = conditions.get(f"nvlink_{name}_per_second")
            new = np.zeros(block.power.shape, dtype=np.int64)
            if rate is not None:
                new += generator(self.seed, f"nvlink {name}", number).poisson(rate)
            totals.append(before + np.cumsum(new, axis=0))
            self.nvlink[name] = totals[-1][-1]
        return tuple(totals)


def pci_address(slot: int) -> str:
    """Where slots sit on a typical 8-GPU board, domain:bus:device in lower case."""
    return f"0000:{PCI_BUSES[slot]}:00" if slot < len(PCI_BUSES) else f"0000:{0xE0 + slot:02x}:00"


def _at(quantity: Array | None, ticks: Integers, shape: tuple[int, int], resting: int = 0) -> Array:
    return np.full(shape, resting, dtype=np.int64) if quantity is None else quantity[ticks]


def _silent(conditions: Conditions, table: str, ticks: Integers, layout: Layout) -> Flags:
    silent = conditions.silent.get(table)
    if silent is None:
        return np.zeros((1, 1), dtype=np.bool_)
    return silent[ticks][:, layout.gpu_node]
