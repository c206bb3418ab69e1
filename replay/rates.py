"""How much a count of false alarms says about a cluster of another size and another length of time."""

REFERENCE_GPUS = 24_576


def poisson_upper(count: int, confidence: float = 0.95) -> float:
    """The mean at which `count` or fewer would come with a chance of only 1 - confidence (Garwood 1936): 3.0 for 0."""
    from scipy import special  # type: ignore[import-untyped]  # noqa: PLC0415  # ships no types; a second to import

    return float(special.gammaincinv(count + 1, confidence))


def per_day(count: float, gpu_hours: float, gpus: int = REFERENCE_GPUS) -> float:
    """A count seen in so many GPU-hours, as a rate per day of a cluster of `gpus`. Raises ValueError without any."""
    if not gpu_hours > 0:
        raise ValueError("no GPU-hours were watched, so there is no rate")
    return count * gpus * 24.0 / gpu_hours
