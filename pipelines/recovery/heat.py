"""How long a loop has, and how much flow a GPU needs: heat balance, nothing else. Pure.

Numbers: a cold plate with its GPU holds about 510 J/K; a loaded H100 SXM draws 700 W at 65 C and shuts itself down at
95 C; PG25 has 1.015 kg/L and 3,930 J/(kg K) (assumptions of domain.md 4.6, shown wherever the result is).
"""

from collections.abc import Mapping
from typing import Any

PLATE_JOULES_PER_KELVIN = 510.0
GPU_WATTS = 700.0
LOADED_CELSIUS, THROTTLE_CELSIUS, SHUTDOWN_CELSIUS = 65.0, 87.0, 95.0
COOLANT_KILOGRAMS_PER_LITER, COOLANT_JOULES_PER_KILOGRAM_KELVIN = 1.015, 3930.0
STAGE_SECONDS = 2.0  # a stage of a shutdown, its checkpoint included (ours)
FLOW_THAT_HOLDS = 0.5  # with half of its flow a loop warms but finds a new balance below its limits (ours)


def seconds_to_shutdown(values: Mapping[str, Any]) -> float | None:
    """From detection until GPUs of the loop shut themselves down, by what the pump detector saw; None: no time to name.

    seconds_to_throttle stretched to the shutdown limit; else full power into the plates, less what the flow that is
    left carries away.
    """
    flow, normal = _number(values.get("flow_liters_per_minute")), _number(values.get("normal_flow_liters_per_minute"))
    share = 0.0 if flow is None or not normal else max(0.0, flow / normal)
    if share >= FLOW_THAT_HOLDS:
        return None
    throttle = _number(values.get("seconds_to_throttle"))
    if throttle is not None:
        return throttle * (SHUTDOWN_CELSIUS - LOADED_CELSIUS) / (THROTTLE_CELSIUS - LOADED_CELSIUS)
    return PLATE_JOULES_PER_KELVIN * (SHUTDOWN_CELSIUS - LOADED_CELSIUS) / (GPU_WATTS * (1 - share))


def flow_liters_per_minute(watts: float = GPU_WATTS, rise_kelvin: float = 10.0) -> float:
    """Flow that carries the power away at that rise of temperature: Q = rho V cp dT; 1.05 L/min for 700 W at 10 K."""
    per_liter = COOLANT_KILOGRAMS_PER_LITER * COOLANT_JOULES_PER_KILOGRAM_KELVIN * rise_kelvin
    return 60.0 * watts / per_liter


def stages(gpus: tuple[str, ...], gpus_per_stage: int, gpus_per_node: int) -> tuple[tuple[str, ...], ...]:
    """Whole nodes, at most so many GPUs at a time (at least one node)."""
    size = max(1, gpus_per_stage // gpus_per_node) * gpus_per_node
    return tuple(gpus[begin : begin + size] for begin in range(0, len(gpus), size))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
