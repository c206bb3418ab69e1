"""What the management controllers of the nodes say: hardware_sensor rows of a block."""

import numpy as np
import polars as pl

from replay.cluster import Block
from replay.conditions import Conditions
from replay.layout import Layout
from replay.randomness import Array, generator
from replay.rows import sampled_rows, ticks_of

SENSORS = ("intake", "fan 1", "PSU 1", "PSU 2")
INTAKE_CELSIUS = 24.0
IDLE_RPM, RPM_PER_KILOWATT = 4200.0, 450.0
SUPPLY_EFFICIENCY = 0.94


class HardwareTables:
    """A controller lives on standby power: it speaks while any feed of its node is live, whatever the node does."""

    def __init__(self, seed: int, layout: Layout, starts_at: int, interval: int) -> None:
        drawn = generator(seed, "hardware")
        self.seed, self.layout, self.starts_at, self.interval = seed, layout, starts_at, interval
        nodes = len(layout.nodes)
        self.intake = INTAKE_CELSIUS + drawn.normal(0, 0.8, nodes)
        self.order = np.argsort(layout.node_offsets, kind="stable")
        self.sensors = pl.DataFrame(
            {
                "device": [layout.nodes[index] for index in np.repeat(self.order, len(SENSORS))],
                "sensor": list(SENSORS) * nodes,
            },
            schema={"device": pl.String, "sensor": pl.String},
        )

    def hardware_sensor(self, number: int, block: Block, conditions: Conditions) -> pl.DataFrame:
        """Both supplies share the load; one whose feed is dead says so, and the other carries it all."""
        noise = generator(self.seed, "hardware_sensor", number)
        ticks = ticks_of(block.seconds, self.interval)
        shape = (len(ticks), len(self.layout.nodes))
        feeds = conditions.get("feed_on")
        live = np.ones((len(ticks), len(self.layout.pdus) + 1), dtype=np.bool_)
        if feeds is not None:
            live[:, :-1] = feeds[ticks]
        fed = live[:, self.layout.node_feeds]  # (ticks, nodes, 2); -1 is the one behind the last, which is live
        broken = conditions.get("supply_broken")
        if broken is not None:
            fed = fed & (broken[ticks][:, :, None] != np.array([1, 2]))
        drawn = block.node_watts[ticks]
        share = fed / np.maximum(fed.sum(axis=2, keepdims=True), 1)
        watts = np.round(drawn[:, :, None] * share * (1 + 0.005 * noise.standard_normal((*shape, 2))), 1)
        intake = np.round(self.intake + 0.1 * noise.standard_normal(shape), 1)
        rpm = np.round(IDLE_RPM + RPM_PER_KILOWATT * drawn / 1000 + 20 * noise.standard_normal(shape))
        none = np.full(shape, np.nan)
        readings = {
            "temperature_celsius": self._rows(intake, none, none, none),
            "fan_rpm": self._rows(none, rpm, none, none),
            "watts": self._rows(none, none, watts[:, :, 0], watts[:, :, 1]),
            "input_watts": self._rows(none, none, *np.round(watts / SUPPLY_EFFICIENCY, 1).transpose(2, 0, 1)),
        }
        healthy = np.ones(shape, dtype=np.bool_)
        well = pl.Series(self._rows(healthy, healthy, fed[:, :, 0], fed[:, :, 1]).ravel())
        health = well.replace_strict({True: "ok", False: "critical"}, return_dtype=pl.String)
        kept = np.repeat(np.asarray(fed.any(axis=2))[:, self.order], len(SENSORS), axis=1)
        times = self.starts_at + block.seconds[ticks].astype(np.int64) * 1_000_000
        offsets = np.repeat(self.layout.node_offsets[self.order], len(SENSORS))
        return sampled_rows("hardware_sensor", self.sensors, offsets, times, {**readings, "health": health}, kept)

    def _rows(self, *by_sensor: Array) -> Array:
        """(ticks, nodes) of each sensor to (ticks, nodes x sensors), in order of the nodes' offsets."""
        stacked = np.stack(by_sensor, axis=2)[:, self.order]
        return stacked.reshape(len(stacked), -1)
