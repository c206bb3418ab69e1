"""Pacing of a replay: arithmetic alone. Whoever replays reads the clock and sleeps."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Pace:
    """event_start was at wall_start; from there event time runs `speed` times as fast. None: as fast as can be.

    Raises ValueError for a speed that is not positive.
    """

    event_start: datetime
    wall_start: datetime
    speed: float | None = 1.0

    def __post_init__(self) -> None:
        if self.speed is not None and not self.speed > 0:
            raise ValueError(f"speed must be above 0 or max, not {self.speed}")

    def due(self, event_time: datetime) -> datetime:
        """Wall time at which an event of that time is to happen."""
        if self.speed is None:
            return self.wall_start
        return self.wall_start + timedelta(seconds=(event_time - self.event_start).total_seconds() / self.speed)

    def seconds_to_wait(self, event_time: datetime, now: datetime) -> float:
        """How long to sleep at wall time `now` before the event; 0 when it is due or overdue."""
        return max(0.0, (self.due(event_time) - now).total_seconds())


def parse_speed(text: str) -> float | None:
    """`max` (None), `10`, `10x` or `0.5`. Raises ValueError, one line."""
    if text == "max":
        return None
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        raise ValueError(f"speed {text!r} is not a number: use max, 1, 10x or 0.5") from None
    if not 0 < speed < float("inf"):
        raise ValueError(f"speed {text!r} must be above 0 or max")
    return speed
