"""When a slow fault is seen, from its rate, the heat it moves and the formula that its detector documents.

Second by second and without noise; nothing of replay or detectors is used. What noise may shift is a part of the
threshold (three standard deviations of the means in the formula), so that each answer is a span of seconds.
"""

from collections.abc import Callable, Sequence
from itertools import count
from math import exp, sqrt

# A 700 W board under load stands 30 K above its inlet on a plate of 510 J/K, and idles at 92 W (domain.md 4.1, 4.6).
LOADED_WATTS, IDLE_WATTS, RISE_KELVIN, PLATE_JOULES_PER_KELVIN = 682.0, 92.0, 30.0, 510.0
ACTING_CELSIUS = 87.0
STREAM_WATTS_PER_KELVIN = 1.05 * 1.015 * 3930 / 60  # 1.05 L/min of PG25
PAUSE_SECONDS, PAUSE_SHARE = 6, 0.33  # a checkpoint, and what it leaves of the load
APPROACH_KELVIN, LOOP_SECONDS = 4.0, 60.0


def span(crossing: Callable[[float], int], threshold: float, noise: float) -> tuple[int, int]:
    """The first and the last second at which it may be crossed."""
    return crossing(threshold - noise), crossing(threshold + noise)


def toward(mean: float, value: float, every: float, over: float) -> float:
    """An exponential mean one sample later."""
    return mean + (value - mean) * every / (over + every)


def mean_noise(sample: float, every: float, over: float) -> float:
    """Standard deviation of an exponential mean of samples that each have this one."""
    weight = every / (over + every)
    return sample * sqrt(weight / (2 - weight))


def grown(second: float, begins: float, lasts: float) -> float:
    return min(max(second - begins, 0.0) / lasts, 1.0)


def watts(second: int, pauses: Sequence[int]) -> float:
    """Of a GPU whose job is held up for a checkpoint from each of these seconds on."""
    paused = any(begin <= second < begin + PAUSE_SECONDS for begin in pauses)
    return IDLE_WATTS + (LOADED_WATTS - IDLE_WATTS) * (PAUSE_SHARE if paused else 1.0)


def level_lost(percent: float, *, begins: int, percent_per_second: float) -> int:
    """When a mean of a reservoir's level over 10 s is so far below that of all the time before."""
    now = normal = 0.0
    for second in count(1):
        level = -max(0, second - begins) * percent_per_second
        now, normal = toward(now, level, 1, 10), normal + (level - normal) / (second + 1)
        if normal - now > percent:
            return second
    raise AssertionError


def flow_lost(share: float, *, begins: int, share_per_second: float) -> int:
    """When a mean of a loop's flow over 5 s is so far below that of all the time before, which follows at a tenth of
    its pace from half of it on.
    """
    now = normal = 1.0
    for second in count(1):
        flow = 1 - max(0, second - begins) * share_per_second
        now, lost = toward(now, flow, 1, 5), 1 - toward(now, flow, 1, 5) / normal
        if lost > share:
            return second
        normal += (flow - normal) / (second + 1) / (10 if lost > share / 2 else 1)
    raise AssertionError


def plate_resistance(clog: float, *, flow_left: float = 0.75, board: float = 1.0) -> float:
    """Kelvin per watt of a plate with so much of its flow and 10 % worse conduction when clogged: a heat exchanger of
    one stream, two thirds of its resistance conduction, the rest convection, which goes with flow to the power 0.8.
    board: its conduction over the usual.
    """
    flow = 1 - (1 - flow_left) * clog
    wall = 0.024 * board * (1 + 0.1 * clog) + 0.0118 * flow**-0.8
    stream = STREAM_WATTS_PER_KELVIN * flow
    return 1 / (stream * (1 - exp(-1 / (wall * stream))))


def throttles(*, inlet: float, begins: int, lasts: float, flow_left: float, pauses: Sequence[int]) -> tuple[int, int]:
    """The first and the last second at which a GPU may come to 87 degrees whose plate clogs: boards of one kind conduct
    21 % better to 21 % worse (three standard deviations of 7 %).
    """

    def hot(board: float) -> int:
        celsius = inlet + LOADED_WATTS * plate_resistance(0, board=board)
        for second in count():
            if celsius > ACTING_CELSIUS:
                return second
            clogged = plate_resistance(grown(second, begins, lasts), flow_left=flow_left, board=board)
            celsius += (watts(second, pauses) - (celsius - inlet) / clogged) / PLATE_JOULES_PER_KELVIN
        raise AssertionError

    return hot(1.21), hot(0.79)


def plate_clogged(drift: float, *, begins: int, lasts: float, pauses: Sequence[int]) -> int:
    """When its resistance is so far above its own normal, looked at every 10 s: (GPU - inlet) over a mean of power of
    22 s, a mean of that over 30 s, over the mean of all samples that are less than 8 % off.
    """
    rise, power, now, normal, seen = LOADED_WATTS * plate_resistance(0), LOADED_WATTS, 0.0, 0.0, 0
    for second in count():
        drawn, resistance = watts(second, pauses), plate_resistance(grown(second, begins, lasts))
        if second % 10 == 0:
            power = toward(power, drawn, 10, 22)
            sample = rise / power
            now = toward(now, sample, 10, 30) if seen else sample
            if seen < 6 or abs(sample / normal - 1) <= 0.08:
                seen += 1
                normal += (sample - normal) / seen
            if now / normal - 1 > drift:
                return second
        rise += (drawn - rise / resistance) / PLATE_JOULES_PER_KELVIN
    raise AssertionError


def exchanger_fouled(risen: float, *, begins: int, lasts: float, left: float, pauses: Sequence[int]) -> int:
    """When approach over heat, each a mean over 60 s, is so far above the mean of all before, which stands still from a
    quarter of the limit on. The plates take 22 s and the loop 60 s to follow.
    """
    conductance, exchanger = LOADED_WATTS / RISE_KELVIN, LOADED_WATTS / APPROACH_KELVIN
    supply, gpu = APPROACH_KELVIN, APPROACH_KELVIN + RISE_KELVIN  # above facility water
    approach, heat_now, normal = supply, LOADED_WATTS, supply / LOADED_WATTS
    for second in count(1):
        drawn, heat = watts(second, pauses), conductance * (gpu - supply)
        approach, heat_now = toward(approach, supply, 1, 60), toward(heat_now, heat, 1, 60)
        above = approach / heat_now / normal - 1
        if above > risen:
            return second
        if above <= 0.25 / 4:
            normal += (approach / heat_now - normal) / (second + 1)
        gpu += (drawn - heat) / PLATE_JOULES_PER_KELVIN
        share = 1 - (1 - left) * grown(second, begins, lasts)
        supply += (heat / (exchanger * share) - supply) / LOOP_SECONDS
    raise AssertionError


def meter_told(off: float, *, begins: int, lasts: float, shows: float, pauses: Sequence[int]) -> int:
    """When heat by the flow meter over power, each a mean over 60 s, has been so far below normal for 60 s; looked at
    every 10 s, and while power is steady alone: a mean over 30 s within 5 % of one over 200 s, for 60 s so far.
    """
    conductance, rise = LOADED_WATTS / RISE_KELVIN, RISE_KELVIN
    fast = slow = heat_now = power_now = LOADED_WATTS
    calm, seen, normal, since = 0, 0, 1.0, None
    for second in count():
        drawn, heat = watts(second, pauses), conductance * rise
        if second % 10 == 0:
            metered = heat * (1 - (1 - shows) * grown(second, begins, lasts))
            fast, slow = toward(fast, drawn, 10, 30), toward(slow, drawn, 10, 200)
            heat_now, power_now = toward(heat_now, metered, 10, 60), toward(power_now, drawn, 10, 60)
            calm = calm + 10 if abs(fast / slow - 1) <= 0.05 else 0
            below = 1 - heat_now / power_now / normal
            if calm >= 60 and abs(below) <= 0.05:
                seen += 1
                normal += (heat_now / power_now - normal) / seen
            elif calm >= 60:
                since = None if below <= off else second if since is None else since
                if since is not None and second - since >= 60:
                    return second
        rise += (drawn - heat) / PLATE_JOULES_PER_KELVIN
    raise AssertionError


def light_fades(fallen_db: float, significance: float, light: Callable[[int], float], *, every: int) -> int:
    """When a least-squares line through all samples of the light has fallen by so much, and its slope is so many times
    its error, which comes from second differences (six times the variance of a sample).
    """
    times, dbm = [0], [light(0)]
    for second in count(every, every):
        times.append(second)
        dbm.append(light(second))
        n = len(times)
        if n < 8:
            continue
        middle, mean = sum(times) / n, sum(dbm) / n
        spread = sum((at - middle) ** 2 for at in times)
        slope = sum((at - middle) * (each - mean) for at, each in zip(times, dbm, strict=True)) / spread
        bends = sum((a - 2 * b + c) ** 2 for a, b, c in zip(dbm, dbm[1:], dbm[2:], strict=False))
        error = sqrt((bends / 6 / (n - 2) + 0.01**2 / 12) / spread)
        if -slope * sqrt(12 * spread / n) >= fallen_db and -slope / error >= significance:
            return second
    raise AssertionError
