"""How many spares, and how often to checkpoint: two old formulas, and what today's choice wastes. Pure.

Spares: failures are Poisson with a rate, each out for its repair; k spares suffice with probability P(N <= k), N
Poisson with mean rate x repair. Checkpoints: Young (1974) and Daly (2006) for a cost d, a mean time between failures
M and a restart R; waste = d / (tau + d) + (tau / 2 + R + detection) / M.
"""

from dataclasses import dataclass
from math import exp, sqrt

from pydantic import BaseModel, ConfigDict, Field

REFERENCE_PER_GPU_DAY = 11.6 / 24576  # 419 unexpected interruptions in 54 days on 16,384 GPUs (arXiv 2407.21783)


class CapacitySettings(BaseModel):
    """Section `capacity`. failures_per_gpu_day: used until enough is observed. repair_hours: until a node is back.
    target: with this probability no failure waits for a spare. checkpoint_stall_seconds, restart_seconds: what a
    checkpoint and a restart cost the job. observed_minimum: incidents before their rate is believed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    failures_per_gpu_day: float = Field(default=REFERENCE_PER_GPU_DAY, gt=0, lt=1)
    repair_hours: float = Field(default=24.0, gt=0)
    target: float = Field(default=0.99, gt=0, lt=1)
    dollars_per_gpu_hour: float = Field(default=2.0, ge=0)
    checkpoint_stall_seconds: float = Field(default=10.0, gt=0)
    restart_seconds: float = Field(default=180.0, ge=0)
    observed_minimum: int = Field(default=10, ge=1)
    observed_days: float = Field(default=30.0, gt=0)


def poisson_at_most(count: int, mean: float) -> float:
    """P(N <= count)."""
    if count < 0:
        return 0.0
    term = total = exp(-mean)
    for number in range(1, count + 1):
        term *= mean / number
        total += term
    return min(1.0, total)


def spares_needed(failures_per_day: float, repair_hours: float, target: float) -> int:
    """Fewest spares that suffice with the target's probability."""
    mean, count = failures_per_day * repair_hours / 24.0, 0
    assert mean < 600, "beyond what a sum of doubles can tell; such a pool is no pool"
    while poisson_at_most(count, mean) < target:
        count += 1
    return count


def shortage_probability(spares: int, failures_per_day: float, repair_hours: float) -> float:
    """That at some moment more nodes are out than there are spares."""
    return 1.0 - poisson_at_most(spares, failures_per_day * repair_hours / 24.0)


def young_seconds(cost_seconds: float, between_failures_seconds: float) -> float:
    return sqrt(2 * cost_seconds * between_failures_seconds)


def daly_seconds(cost_seconds: float, between_failures_seconds: float) -> float:
    """Young's interval with Daly's two correction terms; M itself where a checkpoint costs more than 2 M."""
    if cost_seconds >= 2 * between_failures_seconds:
        return between_failures_seconds
    share = cost_seconds / (2 * between_failures_seconds)
    return young_seconds(cost_seconds, between_failures_seconds) * (1 + sqrt(share) / 3 + share / 9) - cost_seconds


@dataclass(frozen=True)
class Regime:
    """cost: of a checkpoint. restart: until it trains again. detection: until anybody knows. All in seconds."""

    between_failures_seconds: float
    cost_seconds: float
    restart_seconds: float
    detection_seconds: float = 0.0


def waste(interval_seconds: float, regime: Regime) -> float:
    """Share of time that is not training with this interval; at most 1."""
    lost = interval_seconds / 2 + regime.restart_seconds + regime.detection_seconds
    total = regime.cost_seconds / (interval_seconds + regime.cost_seconds) + lost / regime.between_failures_seconds
    return min(1.0, total)
