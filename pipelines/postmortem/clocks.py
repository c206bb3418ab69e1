"""Known clock skew: where a node's rows came later than others', what its own clock said is put right.

The lag is measured from messages (pipelines.sources.arrival_lags), which cannot tell a slow clock from a slow way; the
note beside a corrected time says what it was. What a detector says of silence is by the watermark, and right already.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import polars as pl

from pipelines.bundles.bundle import Bundle
from schemas.incident import Incident
from schemas.topology import node_of

BY_WATERMARK = frozenset({"job.heartbeat", "telemetry.stale", "telemetry.clock_skew"})


def lag_of(bundle: Bundle, entity: str) -> timedelta:
    """How far the clock of the entity's host is behind; zero where that is not known."""
    return timedelta(seconds=bundle.manifest.lags.get(node_of(entity), 0.0))


def onset(bundle: Bundle) -> tuple[datetime, timedelta]:
    """The incident's onset by the clock of the others, and what was added; an onset of several hosts is left alone."""
    lags = {node: timedelta(seconds=seconds) for node, seconds in bundle.manifest.lags.items()}
    lag = lag_of_onset(bundle.incident, lags)
    return bundle.incident.starts_at + lag, lag


def lag_of_onset(incident: Incident, lags: Mapping[str, timedelta]) -> timedelta:
    """What has to be added to the incident's onset. lags: how far clocks are behind, by node."""
    hosts = {node_of(root) for root in incident.roots} if incident.root_kind in {"gpu", "node"} else set()
    return lags.get(hosts.pop(), timedelta(0)) if len(hosts) == 1 else timedelta(0)


def detected(bundle: Bundle) -> datetime:
    """When it fired, by the clock of the others."""
    incident = bundle.incident
    first = incident.evidence[0].get("detector") if incident.evidence else None
    return incident.detected_at if first in BY_WATERMARK else incident.detected_at + onset(bundle)[1]


def ended(bundle: Bundle) -> datetime | None:
    """When it was over, by the clock of the others; None while it lasts. An end that no statement of a level gave, or
    those of several clocks, is left alone.
    """
    incident = bundle.incident
    if incident.ends_at is None or bundle.findings.is_empty():
        return incident.ends_at
    names = [*incident.roots, *incident.members, *(entity for _, entity in incident.symptoms)]
    said = bundle.findings.filter(~pl.col("active"), pl.col("entity").is_in(names), time=incident.ends_at)
    lags = {
        timedelta(0) if detector in BY_WATERMARK else lag_of(bundle, entity)
        for detector, entity in said.select("detector", "entity").iter_rows()
    }
    return incident.ends_at + lags.pop() if len(lags) == 1 else incident.ends_at


def note(lag: timedelta, said: datetime) -> str:
    """Beside a corrected time; empty where there was nothing to correct."""
    if not lag:
        return ""
    off = f"{abs(lag.total_seconds()):g} s {'slow' if lag > timedelta(0) else 'fast'}"
    return f" (clock {off}, corrected from {said:%H:%M:%S.%f}"[:-3] + ")"
