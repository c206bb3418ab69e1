"""A postmortem from a bundle: as data, as Markdown that people go on writing in, as one page of HTML."""

import re
from collections import Counter
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from pipelines.bundles.bundle import Bundle
from pipelines.postmortem.plots import plots, svg
from pipelines.postmortem.timeline import timeline, times
from schemas.incident import Incident
from schemas.topology import Topology, node_of

# What people write: kept when the page is written anew.
SECTIONS = ("Summary in our words", "Root cause and contributing factors", "What went well, what did not", "Follow-ups")
KEPT = re.compile(r"<!-- people: (?P<name>[^>]+?) -->\n(?P<text>.*?)\n<!-- end -->", re.DOTALL)
NOTHING_YET = "_Nothing written yet._"


def document(bundle: Bundle, dollars_per_gpu_hour: float) -> dict[str, Any]:
    """Plain data of all that the pages say. Times are ISO 8601 in UTC; durations are seconds."""
    incident = bundle.incident
    until = incident.ends_at or bundle.manifest.ends_at
    lost = len(incident.members) * (until - incident.starts_at).total_seconds()
    measured = times(bundle)
    mine = [one for one in bundle.actions if one.request.incident == incident.id]
    return {
        "incident": incident.id, "cause": incident.cause, "severity": incident.severity, "state": incident.state,
        "root": {"kind": incident.root_kind, "ids": list(incident.roots)}, "members": len(incident.members),
        "starts_at": _iso(incident.starts_at), "detected_at": _iso(incident.detected_at),
        "ends_at": None if incident.ends_at is None else _iso(incident.ends_at),
        "seconds": {"to_detect": measured.detect, "to_acknowledge": measured.acknowledge,
                    "to_mitigate": measured.mitigate, "to_resolve": measured.resolve},
        "impact": {
            "lost_gpu_seconds": lost, "dollars": round(lost / 3600 * dollars_per_gpu_hour, 2),
            "dollars_per_gpu_hour": dollars_per_gpu_hour,
            "symptoms": dict(Counter(kind for kind, _ in incident.symptoms)),
        },
        "actions": dict(Counter(f"{one.request.kind}: {one.outcome}" for one in mine)),
        "timeline": [
            {"at": _iso(one.at), "what": one.what, "who": one.who, "text": one.text} for one in timeline(bundle)
        ],
        "evidence": list(incident.evidence),
        "versions": bundle.manifest.versions, "settings": bundle.manifest.settings,
    }  # fmt: skip


def summary(bundle: Bundle, facts: dict[str, Any]) -> str:
    """What happened in two or three sentences."""
    incident = bundle.incident
    roots = ", ".join(incident.roots[:3]) + (f" and {len(incident.roots) - 3} more" if len(incident.roots) > 3 else "")
    count = len(incident.members)
    took = f" and took {count} GPU{'s' if count > 1 else ''}" if count else ""
    over = (
        f"It was over after {_lasted(facts['seconds']['to_resolve'])}."
        if incident.ends_at is not None else "It was not over when this was written."
    )  # fmt: skip
    return (
        f"On {incident.starts_at:%Y-%m-%d at %H:%M:%S} UTC {incident.cause.replace('_', ' ')} struck "
        f"{incident.root_kind} {roots}{took}. It was found {_lasted(facts['seconds']['to_detect'])} after its onset. "
        f"{over}"
    )


def markdown(bundle: Bundle, dollars_per_gpu_hour: float, before: str = "") -> str:
    """The report with the sections that people have written into `before`, an earlier report of it."""
    facts = document(bundle, dollars_per_gpu_hour)
    kept = {found["name"]: found["text"] for found in KEPT.finditer(before)}
    return _pages().get_template("report.md.j2").render(
        facts=facts, summary=summary(bundle, facts), lasted=_lasted, plain=_plain,
        people=[(name, kept.get(name, NOTHING_YET)) for name in dict.fromkeys((*SECTIONS, *kept))],
    )  # fmt: skip


def html(bundle: Bundle, dollars_per_gpu_hour: float) -> str:
    """One file without any request to the outside."""
    facts, incident, manifest = document(bundle, dollars_per_gpu_hour), bundle.incident, bundle.manifest
    pictures = [
        {"title": plot.title, "unit": plot.unit, "names": plot.roots["name"].unique(maintain_order=True).to_list(),
         "svg": Markup(svg(plot, incident.starts_at, incident.detected_at, manifest.starts_at, manifest.ends_at))}  # noqa: S704  # every name in it is escaped
        for plot in plots(bundle)
    ]  # fmt: skip
    return _pages().get_template("report.html.j2").render(
        facts=facts, summary=summary(bundle, facts), lasted=_lasted, plots=pictures,
        map=Markup(blast_radius(incident, bundle.topology)),  # noqa: S704  # every name in it is escaped
    )  # fmt: skip


def blast_radius(incident: Incident, topology: Topology) -> str:
    """A square for each node, by power domain: how many of its GPUs are members, and where the root is."""
    members = Counter(node_of(member) for member in incident.members)
    roots = set(incident.roots)
    hit = {node for root in roots for node in topology.nodes_under(incident.root_kind, root)}
    groups: dict[str, list[str]] = {}
    for row in topology.nodes.sort("pdu", "node").iter_rows(named=True):
        groups.setdefault(row["pdu"] or row["superblock"] or "nodes", []).append(row["node"])
    parts = []
    for domain, nodes in groups.items():
        squares = "".join(
            f'<span class="node {"lost" if members[node] else "root-node" if node in hit else ""}" '
            f'title="{escape(node)}: {members[node]} of {topology.gpus_per_node} GPUs"></span>'
            for node in nodes
        )
        mark = ' class="domain root-domain"' if domain in roots else ' class="domain"'
        parts.append(f"<div{mark}><b>{escape(domain)}</b><div>{squares}</div></div>")
    return "".join(parts)


def written(path: Path, bundle: Bundle, dollars_per_gpu_hour: float) -> str:
    """The text for a file by its ending: .html, .md (with what people wrote into the file that is there) or .json."""
    if path.suffix == ".html":
        return html(bundle, dollars_per_gpu_hour)
    before = path.read_text("utf-8") if path.exists() else ""
    return markdown(bundle, dollars_per_gpu_hour, before)


def _pages() -> Environment:
    return Environment(
        loader=PackageLoader("pipelines.postmortem", "."), autoescape=select_autoescape(["html.j2"], default=False),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip


def _plain(value: object) -> str:
    """Text for a cell of a Markdown table: never a new cell, a new line, or HTML."""
    return escape(str(value), quote=False).replace("|", "\\|").replace("\n", " ")


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def _lasted(seconds: float | None) -> str:
    """1 h 02 min, 3 min 05 s, 2.4 s."""
    if seconds is None:
        return "not yet"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
