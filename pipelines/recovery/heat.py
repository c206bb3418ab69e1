"""How long a loop has, and how much flow a GPU needs: heat balance, nothing else. Pure.

The time left is that of detectors.coolant.time_left, which the pump detector reads too: a deadline for people and what
the page says are one number. PG25 has 1.015 kg/L and 3,930 J/(kg K) (assumptions of domain.md 4.6).
"""

from collections.abc import Mapping
from typing import Any

from detectors.coolant import time_left

COOLANT_KILOGRAMS_PER_LITER, COOLANT_JOULES_PER_KILOGRAM_KELVIN = 1.015, 3930.0
STAGE_SECONDS = 2.0  # a stage of a shutdown (ours)
CHECKPOINT_SECONDS = 20.0  # of the whole cluster, before the first stage (ours)


def seconds_to_shutdown(values: Mapping[str, Any]) -> float | None:
    """From detection until GPUs of the loop shut themselves down, as the pump detector said; None: they never do.

    For evidence without it: from full load on, with the share of flow that was seen, or with none at all.
    """
    if "seconds_to_shutdown" in values:
        return number(values["seconds_to_shutdown"])
    flow, normal = number(values.get("flow_liters_per_minute")), number(values.get("normal_flow_liters_per_minute"))
    share = 0.0 if flow is None or not normal else max(0.0, flow / normal)
    return time_left.seconds_to_shutdown(share)


def flow_liters_per_minute(watts: float = time_left.GPU_WATTS, rise_kelvin: float = 10.0) -> float:
    """Flow that carries the power away at that rise of temperature: Q = rho V cp dT; 1.05 L/min for 700 W at 10 K."""
    per_liter = COOLANT_KILOGRAMS_PER_LITER * COOLANT_JOULES_PER_KILOGRAM_KELVIN * rise_kelvin
    return 60.0 * watts / per_liter


def stages(gpus: tuple[str, ...], gpus_per_stage: int, gpus_per_node: int) -> tuple[tuple[str, ...], ...]:
    """Whole nodes, at most so many GPUs at a time (at least one node)."""
    size = max(1, gpus_per_stage // gpus_per_node) * gpus_per_node
    return tuple(gpus[begin : begin + size] for begin in range(0, len(gpus), size))


def number(value: object) -> float | None:
    """A number of somebody's evidence; None for whatever else stands there."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
