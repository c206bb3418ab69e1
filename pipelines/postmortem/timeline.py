"""What happened when: onset, findings, state changes, actions, what people did, planned work and outside events, in one
order, with known clock skew taken out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

import polars as pl

from pipelines.bundles.bundle import Bundle, Saying
from pipelines.outside_events import OutsideEvent, Where, named
from pipelines.postmortem.clocks import BY_WATERMARK, detected, ended, lag_of, note, onset
from pipelines.wording import is_only_logged, some, stands, why
from schemas.action import ActionRecord

# In the order in which things of one instant follow each other.
What = Literal["maintenance", "outside", "telemetry", "finding", "incident", "person", "action"]
FINDINGS_MAXIMUM = 40
TARGETS_MAXIMUM = 6
LISTED_MAXIMUM = 200  # actions, planned works and outside events, of each: a page has to stay one that is read


@dataclass(frozen=True, kw_only=True)
class Entry:
    """at: corrected for known clock skew, which text then says. who: detector, executor or person. link: to more."""

    at: datetime
    what: What
    who: str
    text: str
    link: str | None = None


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds from the onset; None for what has not happened. mitigate: the first action done (not one that was only
    logged), or a person's word.
    """

    detect: float
    acknowledge: float | None
    mitigate: float | None
    resolve: float | None


def timeline(bundle: Bundle, outside: Sequence[OutsideEvent]) -> tuple[Entry, ...]:
    """Every entry, oldest first. outside: the events that belong to the incident."""
    told = (_incident, _findings, _actions, _people, _planned)
    entries = [entry for each in told for entry in each(bundle)] + list(_outside(outside))
    return tuple(sorted(entries, key=lambda one: (one.at, get_args(What).index(one.what), one.who, one.text)))


def times(bundle: Bundle) -> Times:
    incident, (began, _), over = bundle.incident, onset(bundle), ended(bundle)
    mine = [one for one in bundle.actions if one.request.incident == incident.id and one.outcome == "done"]
    mine = [one for one in mine if not is_only_logged(one)]
    said = {kind: [one.at for one in bundle.remarks if one.kind == kind] for kind in ("acknowledged", "mitigating")}
    done = [*(told_at(one) for one in mine), *said["mitigating"]]

    def since(moments: list[datetime]) -> float | None:
        return (min(moments) - began).total_seconds() if moments else None

    return Times(
        detect=(detected(bundle) - began).total_seconds(),
        acknowledge=since(said["acknowledged"]), mitigate=since(done),
        resolve=since([] if over is None else [over]),
    )  # fmt: skip


def verdict(bundle: Bundle) -> Saying | None:
    """The last word that people said on whether there was something; None where nobody did."""
    return next((one for one in reversed(bundle.remarks) if one.kind in {"judged true", "judged false"}), None)


def _incident(bundle: Bundle) -> Iterator[Entry]:
    incident, (began, lag) = bundle.incident, onset(bundle)
    text = f"onset, as estimated from the data{note(lag, incident.starts_at)}"
    yield Entry(at=began, what="telemetry", who="telemetry", text=text)
    fired = f"{incident.cause} of {incident.root_kind} {', '.join(incident.roots[:5])}: {incident.severity}"
    yield Entry(at=detected(bundle), what="incident", who="hotspare", text=fired)
    if incident.ends_at is not None and (over := ended(bundle)) is not None:
        text = f"over: root and members have recovered{note(over - incident.ends_at, incident.ends_at)}"
        yield Entry(at=over, what="incident", who="hotspare", text=text)


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
        lag = timedelta(0) if row["detector"] in BY_WATERMARK else lag_of(bundle, row["entity"])
        text = f"{row['cause']}{code} {verb}: {row['entity']}{others}{note(lag, row['first'])}"
        yield Entry(at=row["first"] + lag, what="finding", who=row["detector"], text=text)
    if grouped.height > FINDINGS_MAXIMUM:
        last = grouped.row(FINDINGS_MAXIMUM - 1, named=True)["first"]
        left = grouped.height - FINDINGS_MAXIMUM
        yield Entry(at=last, what="finding", who="hotspare", text=f"{left} further changes of level are not listed")


def told_at(record: ActionRecord) -> datetime:
    """An action has the time of the telemetry, which may lag behind the clocks of those who approved it: it is told
    after the last of them.
    """
    approved = record.request.parameters.get("approved_at")
    return record.at if approved is None else max(record.at, datetime.fromisoformat(approved))


def _actions(bundle: Bundle) -> Iterator[Entry]:
    """Those of one kind and outcome at one time are one entry."""
    together: dict[tuple[datetime, datetime, str, str, str], list[ActionRecord]] = {}
    for record in bundle.actions:
        if record.request.incident == bundle.incident.id:
            key = (told_at(record), record.at, record.mode, record.request.kind, stands(record))
            together.setdefault(key, []).append(record)
    listed = sorted(together.items(), key=lambda one: one[0][0])
    for (at, seen_at, mode, kind, outcome), records in listed[:LISTED_MAXIMUM]:
        targets = sorted(record.request.target for record in records)
        lag = "" if at == seen_at else f" (telemetry was at {seen_at:%H:%M:%S})"
        text = f"{kind} of {some(targets, TARGETS_MAXIMUM)}: {outcome} ({why(records[0])}){lag}"
        yield Entry(at=at, what="action", who=mode, text=text)


def _people(bundle: Bundle) -> Iterator[Entry]:
    for one in bundle.remarks:
        text = one.text if one.kind == "note" else f"{one.kind}: {one.text}".removesuffix(": ")
        yield Entry(at=one.at, what="person", who=one.by, text=text)


def _planned(bundle: Bundle) -> Iterator[Entry]:
    """What is planned for the incident's entities and the domains that hold them first, where not all can be listed."""
    rows = bundle.tables.get("maintenance")
    if rows is None:
        return
    names = named(bundle.incident, bundle.topology)
    ordered = sorted(rows.iter_rows(named=True), key=lambda row: (row["kind"], row["id"]) not in names)
    for row in ordered[:LISTED_MAXIMUM]:
        until = "open" if row["ends_at"] is None else f"until {row['ends_at']:%H:%M:%S}"
        reason = f": {row['reason']}" if row["reason"] else ""
        text = f"{row['kind']} {row['id']}, {until}{reason}"
        yield Entry(at=row["starts_at"], what="maintenance", who="plan", text=text)


def _outside(found: Sequence[OutsideEvent]) -> Iterator[Entry]:
    """Those that touch it first, where not all can be listed."""
    for one in sorted(found, key=lambda one: get_args(Where).index(one.where))[:LISTED_MAXIMUM]:
        yield Entry(at=one.at, what="outside", who=one.row["who"] or "unknown", text=one.text, link=one.row["link"])
