"""A postmortem from a bundle: as data, as Markdown that people go on writing in, as one page of HTML."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from pipelines.bundles.bundle import Bundle
from pipelines.postmortem.blast import domains, drawn
from pipelines.postmortem.clocks import detected, ended, onset
from pipelines.postmortem.facts import document, lasted, summary
from pipelines.postmortem.otherwise import Otherwise
from pipelines.postmortem.plots import Marks, plots, svg
from pipelines.wording import in_a_cell

# What people write: kept when the page is written anew.
SECTIONS = ("Summary in our words", "Root cause and contributing factors", "What went well, what did not", "Follow-ups")
KEPT = re.compile(r"<!-- people: (?P<name>[^>]+?) -->\n(?P<text>.*?)\n<!-- end -->", re.DOTALL)
NOTHING_YET = "_Nothing written yet._"
WEB = re.compile(r"https?://[^\s\"'<>\\^`{|}]+", re.IGNORECASE)


def markdown(bundle: Bundle, dollars_per_gpu_hour: float, before: str = "", otherwise: Otherwise | None = None) -> str:
    """The report with the sections that people have written into `before`, an earlier report of it."""
    facts, kept = document(bundle, dollars_per_gpu_hour, otherwise), written_by_people(before)
    return _pages().get_template("report.md.j2").render(
        facts=facts, summary=summary(facts), lasted=lasted, plain=in_a_cell, values=_values, web=_web,
        people=[(name, kept.get(name, NOTHING_YET)) for name in dict.fromkeys((*SECTIONS, *kept))],
    )  # fmt: skip


def html(
    bundle: Bundle, dollars_per_gpu_hour: float, people: Mapping[str, str] | None = None,
    otherwise: Otherwise | None = None,
) -> str:  # fmt: skip
    """One file without any request to the outside. people: sections that they have written."""
    facts, manifest = document(bundle, dollars_per_gpu_hour, otherwise), bundle.manifest
    marks = Marks(onset=onset(bundle)[0], detected=detected(bundle), ended=ended(bundle),
                  begin=manifest.starts_at, end=manifest.ends_at)  # fmt: skip
    pictures = [
        {"title": plot.title, "unit": plot.unit, "names": plot.roots["name"].unique(maintain_order=True).to_list(),
         "peers": not plot.peers.is_empty(), "svg": Markup(svg(plot, marks))}  # noqa: S704  # every name in it is escaped
        for plot in plots(bundle)
    ]  # fmt: skip
    found = domains(bundle.incident, bundle.topology)
    settings = msgspec.json.format(msgspec.json.encode(facts["settings"]), indent=2).decode()
    return _pages().get_template("report.html.j2").render(
        facts=facts, summary=summary(facts), lasted=lasted, plots=pictures, web=_web, settings=settings,
        people={name: text for name, text in (people or {}).items() if text.strip() not in {"", NOTHING_YET}},
        map=Markup(drawn(found, bundle.topology.gpus_per_node)),  # noqa: S704  # every name in it is escaped
    )  # fmt: skip


def written_by_people(text: str) -> dict[str, str]:
    """Section -> what people wrote into a Markdown report."""
    return {found["name"]: found["text"] for found in KEPT.finditer(text)}


def written(path: Path, bundle: Bundle, dollars_per_gpu_hour: float, otherwise: Otherwise | None = None) -> str:
    """The text for a file by its ending: .md (with what people wrote into the file that is there), .html (with what
    they wrote into the .md beside it) or .json.
    """
    if path.suffix == ".json":
        return msgspec.json.format(msgspec.json.encode(document(bundle, dollars_per_gpu_hour, otherwise))).decode()
    beside = path.with_suffix(".md")
    before = beside.read_text("utf-8") if beside.exists() else ""
    if path.suffix == ".html":
        return html(bundle, dollars_per_gpu_hour, written_by_people(before), otherwise)
    return markdown(bundle, dollars_per_gpu_hour, before, otherwise)


def _pages() -> Environment:
    return Environment(
        loader=PackageLoader("pipelines.postmortem", "."), autoescape=select_autoescape(["html.j2"], default=False),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip


def _web(link: Any) -> str:
    """A link that a browser may follow when asked to; empty for anything else, such as a script."""
    return link if isinstance(link, str) and WEB.fullmatch(link) else ""


def _values(one: Mapping[str, Any]) -> str:
    values = one.get("values")
    return ", ".join(f"{name} {value}" for name, value in values.items()) if isinstance(values, dict) else ""
