"""How long a leak may run before its loop is isolated: what its reservoir loses, nothing else. Pure.

An isolated loop has no flow, and a GPU at full load then throttles 16 s later (22 K of a plate of 510 J/K at 700 W). A
checkpoint takes longer (heat.CHECKPOINT_SECONDS), so it and the shutdown come before, while coolant still flows. What
runs out meanwhile for their sake is bounded: no more than had to run out before the leak was seen.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from pipelines.recovery.heat import number
from schemas.incident import Incident

SPILL_PERCENT = 1.5  # what a level must lose before coolant.leak calls it falling: 0.75 L of a reservoir of 50 L
PEOPLE_SECONDS = 120.0  # a slow leak waits so long for people, for it may become a fast one (ours)


def seconds_to_isolation(values: Mapping[str, Any], saving_seconds: float) -> float:
    """From the page on. saving_seconds: of a checkpoint and a shutdown, which a leak gets that no level gauge sees."""
    rate = number(values.get("level_lost_percent_per_minute"))
    if rate is None:
        return saving_seconds
    return PEOPLE_SECONDS if rate <= 0 else min(PEOPLE_SECONDS, 60.0 * SPILL_PERCENT / rate)


def paged_at(incident: Incident) -> datetime:
    """When it became a page: of a leak, when a second sign joined the first. Any other is what it was when detected."""
    own = next((one for one in incident.evidence if one.get("entity") in incident.roots), {})
    values = own.get("values")
    after = number(values.get("seconds_since_first_sign")) if isinstance(values, dict) else None
    if after is None:
        return incident.detected_at
    return max(incident.detected_at, datetime.fromisoformat(own["first_bad_at"]) + timedelta(seconds=after))
