"""What CDUs, pumps and power meters say: coolant_loop, coolant_pump and power rows of a block."""

from math import sqrt

import numpy as np
import polars as pl

from replay.cluster import Block
from replay.conditions import PUMPS_PER_CDU, Conditions
from replay.hydraulics import NOMINAL_HEAD_KPA, NOMINAL_RPM, head_of_pumps, pump_powers
from replay.layout import Layout
from replay.randomness import Flags, Floats, Integers, generator
from replay.rows import sampled_rows, ticks_of
from replay.thermal import PLATE_LITERS_PER_MINUTE, WATER_WATTS_PER_KELVIN_PER_LITER_PER_MINUTE

LINE_VOLTS = 415.0
POWER_FACTOR = 0.98
STATIC_KPA = 150.0
LEVEL_PERCENT = 82.0
# A reservoir that empties takes the static pressure with it. An assumption: 4 kPa per percent of level.
KPA_PER_LEVEL_PERCENT = 4.0
FACILITY_FLOW_SHARE = 1.2  # facility water over coolant, by volume
# A circuit is rated for all its nodes at their most (10.2 kW: domain.md 1), so that a lost second feed is carried.
RATED_WATTS_PER_NODE = 10_200.0
LEAK_WORDS = ("ok", "warning", "critical")


class FacilityTables:
    """Gauges of the plant. Each has its own small constant error."""

    def __init__(self, seed: int, layout: Layout, starts_at: int, intervals: dict[str, int]) -> None:
        drawn = generator(seed, "plant")
        loops = len(layout.cdus)
        self.seed, self.layout, self.starts_at, self.intervals = seed, layout, starts_at, intervals
        self.level = LEVEL_PERCENT + drawn.normal(0, 2.0, loops)
        self.ph = 9.0 + drawn.normal(0, 0.1, loops)
        self.conductivity = 2300.0 + drawn.normal(0, 60.0, loops)
        self.glycol = 25.0 + drawn.normal(0, 0.4, loops)
        self.volts = LINE_VOLTS + drawn.normal(0, 1.0, len(layout.pdus))
        fed = np.bincount(np.unique(self._feed_pairs(), axis=0)[:, 1], minlength=len(layout.pdus) + 1)
        self.rated_watts = RATED_WATTS_PER_NODE * fed[: len(layout.pdus)]
        self.nominal_liters = PLATE_LITERS_PER_MINUTE * np.maximum(
            np.bincount(layout.gpu_cdu[layout.gpu_cdu >= 0], minlength=loops), 1
        )
        order = np.argsort(layout.cdu_offsets, kind="stable")
        self.loop_order = order
        self.loops = pl.DataFrame({"cdu": [layout.cdus[index] for index in order]}, schema={"cdu": pl.String})
        self.pump_loop = np.repeat(order, PUMPS_PER_CDU)
        self.pump_number = np.tile(np.arange(PUMPS_PER_CDU), loops)
        self.pumps = pl.DataFrame(
            {
                "cdu": [layout.cdus[index] for index in self.pump_loop],
                "pump": [f"pump-{number + 1}" for number in self.pump_number],
            },
            schema={"cdu": pl.String, "pump": pl.String},
        )
        self.pdu_order = np.argsort(layout.pdu_offsets, kind="stable")
        self.meters = pl.DataFrame({"pdu": [layout.pdus[index] for index in self.pdu_order]}, schema={"pdu": pl.String})

    def coolant_loop(self, number: int, block: Block, conditions: Conditions) -> pl.DataFrame:
        noise = generator(self.seed, "coolant_loop", number)
        ticks = ticks_of(block.seconds, self.intervals["coolant_loop"])
        shape = (len(ticks), len(self.layout.cdus))
        lost, severity = conditions.get("level_lost_percent"), conditions.get("leak_severity")
        gone = np.zeros(shape) if lost is None else lost[ticks]
        wet = np.zeros(shape, dtype=np.int64) if severity is None else severity[ticks]
        liters = block.loop_flow[ticks]
        head = NOMINAL_HEAD_KPA * (liters / self.nominal_liters) ** 2
        clogged = conditions.get("loop_flow_share")
        if clogged is not None:  # pumps at their speed against a narrower loop climb their curve
            head = np.where(clogged[ticks] < 1, NOMINAL_HEAD_KPA * head_of_pumps(liters / self.nominal_liters), head)
        ph = self.ph + _touched(conditions, "ph_shift", ticks, 0.0)
        conductivity = self.conductivity * _touched(conditions, "conductivity_factor", ticks, 1.0)
        metered = liters * _touched(conditions, "flow_meter_factor", ticks, 1.0)
        felt = block.return_[ticks] + _touched(conditions, "return_sensor_kelvin", ticks, 0.0)
        static = STATIC_KPA - KPA_PER_LEVEL_PERCENT * gone
        facility = block.facility[ticks]
        facility_stream = WATER_WATTS_PER_KELVIN_PER_LITER_PER_MINUTE * FACILITY_FLOW_SHARE * self.nominal_liters
        readings = {
            "supply_celsius": _read(noise, block.supply[ticks], 0.04),
            "return_celsius": _read(noise, np.minimum(felt, 115.0), 0.04),
            "facility_supply_celsius": _read(noise, facility, 0.04),
            "facility_return_celsius": _read(noise, facility + block.loop_heat[ticks] / facility_stream, 0.04),
            "flow_liters_per_minute": _read(noise, metered, 0.0, 0.004),
            "supply_pressure_kpa": _read(noise, static + head, 0.6),
            "return_pressure_kpa": _read(noise, static, 0.6),
            "level_percent": np.clip(_read(noise, self.level - gone, 0.05), 0.0, 100.0),
            "ph": _read(noise, np.broadcast_to(ph, shape), 0.01),
            "conductivity_us_per_cm": _read(noise, np.broadcast_to(conductivity, shape), 4.0),
            "glycol_percent": _read(noise, np.broadcast_to(self.glycol, shape), 0.05),
        }
        ordered = {name: values[:, self.loop_order] for name, values in readings.items()}
        words = pl.Series(wet[:, self.loop_order].ravel(), dtype=pl.Int64).replace_strict(
            dict(enumerate(LEAK_WORDS)), return_dtype=pl.String
        )
        offsets = self.layout.cdu_offsets[self.loop_order]
        return sampled_rows(
            "coolant_loop", self.loops, offsets, self._times(block, ticks), {**ordered, "leak_state": words}
        )

    def coolant_pump(self, number: int, block: Block) -> pl.DataFrame:
        noise = generator(self.seed, "coolant_pump", number)
        ticks = ticks_of(block.seconds, self.intervals["coolant_pump"])
        speeds = block.pump_speed[ticks]
        watts = np.array([pump_powers(each, self.nominal_liters) for each in speeds]).reshape(speeds.shape)
        turning = speeds > 0
        rpm = speeds * NOMINAL_RPM + np.where(turning, 4.0 * noise.standard_normal(speeds.shape), 0.0)
        watts = watts * (1 + 0.01 * noise.standard_normal(speeds.shape))
        flat = (slice(None), self.pump_loop, self.pump_number)
        readings = {
            "speed_rpm": np.round(np.maximum(rpm, 0.0), 1)[flat],
            "power_watts": np.round(np.maximum(watts, 0.0), 1)[flat],
        }
        offsets = self.layout.cdu_offsets[self.pump_loop]
        return sampled_rows("coolant_pump", self.pumps, offsets, self._times(block, ticks), readings)

    def power(self, number: int, block: Block, conditions: Conditions) -> pl.DataFrame:
        """A PDU's load is half of each node with a second live feed, else all of it. Dead meters send nothing."""
        noise = generator(self.seed, "power", number)
        ticks = ticks_of(block.seconds, self.intervals["power"])
        shape = (len(ticks), len(self.layout.pdus))
        feeds, meters = conditions.get("feed_on"), conditions.get("meter_on")
        fed = np.ones(shape, dtype=np.bool_) if feeds is None else feeds[ticks]
        sent = np.ones(shape, dtype=np.bool_) if meters is None else meters[ticks]
        extra = self.rated_watts * _touched(conditions, "extra_load_share", ticks, 0.0) * fed
        watts = (self._loads(block, ticks, fed) + extra) * (1 + 0.002 * noise.standard_normal(shape))
        volts = self.volts * _touched(conditions, "volts_share", ticks, 1.0) + 0.5 * noise.standard_normal(shape)
        amps = watts / (sqrt(3) * volts * POWER_FACTOR)
        readings = {
            "volts": np.round(np.where(fed, volts, 0.0), 2),
            "volts_minimum": np.round(np.where(fed, volts - np.abs(noise.normal(0.8, 0.4, shape)), 0.0), 2),
            "amps": np.round(np.where(fed, amps, 0.0), 2),
            "rated_amps": np.broadcast_to(np.round(self.rated_watts / (sqrt(3) * LINE_VOLTS * POWER_FACTOR)), shape),
            "watts": np.round(np.where(fed, watts, 0.0), 1),
        }
        ordered = {name: values[:, self.pdu_order] for name, values in readings.items()}
        breaker = pl.Series(fed[:, self.pdu_order].ravel()).replace_strict(
            {True: "closed", False: "tripped"}, return_dtype=pl.String
        )
        offsets, kept = self.layout.pdu_offsets[self.pdu_order], sent[:, self.pdu_order]
        return sampled_rows(
            "power", self.meters, offsets, self._times(block, ticks), {**ordered, "breaker": breaker}, kept
        )

    def _feed_pairs(self) -> Integers:
        """(2 n, 2) node and the PDU that feeds it; a missing feed is the PDU after the last."""
        nodes, pdus = np.arange(len(self.layout.nodes)), self.layout.node_feeds % (len(self.layout.pdus) + 1)
        return np.concatenate([np.stack([nodes, feed], axis=1) for feed in pdus.T])

    def _loads(self, block: Block, ticks: Integers, fed: Flags) -> Floats:
        """(ticks, p) watts drawn from each PDU."""
        count, (first, second) = len(self.layout.pdus), self.layout.node_feeds.T
        live = np.concatenate([fed, np.zeros((len(ticks), 1), dtype=np.bool_)], axis=1)
        loads = np.zeros((len(ticks), count + 1))
        for row, tick in enumerate(ticks):
            watts = block.node_watts[tick]
            by_first = np.where(live[row, first], np.where(live[row, second], 0.5, 1.0), 0.0)
            by_second = np.where(live[row, second], np.where(live[row, first], 0.5, 1.0), 0.0)
            loads[row] += np.bincount(first % (count + 1), watts * by_first, count + 1)
            loads[row] += np.bincount(second % (count + 1), watts * by_second, count + 1)
        return loads[:, :count]

    def _times(self, block: Block, ticks: Integers) -> Integers:
        return self.starts_at + block.seconds[ticks].astype(np.int64) * 1_000_000


def _touched(conditions: Conditions, name: str, ticks: Integers, resting: float) -> Floats:
    bent = conditions.get(name)
    return np.full((1, 1), resting) if bent is None else np.asarray(bent[ticks], dtype=np.float64)


def _read(noise: np.random.Generator, truth: Floats, spread: float, relative: float = 0.0) -> Floats:
    """A gauge's reading to two decimals."""
    drawn = noise.standard_normal(truth.shape)
    return np.asarray(np.round(truth * (1 + relative * drawn) + spread * drawn, 2))
