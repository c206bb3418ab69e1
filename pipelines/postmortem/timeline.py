"""What happened when: onset, findings, state changes, actions, what people did, and planned work, in one order."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

import polars as pl

from pipelines.bundles.bundle import Bundle

# In the order in which things of one instant follow each other.
What = Literal["maintenance", "telemetry", "finding", "incident", "action", "person"]
FINDINGS_MAXIMUM = 40


@dataclass(frozen=True, kw_only=True)
class Entry:
    """who: detector, executor or person."""

    at: datetime
    what: What
    who: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds from the onset; None for what has not happened. mitigate: the first action done, or a person's word."""

    detect: float
    acknowledge: float | None
    mitigate: float | None
    resolve: float | None


def timeline(bundle: Bundle) -> tuple[Entry, ...]:
    """Every entry, oldest first."""
    entries = [*_incident(bundle), *_findings(bundle), *_actions(bundle), *_people(bundle), *_planned(bundle)]
    return tuple(sorted(entries, key=lambda one: (one.at, get_args(What).index(one.what), one.who, one.text)))


def times(bundle: Bundle) -> Times:
    incident = bundle.incident
    mine = [one for one in bundle.actions if one.request.incident == incident.id and one.outcome == "done"]
    said = {kind: [one.at for one in bundle.remarks if one.kind == kind] for kind in ("acknowledged", "mitigating")}
    done = [*(one.at for one in mine), *said["mitigating"]]

    def since(moments: list[datetime]) -> float | None:
        return (min(moments) - incident.starts_at).total_seconds() if moments else None

    return Times(
        detect=(incident.detected_at - incident.starts_at).total_seconds(),
        acknowledge=since(said["acknowledged"]), mitigate=since(done),
        resolve=since([] if incident.ends_at is None else [incident.ends_at]),
    )  # fmt: skip


def _incident(bundle: Bundle) -> Iterator[Entry]:
    incident = bundle.incident
    yield Entry(at=incident.starts_at, what="telemetry", who="telemetry", text="onset, as estimated from the data")
    fired = f"{incident.cause} of {incident.root_kind} {', '.join(incident.roots[:5])}: {incident.severity}"
    yield Entry(at=incident.detected_at, what="incident", who="hotspare", text=fired)
    if incident.ends_at is not None:
        yield Entry(at=incident.ends_at, what="incident", who="hotspare", text="over: root and members have recovered")


def _findings(bundle: Bundle) -> Iterator[Entry]:
    """Of the incident's own entities. Many of one kind in one second are one entry."""
    incident = bundle.incident
    names = [*incident.roots, *incident.members, *(entity for _, entity in incident.symptoms)]
    if bundle.findings.is_empty():
        return
    mine = bundle.findings.filter(
        pl.col("entity").is_in(names) & (pl.col("time") >= incident.starts_at - timedelta(seconds=60))
    )
    grouped = (
        mine.sort("time", "entity")
        .group_by(pl.col("time").dt.truncate("1s"), "detector", "cause", "active", maintain_order=True)
        .agg(pl.len(), pl.col("entity").first(), pl.col("code").first(), first=pl.col("time").first())
    )
    for row in grouped.head(FINDINGS_MAXIMUM).iter_rows(named=True):
        others = f" and {row['len'] - 1} more" if row["len"] > 1 else ""
        verb = "begins" if row["active"] else "ends"
        code = "" if row["code"] is None or row["code"] == row["cause"] else f" ({row['code']})"
        text = f"{row['cause']}{code} {verb}: {row['entity']}{others}"
        yield Entry(at=row["first"], what="finding", who=row["detector"], text=text)
    if grouped.height > FINDINGS_MAXIMUM:
        last = grouped.row(FINDINGS_MAXIMUM - 1, named=True)["first"]
        left = grouped.height - FINDINGS_MAXIMUM
        yield Entry(at=last, what="finding", who="hotspare", text=f"{left} further changes of level are not listed")


def _actions(bundle: Bundle) -> Iterator[Entry]:
    for record in bundle.actions:
        if record.request.incident == bundle.incident.id:
            text = f"{record.request.kind} of {record.request.target}: {record.outcome}"
            yield Entry(
                at=record.at, what="action", who=record.mode, text=f"{text} ({record.why})" if record.why else text
            )


def _people(bundle: Bundle) -> Iterator[Entry]:
    for one in bundle.remarks:
        text = one.text if one.kind == "note" else f"{one.kind}: {one.text}".removesuffix(": ")
        yield Entry(at=one.at, what="person", who=one.by, text=text)


def _planned(bundle: Bundle) -> Iterator[Entry]:
    rows = bundle.tables.get("maintenance")
    if rows is None:
        return
    for row in rows.iter_rows(named=True):
        until = "open" if row["ends_at"] is None else f"until {row['ends_at']:%H:%M:%S}"
        reason = f": {row['reason']}" if row["reason"] else ""
        text = f"{row['kind']} {row['id']}, {until}{reason}"
        yield Entry(at=row["starts_at"], what="maintenance", who="plan", text=text)
