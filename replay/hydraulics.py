"""Pumps in parallel on one loop.

Pump: head = H0 s^2 - a q^2 at speed share s (the affinity laws: flow goes with speed, head with its square, power
with its cube). Loop: head = k Q^2. Units are shares of the nominal point: both pumps at s = 1 give Q = 1, head = 1.
"""

import numpy as np

from replay.randomness import Floats

# a = 6 k for one pump: of two pumps one alone still moves sqrt(2.5 / 7) = 60 % of the flow. An assumption.
STEEPNESS = 6.0
# What still moves when every pump stands: natural circulation and the facility's own head. An assumption.
RESIDUAL_FLOW_SHARE = 0.05
COAST_DOWN_SECONDS = 1.5
NOMINAL_RPM = 2850.0
NOMINAL_HEAD_KPA = 150.0
PUMP_EFFICIENCY = 0.6


def loop_flow(speeds: Floats) -> Floats:
    """Speeds (loops, pumps), share of nominal -> flow (loops,), share of nominal.

    All pumps at one speed have a closed form; otherwise the flow at which heads agree is found by bisection.
    """
    pumps = speeds.shape[1]
    resistance = STEEPNESS
    shutoff = 1.0 + resistance / pumps**2
    low, high = np.zeros(len(speeds)), np.full(len(speeds), 2.0 * max(1.0, float(speeds.max(initial=0.0))))
    for _ in range(40):
        middle = (low + high) / 2
        given = np.sqrt(np.maximum(shutoff * speeds**2 - (middle**2)[:, None], 0.0) / resistance).sum(axis=1)
        low, high = np.where(given > middle, middle, low), np.where(given > middle, high, middle)
    return np.asarray(np.maximum((low + high) / 2, RESIDUAL_FLOW_SHARE), dtype=np.float64)


def head_of_pumps(flow: Floats, pumps: int = 2) -> Floats:
    """Head of pumps at nominal speed that move this flow together; both as shares of the nominal point."""
    return np.asarray(1.0 + STEEPNESS / pumps**2 * (1.0 - flow**2))


def pump_powers(speeds: Floats, nominal_flow_liters_per_minute: Floats) -> Floats:
    """Electrical watts of each pump (loops, pumps): the nominal hydraulic power shared, times the speed cubed."""
    hydraulic = NOMINAL_HEAD_KPA * 1e3 * nominal_flow_liters_per_minute / 60_000
    return np.asarray(hydraulic[:, None] / PUMP_EFFICIENCY / speeds.shape[1] * speeds**3)


def speed_after(speeds: Floats, targets: Floats, seconds: float = 1.0) -> Floats:
    """Shaft speed follows its target with the time constant of coasting down."""
    moved = targets + (speeds - targets) * np.exp(-seconds / COAST_DOWN_SECONDS)
    return np.where(np.abs(moved - targets) < 0.005, targets, moved)
