"""The cluster's physics, second by second: load, power, heat, coolant and the job, for all entities at once.

The state is carried from one block to the next; what is measured of it (noise, rounding, sampling) is added by the
*_tables modules and never flows back.
"""

from dataclasses import dataclass
from math import pi, sin

import numpy as np

from replay.conditions import PUMPS_PER_CDU, Conditions
from replay.hydraulics import loop_flow, speed_after
from replay.job import TrainingJob
from replay.layout import Layout
from replay.randomness import Flags, Floats, Integers, generator
from replay.scenario import Scenario
from replay.thermal import (
    CONDUCTION_KELVIN_PER_WATT,
    PLATE_LITERS_PER_MINUTE,
    SHUTDOWN_CELSIUS,
    WATTS_PER_KELVIN_PER_LITER_PER_MINUTE,
    clock_share_after,
    plate_conductance,
    power_share,
    temperature_after,
)

BOARD_LIMIT_WATTS = 700.0
LOADED_WATTS = 682.0
IDLE_WATTS = 92.0
# 10.2 kW at most for a node of 8 x 700 W (domain.md 1): fans, CPUs, HCAs and NVSwitches take what GPUs do not.
NODE_OVERHEAD_WATTS = 2800.0
APPROACH_KELVIN = 4.0  # facility water to coolant at nominal heat: 3 to 5 K (domain.md 4.6)
SPINNING = 0.45  # share of full load while waiting in a collective, as in job.activity
# Assumptions: a control valve is never shut, and moves as fast as a plate warms.
VALVE_SHARE_MINIMUM, VALVE_SECONDS = 0.3, 20.0
LOOP_SECONDS = 60.0  # time constant of the loop's volume behind the heat exchanger
FACILITY_CELSIUS, FACILITY_SWING_CELSIUS, WARMEST_HOUR = 30.0, 1.5, 15.0


def clock_share_at(limit_watts: Floats) -> Floats:
    """What a power limit leaves of the loaded clock: the inverse of thermal.power_share, 1 at 700 W."""
    return np.sqrt(np.clip((limit_watts - IDLE_WATTS) / (LOADED_WATTS - IDLE_WATTS), 0.03, 1.0))


@dataclass(frozen=True, eq=False)
class Block:
    """The truth of one block. t seconds x (g GPUs, n nodes, c CDUs, p PDUs); steps and shares as the job says them.

    heat: watts each plate gives to the coolant. valve: share of its opening of each branch valve. clock_share: 1 = not
    throttled. job_shares: (g,) per second, shared.
    """

    seconds: Floats
    alive: Flags
    node_on: Flags
    temperature: Floats
    power: Floats
    clock_share: Floats
    hardware_slowed: Flags
    heat: Floats
    flow: Floats
    inlet: Floats
    valve: Floats
    node_watts: Floats
    supply: Floats
    return_: Floats
    facility: Floats
    loop_flow: Floats
    loop_heat: Floats
    pump_speed: Floats
    activity: Floats
    job_steps: Integers
    job_step_seconds: Floats
    job_shares: tuple[Floats, ...]
    checkpoint_steps: Integers
    checkpoint_times: Floats
    checkpoints_completed: Flags
    shut_down: tuple[tuple[int, int], ...]


class Cluster:
    """Seeded state of every GPU, plate, loop and of the job. `advance` must be called for one block after the other."""

    def __init__(self, scenario: Scenario, layout: Layout) -> None:
        drawn = generator(scenario.seed, "cluster")
        self.layout, self.seed, self.starts_at = layout, scenario.seed, scenario.starts_at
        count = layout.gpus
        self.loaded_watts = np.clip(drawn.normal(LOADED_WATTS, 7.0, count), 655.0, 697.0)
        self.idle_watts = drawn.normal(IDLE_WATTS, 3.0, count)
        self.conduction = CONDUCTION_KELVIN_PER_WATT * np.clip(drawn.normal(1.0, 0.07, count), 0.8, 1.25)
        self.plate_flow = PLATE_LITERS_PER_MINUTE * np.clip(drawn.normal(1.0, 0.03, count), 0.9, 1.1)
        self.inlet_offset = drawn.normal(0.0, 0.15, count)
        self.job = TrainingJob.running(scenario.job, scenario.seed, layout.in_job)
        self.loop_of_gpu = np.where(layout.gpu_cdu < 0, len(layout.cdus), layout.gpu_cdu)
        nominal_heat = self._by_loop(np.full(count, LOADED_WATTS))
        self.exchanger_watts_per_kelvin = np.maximum(nominal_heat, 1.0) / APPROACH_KELVIN
        self.speeds = np.ones((len(layout.cdus), PUMPS_PER_CDU))
        self.clock_share, self.valve = np.ones(count), np.ones(count)
        self.shut_down = np.zeros(count, dtype=np.bool_)
        self._settle()

    def _settle(self) -> None:
        """Begin in the steady state of full load: the job has been running for hours."""
        power = np.where(self.layout.in_job, self.loaded_watts, self.idle_watts)
        self.supply = self.facility_celsius(0.0) + self._by_loop(power) / self.exchanger_watts_per_kelvin
        self.conductance = plate_conductance(self.plate_flow, self.conduction)
        self.temperature = self.inlet() + power / self.conductance

    def facility_celsius(self, second: float) -> float:
        """Facility water follows the day."""
        of_day = self.starts_at.hour * 3600 + self.starts_at.minute * 60 + self.starts_at.second + second
        return FACILITY_CELSIUS + FACILITY_SWING_CELSIUS * sin(2 * pi * (of_day / 86_400 - (WARMEST_HOUR - 6) / 24))

    def inlet(self) -> Floats:
        return (
            np.append(self.supply, self.facility_celsius(0.0) + APPROACH_KELVIN)[self.loop_of_gpu] + self.inlet_offset
        )

    def advance(self, block: int, conditions: Conditions) -> Block:
        """Sixty seconds (or however many the conditions have) from the carried state."""
        seconds, layout = conditions.seconds, self.layout
        node_on, alive = self._switched_on(conditions)
        noise = generator(self.seed, "load", block)
        common = 1 + 0.006 * noise.standard_normal(len(seconds))
        own = 1 + 0.006 * noise.standard_normal((len(seconds), layout.gpus), dtype=np.float32).astype(np.float64)
        kept, limits = _Kept(len(seconds), layout), conditions.get("board_limit_watts")
        for t, second in enumerate(seconds):
            alive[t] &= ~self.shut_down
            share = self._share_of_load(t, float(second), alive[t], conditions, kept)
            load = self.idle_watts + (self.loaded_watts - self.idle_watts) * share * common[t] * own[t]
            dynamic = (load - self.idle_watts) * power_share(self.clock_share * _clock_limit(t, conditions))
            limit = BOARD_LIMIT_WATTS if limits is None else limits[t]
            power = np.where(alive[t], np.clip(self.idle_watts + dynamic, 0.0, limit), 0.0)
            self._cool(t, float(second), power, conditions, kept)
            for gpu in np.flatnonzero(alive[t] & (self.temperature >= SHUTDOWN_CELSIUS)):
                self.shut_down[gpu] = True
                kept.shut_down.append((int(second), int(gpu)))
        return kept.block(seconds, alive, node_on)

    def _switched_on(self, conditions: Conditions) -> tuple[Flags, Flags]:
        """(t, n) nodes that run: switched on and fed by a PDU. (t, g) GPUs that answer: on the bus of such a node."""
        layout, length = self.layout, len(conditions.seconds)
        given, feeds = conditions.get("node_on"), conditions.get("feed_on")
        node_on = np.ones((length, len(layout.nodes)), dtype=np.bool_) if given is None else given.copy()
        if feeds is not None:
            fed = np.concatenate([feeds, np.ones((length, 1), dtype=np.bool_)], axis=1)
            node_on &= fed[:, layout.node_feeds[:, 0]] | fed[:, layout.node_feeds[:, 1]]
        alive = node_on[:, layout.gpu_node]
        on_bus = conditions.get("gpu_on")
        return node_on, alive if on_bus is None else alive & on_bus

    def _share_of_load(self, t: int, second: float, alive: Flags, conditions: Conditions, kept: "_Kept") -> Floats:
        """(g,) 1 = a rank at full load, 0 = idle. Lets the job advance on the way."""
        working, down = alive & self.layout.in_job, conditions.get("job_down")
        if down is not None and down[t]:
            working = np.zeros_like(working)
        slower = conditions.get("compute_factor")
        clock = self.clock_share * _clock_limit(t, conditions)
        slowdown = 1 / clock if slower is None else slower[t] / clock
        limits = conditions.get("board_limit_watts")
        if limits is not None:
            slowdown = slowdown / clock_share_at(limits[t])
        stuck, fails = conditions.get("rank_stuck"), conditions.get("saves_fail")
        hung = stuck is not None and bool((stuck[t] & working).any())
        lost = fails is not None and bool((fails[t] & working).any())
        slow_hop = conditions.get("communication_factor")
        kept.completed[t] = self.job.advance(
            second, working, slowdown, hung=hung, saves_fail=lost,
            communication_factor=1.0 if slow_hop is None else float(slow_hop[t]),
        )  # fmt: skip
        kept.activity[t] = self.job.activity(second) if working.any() else 0.0
        kept.remember_job(t, self.job)
        if hung and stuck is not None:  # the others spin in the collective, the stuck one does nothing
            kept.activity[t] = min(kept.activity[t], SPINNING)
            working &= ~stuck[t]
        return np.where(working, kept.activity[t], 0.0)

    def _cool(self, t: int, second: float, power: Floats, conditions: Conditions, kept: "_Kept") -> None:
        """Pumps, plates, loop and heat exchanger for one second."""
        target, choked = conditions.get("pump_target"), conditions.get("plate_flow_share")
        self.speeds = speed_after(self.speeds, np.ones_like(self.speeds) if target is None else target[t])
        flow_share = np.ones(len(self.speeds)) if (self.speeds == 1).all() else loop_flow(self.speeds)
        clogged = conditions.get("loop_flow_share")
        if clogged is not None:
            flow_share = flow_share * clogged[t]
        flow = self.plate_flow * np.append(flow_share, 1.0)[self.loop_of_gpu]
        if choked is not None:
            flow = flow * choked[t]
        moved = self._valves_moved(t, power, conditions)
        flow = flow * self.valve
        worse = conditions.get("plate_resistance_factor")
        conduction = self.conduction if worse is None else self.conduction * worse[t]
        touched = moved or any(each is not None for each in (worse, choked, target, clogged))
        if touched or not (self.speeds == 1).all():
            conductance = plate_conductance(flow, conduction)
        else:
            conductance = self.conductance
        inlet = self.inlet()
        heat = conductance * (self.temperature - inlet)
        kept.temperature[t], kept.power[t], kept.share[t] = self.temperature, power, self.clock_share
        kept.heat[t], kept.flow[t], kept.inlet[t], kept.valve[t] = heat, flow, inlet, self.valve
        self.temperature = temperature_after(self.temperature, power, heat)
        self.clock_share, kept.hardware[t] = clock_share_after(self.clock_share, self.temperature)
        loop_heat, loop_liters = self._by_loop(heat), self._by_loop(flow)
        warmer = conditions.get("facility_rise_kelvin")
        facility = self.facility_celsius(second) + (np.zeros(len(self.speeds)) if warmer is None else warmer[t])
        rise = loop_heat / (WATTS_PER_KELVIN_PER_LITER_PER_MINUTE * np.maximum(loop_liters, 1e-3))
        kept.supply[t], kept.return_[t], kept.facility[t] = self.supply, self.supply + rise, facility
        kept.loop_flow[t], kept.loop_heat[t], kept.speeds[t] = loop_liters, loop_heat, self.speeds
        fouled = conditions.get("exchanger_share")
        exchanger = self.exchanger_watts_per_kelvin * (1.0 if fouled is None else fouled[t])
        settled = facility + loop_heat / exchanger
        self.supply = self.supply + (settled - self.supply) / LOOP_SECONDS

    def _valves_moved(self, t: int, power: Floats, conditions: Conditions) -> bool:
        """Let the branch valves follow the power of their GPUs, where they do; whether any stands otherwise than open.

        A valve's flow goes with its opening, which goes with the load and is never below VALVE_SHARE_MINIMUM.
        """
        controlled, stuck = conditions.get("valve_controlled"), conditions.get("valve_stuck_at")
        wanted = np.ones(len(self.valve))
        if controlled is not None:
            load = np.clip((power - self.idle_watts) / (self.loaded_watts - self.idle_watts), 0.0, 1.0)
            wanted = np.where(controlled[t], VALVE_SHARE_MINIMUM + (1 - VALVE_SHARE_MINIMUM) * load, 1.0)
        self.valve = self.valve + (wanted - self.valve) / VALVE_SECONDS
        if stuck is not None:
            self.valve = np.where(stuck[t] >= 0, stuck[t], self.valve)
        self.valve = np.where(np.abs(self.valve - 1.0) < 1e-6, 1.0, self.valve)
        return bool((self.valve != 1.0).any())

    def _by_loop(self, values: Floats) -> Floats:
        """(g,) summed by CDU, (c,); what no CDU cools is left out."""
        count = len(self.layout.cdus)
        return np.bincount(self.loop_of_gpu, values, count + 1)[:count].astype(np.float64)


def _clock_limit(t: int, conditions: Conditions) -> Floats | float:
    """What is left of the clock for a reason other than heat: (g,), or 1 when nobody has touched it."""
    limit = conditions.get("clock_limit_share")
    return 1.0 if limit is None else limit[t]


class _Kept:
    """Buffers of one block, filled second by second."""

    def __init__(self, length: int, layout: Layout) -> None:
        self.layout = layout
        gpus, loops = (length, layout.gpus), (length, len(layout.cdus))
        self.temperature, self.power, self.share = np.empty(gpus), np.empty(gpus), np.empty(gpus)
        self.heat, self.flow, self.inlet, self.valve = (np.empty(gpus) for _ in range(4))
        self.hardware = np.zeros(gpus, dtype=np.bool_)
        self.supply, self.return_, self.facility = (np.empty(loops) for _ in range(3))
        self.loop_flow, self.loop_heat = np.empty(loops), np.empty(loops)
        self.speeds = np.empty((*loops, PUMPS_PER_CDU))
        self.activity, self.step_seconds, self.saved_at = (np.empty(length) for _ in range(3))
        self.steps, self.saved_steps = np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.int64)
        self.completed = np.zeros(length, dtype=np.bool_)
        self.job_shares: list[Floats] = []
        self.shut_down: list[tuple[int, int]] = []

    def remember_job(self, t: int, job: TrainingJob) -> None:
        self.steps[t], self.step_seconds[t] = job.step, job.step_seconds
        self.saved_steps[t], self.saved_at[t] = job.checkpoint_step, job.checkpoint_time
        self.job_shares.append(job.own_shares)

    def block(self, seconds: Floats, alive: Flags, node_on: Flags) -> Block:
        length, nodes = node_on.shape
        by_node = self.power.reshape(length, nodes, self.layout.slots).sum(axis=2)
        return Block(
            seconds=seconds, alive=alive, node_on=node_on, temperature=self.temperature, power=self.power,
            clock_share=self.share, hardware_slowed=self.hardware, heat=self.heat, flow=self.flow, inlet=self.inlet,
            valve=self.valve,
            node_watts=np.where(node_on, by_node + NODE_OVERHEAD_WATTS, 0.0), supply=self.supply, return_=self.return_,
            facility=self.facility, loop_flow=self.loop_flow, loop_heat=self.loop_heat, pump_speed=self.speeds,
            activity=self.activity, job_steps=self.steps, job_step_seconds=self.step_seconds,
            job_shares=tuple(self.job_shares), checkpoint_steps=self.saved_steps, checkpoint_times=self.saved_at,
            checkpoints_completed=self.completed, shut_down=tuple(self.shut_down),
        )  # fmt: skip
