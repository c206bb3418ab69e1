"""How much a count of false alarms says about a cluster of another size and another length of time."""

from math import exp

REFERENCE_GPUS = 24_576
BISECTIONS = 200


def poisson_upper(count: int, confidence: float = 0.95) -> float:
    """The mean at which `count` or fewer would come with a chance of only 1 - confidence (Garwood 1936): 3.0 for 0."""
    low, high = 0.0, 10.0 + 3.0 * count
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        term = total = exp(-middle)
        for number in range(1, count + 1):
            term *= middle / number
            total += term
        low, high = (middle, high) if total > 1 - confidence else (low, middle)
    return high


def per_day(count: float, gpu_hours: float, gpus: int = REFERENCE_GPUS) -> float:
    """A count seen in so many GPU-hours, as a rate per day of a cluster of `gpus`. Raises ValueError without any."""
    if not gpu_hours > 0:
        raise ValueError("no GPU-hours were watched, so there is no rate")
    return count * gpus * 24.0 / gpu_hours
