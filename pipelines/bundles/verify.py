"""Whether a bundle judged again gives what was decided at the time, and where the two part if they do not."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from detectors.contract import FINDING_COLUMNS
from pipelines.bundles.bundle import Bundle
from pipelines.bundles.export import versions
from pipelines.rejudge import COMPARED, Rejudged
from schemas.incident import Incident

# A suspicion that is confirmed at the very beginning of the window was begun before it.
SETTLING = timedelta(seconds=60)


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """at: event time. what: in words, then and now. cause: why it may be, most likely first."""

    at: datetime
    what: str
    cause: str


def divergence(bundle: Bundle, again: Rejudged) -> Divergence | None:
    """The first difference in the findings about the incident's entities, then in the incident and its actions.

    Compared from the incident's onset on: what was found before is the detectors' warming up.
    """
    incident = bundle.incident
    since = incident.starts_at - SETTLING
    names = {*incident.roots, *incident.members, *(entity for _, entity in incident.symptoms)}
    then, now = (_about(frame, names, since, again.until) for frame in (bundle.findings, again.findings))
    columns = list(COMPARED)
    missing = then.join(now, on=columns, how="anti", nulls_equal=True)
    added = now.join(then, on=columns, how="anti", nulls_equal=True)
    first = pl.concat([missing.with_columns(side=pl.lit("then")), added.with_columns(side=pl.lit("now"))]).sort("time")
    if not first.is_empty():
        row = first.row(0, named=True)
        said = f"{row['detector']} said {row['cause']} of {row['entity']} {'begins' if row['active'] else 'ends'}"
        only = "then, and not now" if row["side"] == "then" else "now, and not then"
        return Divergence(at=row["time"], what=f"{said} {only}", cause=_why(bundle))
    other = _counterpart(incident, again)
    if other is None:
        what = f"no incident of {incident.cause} at {_short(incident.roots)} now"
        return Divergence(at=incident.detected_at, what=what, cause=_why(bundle))
    for name in ("cause", "severity", "roots", "members", "starts_at", "detected_at", "ends_at"):
        before, after = getattr(incident, name), getattr(other, name)
        if before != after and not (name == "ends_at" and before is None):
            return Divergence(at=incident.detected_at, what=f"{name}: {_short(before)} then, {_short(after)} now",
                              cause=_why(bundle))  # fmt: skip
    then_asked = {
        (one.request.kind, one.request.target) for one in bundle.actions if one.request.incident == incident.id
    }
    now_asked = {(one.request.kind, one.request.target) for one in again.actions if one.request.incident == other.id}
    for kind, target in sorted(then_asked ^ now_asked):
        only = "then, and not now" if (kind, target) in then_asked else "now, and not then"
        return Divergence(at=incident.detected_at, what=f"{kind} of {target} was asked for {only}", cause=_why(bundle))
    return None


def _counterpart(incident: Incident, again: Rejudged) -> Incident | None:
    """The same incident now. Ids come from names, which an anonymised bundle has others of."""
    same = (one for one in again.incidents.values() if (one.cause, one.roots) == (incident.cause, incident.roots))
    return again.incidents.get(incident.id) or next(same, None)


def _about(findings: pl.DataFrame, names: set[str], since: datetime, until: datetime | None) -> pl.DataFrame:
    if findings.is_empty() or until is None:
        return pl.DataFrame(schema=pl.Schema({name: FINDING_COLUMNS[name] for name in COMPARED}))
    inside = pl.col("entity").is_in(list(names)) & (pl.col("time") >= since) & (pl.col("time") < until)
    return findings.filter(inside).select(COMPARED)


def _why(bundle: Bundle) -> str:
    changed = [
        f"{name} {there} then, {versions().get(name)} now"
        for name, there in bundle.manifest.versions.items()
        if name in {"hotspare", "polars", "numpy", "scikit-learn"} and versions().get(name) != there
    ]
    reasons = [f"version: {', '.join(changed)}"] if changed else []
    if bundle.manifest.late_rows:
        reasons.append(f"late data: {bundle.manifest.late_rows} rows of this time came too late to be judged")
    if bundle.manifest.sliced:
        reasons.append("slice: peers outside of the bundle, or history before it, were judged along then")
    return "; ".join(reasons) or "unknown"


def _short(value: Any) -> str:
    return f"{len(value)} entries" if isinstance(value, tuple) and len(value) > 3 else str(value)
