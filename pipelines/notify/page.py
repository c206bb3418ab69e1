"""What a person reads at three in the morning: what is wrong, where, since when, what was done, what to do next. Pure.

Every name in it is data from telemetry: control characters are taken out, lengths are bounded, nothing is markup.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pipelines.notify.runbooks import RUNBOOKS
from pipelines.wording import about, printable, some, stands
from schemas.action import ActionRecord
from schemas.incident import Incident
from schemas.topology import node_of

SHOWN = 8
FIRST = ("shuts_down_at", "throttles_at", "hours_left")  # what must not be cut off: how long there is
NAME_LENGTH = 80
Labels = dict[str, str]


@dataclass(frozen=True)
class Page:
    """labels: for routing and grouping; one incident is one group. starts_at, ends_at: event times."""

    incident: str
    title: str
    text: str
    labels: Labels
    runbook: str
    starts_at: datetime
    ends_at: datetime | None


def page_of(incident: Incident, records: Sequence[ActionRecord], runbooks: str) -> Page:
    """records: what recovery decided for the incident, in the order planned."""
    roots = some([f"{incident.root_kind} {clean(root)}" for root in incident.roots])
    state = "RESOLVED" if incident.state == "resolved" else incident.severity.upper()
    labels = {
        "alertname": incident.cause, "incident": incident.id, "severity": incident.severity, "cause": incident.cause,
        "domain": f"{incident.root_kind}:{clean(incident.roots[0]) if incident.roots else ''}",
    }  # fmt: skip
    runbook = f"{runbooks.rstrip('/')}/{incident.cause}.md"
    return Page(
        incident=incident.id, title=f"[{state}] {incident.cause} at {roots}",
        text=_text(incident, records, roots, runbook),
        labels=labels, runbook=runbook, starts_at=incident.detected_at, ends_at=incident.ends_at,
    )  # fmt: skip


def _text(incident: Incident, records: Sequence[ActionRecord], roots: str, runbook: str) -> str:
    after = (incident.detected_at - incident.starts_at).total_seconds()
    known = RUNBOOKS.get(incident.cause)
    lines = [
        f"Cause: {incident.cause}{f' ({known.summary})' if known else ''}",
        f"Root: {roots}",
        f"Began {incident.starts_at:%Y-%m-%d %H:%M:%S} UTC, detected {after:.1f} s later",
        f"GPUs: {len(incident.members) or 'none out of service'}{_nodes(incident)}",
    ]
    if incident.merged_into:
        lines.append(f"Part of {incident.merged_into}")
    if incident.ends_at is not None:
        lines.append(f"Ended {incident.ends_at:%Y-%m-%d %H:%M:%S} UTC")
    lines += ["Evidence:", *(_some_lines([_evidence(one) for one in incident.evidence], 3))]
    lines += ["Recovery:", *(_some_lines([_action(one) for one in records], SHOWN))]
    lines += [f"Next: {_next(incident, records, known.first if known else '')}", f"Runbook: {runbook}"]
    return "\n".join(lines)


def _next(incident: Incident, records: Sequence[ActionRecord], first: str) -> str:
    if incident.state == "resolved":
        return "nothing; what was taken out returns by itself once it has stayed clean"
    waiting = [one for one in records if one.outcome == "waiting_approval"]
    if waiting:
        asked = waiting[0].request
        also = f"; also: {first}" if first else ""
        return f"approve or reject {asked.id} ({asked.kind}): hotspare actions approve {asked.id}, or reject{also}"
    failed = [one for one in records if one.outcome == "failed"]
    if failed:
        what = f"{failed[0].request.kind} of {clean(failed[0].request.target)}"
        return f"{what} failed and is not tried again: do it by hand"
    return first or "see the runbook"


def _nodes(incident: Incident) -> str:
    nodes = list(dict.fromkeys(clean(node_of(gpu)) for gpu in incident.members))
    return f" on {some(nodes)}" if nodes else ""


def _evidence(said: dict[str, object]) -> str:
    values = said.get("values")
    shown = ""
    if isinstance(values, dict):
        ordered = sorted(values.items(), key=lambda one: one[0] not in FIRST)
        shown = ", ".join(f"{name} {_number(value)}" for name, value in ordered if value is not None)
    what = f"{said.get('detector')}: {clean(str(said.get('entity')))} {clean(str(said.get('code') or ''))}"
    return f"{what} {clean(shown, 200)}".rstrip()


def _number(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def _action(record: ActionRecord) -> str:
    request = record.request
    return f"{request.kind} {clean(request.target)}: {stands(record)} ({clean(about(record), 240)})"


def _some_lines(lines: Sequence[str], most: int) -> list[str]:
    shown = [f"- {line}" for line in lines[:most]] or ["- none"]
    return [*shown, f"- and {len(lines) - most} more"] if len(lines) > most else shown


def clean(name: str, length: int = NAME_LENGTH) -> str:
    """Printable and bounded: no line breaks, no control or direction-changing characters."""
    plain = printable(name)
    return plain if len(plain) <= length else f"{plain[: length - 3]}..."
