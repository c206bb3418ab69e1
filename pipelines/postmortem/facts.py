"""All that a postmortem says, as plain data: what the pages are written from, and what `--json` gives."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from pipelines.bundles.bundle import Bundle
from pipelines.notify.runbooks import RUNBOOKS
from pipelines.outside_events import OutsideEvent, around
from pipelines.postmortem.blast import domains
from pipelines.postmortem.clocks import detected, ended, onset
from pipelines.postmortem.follow_ups import follow_ups
from pipelines.postmortem.otherwise import Otherwise
from pipelines.postmortem.timeline import timeline, times, told_at, verdict
from pipelines.wording import some, stands, why


def document(bundle: Bundle, dollars_per_gpu_hour: float, otherwise: Otherwise | None = None) -> dict[str, Any]:
    """Times are ISO 8601 in UTC, corrected for known clock skew; durations are seconds from the onset."""
    incident, (began, lag), measured = bundle.incident, onset(bundle), times(bundle)
    over = ended(bundle)
    until = over or bundle.manifest.ends_at
    rows = bundle.tables.get("outside_event")
    outside = () if rows is None else around(rows, incident, bundle.topology, onset=began, until=until)
    lost = len(incident.members) * max(0.0, (until - began).total_seconds())
    mine = sorted((one for one in bundle.actions if one.request.incident == incident.id), key=told_at)
    said = verdict(bundle)
    return {
        "incident": incident.id, "cause": incident.cause, "severity": incident.severity, "state": incident.state,
        "root": {"kind": incident.root_kind, "ids": list(incident.roots)}, "members": len(incident.members),
        "starts_at": _iso(began), "detected_at": _iso(detected(bundle)),
        "ends_at": None if over is None else _iso(over),
        "known_until": _iso(bundle.manifest.ends_at), "clock_corrected_seconds": lag.total_seconds(),
        "means": RUNBOOKS[incident.cause].summary if incident.cause in RUNBOOKS else "",
        "seconds": {"to_detect": measured.detect, "to_acknowledge": measured.acknowledge,
                    "to_mitigate": measured.mitigate, "to_resolve": measured.resolve},
        "impact": {
            "lost_gpu_seconds": lost, "dollars": round(lost / 3600 * dollars_per_gpu_hour, 2),
            "dollars_per_gpu_hour": dollars_per_gpu_hour,
            "symptoms": dict(Counter(kind for kind, _ in incident.symptoms)),
            "domains": [
                {"name": one.name, "gpus": one.members, "nodes": len(one.nodes), "root": one.is_root}
                for one in domains(incident, bundle.topology) if one.touched
            ],
        },
        "actions": dict(Counter(f"{one.request.kind}: {stands(one)}" for one in mine)),
        "done": [
            {"at": _iso(told_at(one)), "kind": one.request.kind, "target": one.request.target, "outcome": stands(one),
             "mode": one.mode, "why": why(one)}
            for one in mine
        ],
        "judged": None if said is None else {"word": said.kind, "by": said.by, "at": _iso(said.at), "why": said.text},
        "said": [{"at": _iso(one.at), "by": one.by, "kind": one.kind, "text": one.text} for one in bundle.remarks],
        "timeline": [
            {"at": _iso(one.at), "what": one.what, "who": one.who, "text": one.text, "link": one.link}
            for one in timeline(bundle, outside)
        ],
        "outside_events": [_told(one) for one in outside], "clocks": dict(bundle.manifest.lags),
        "evidence": [_seen(one) for one in incident.evidence],
        "otherwise": None if otherwise is None else otherwise.document,
        "follow_ups": list(follow_ups(bundle, measured, outside, otherwise)),
        "anonymised": bundle.manifest.anonymised,
        "versions": bundle.manifest.versions, "settings": bundle.manifest.settings,
    }  # fmt: skip


def summary(facts: dict[str, Any]) -> str:
    """What happened in a few sentences that need no knowledge of clusters."""
    root, count, seconds, impact = facts["root"], facts["members"], facts["seconds"], facts["impact"]
    ids = root["ids"]
    roots = some(ids)
    means = f": {facts['means'].rstrip('.')}" if facts["means"] else ""
    began = datetime.fromisoformat(facts["starts_at"])
    cause = facts["cause"].replace("_", " ")
    hours, dollars = impact["lost_gpu_seconds"] / 3600, impact["dollars"]
    took = (
        f"It took {count} GPU{'s' if count > 1 else ''}, {hours:,.1f} GPU-hours or ${dollars:,.2f}"
        f"{' so far' if facts['ends_at'] is None else ''}. " if count else "It took no GPU out of service. "
    )  # fmt: skip
    found = f"found {lasted(seconds['to_detect'])} after its onset" if seconds["to_detect"] >= 1 else "found at once"
    over = (
        "was not over when this was written" if seconds["to_resolve"] is None
        else f"was over after {lasted(seconds['to_resolve'])}"
    )  # fmt: skip
    return (
        f"On {began:%Y-%m-%d at %H:%M:%S} UTC, {cause} at {root['kind']} {roots}{means}. {took}"
        f"It was {found}, and {over}. {_handled(facts)}{_judged(facts)}"
    )


def _judged(facts: dict[str, Any]) -> str:
    one = facts["judged"]
    if one is None:
        return ""
    why = f": {one['why'].rstrip('.')}" if one["why"] else ""
    return f" Afterwards {one['by']} {one['word'].replace(' ', ' it ')}{why}."


def _handled(facts: dict[str, Any]) -> str:
    outcomes = Counter(one["outcome"] for one in facts["done"])
    if not outcomes:
        return "Recovery asked for nothing."
    words = {"done": "carried out", "dry-run": "rehearsed", "waiting_approval": "left waiting for approval"}
    told = ", ".join(f"{count} {words.get(outcome, outcome)}" for outcome, count in outcomes.most_common())
    return f"Of {outcomes.total()} recovery action{'s' if outcomes.total() > 1 else ''}: {told}."


def lasted(seconds: float | None) -> str:
    """1 h 02 min, 3 min 05 s, 2.4 s."""
    if seconds is None:
        return "not yet"
    if abs(seconds) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _seen(one: dict[str, Any]) -> dict[str, Any]:
    """A piece of evidence without what it does not say, and numbers as people read them."""
    values = one.get("values")
    if not isinstance(values, dict):
        return one
    said = {name: float(f"{value:.5g}") if isinstance(value, float) else value for name, value in values.items()}
    return {**one, "values": {name: value for name, value in said.items() if value is not None}}


def _told(one: OutsideEvent) -> dict[str, Any]:
    return {
        "at": _iso(one.at), "kind": one.row["kind"], "title": one.row["title"], "who": one.row["who"],
        "touches": one.row["touches"], "where": one.where, "seconds_before_onset": one.before.total_seconds(),
        "link": one.row["link"],
    }  # fmt: skip


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")
