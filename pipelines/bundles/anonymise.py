"""A bundle without the names of its cluster: every name gets a pseudonym, the same one everywhere, also inside texts.

Names are taken from the topology, from the identity columns of the rows, and from who said something; in texts (kernel
messages, evidence, notes) they are replaced as whole words, and so is what looks like a UUID, a serial number, a MAC,
IPv4 or IPv6 address. Pseudonyms are numbered in the order of the names, so that neighbours stay neighbours.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from pipelines.bundles.bundle import Bundle
from pipelines.outside_events import spelled_out
from schemas.action import ActionRecord, ActionRequest, action_id
from schemas.incident import Incident, incident_id
from schemas.tables import TABLE_BY_NAME

# What says what a thing is, and nothing of whose it is.
PLAIN = frozenset({"pump", "sensor", "kind", "detector", "cause", "severity", "code", "action", "fiber", "direction"})
WORD = r"(?<![A-Za-z0-9_.-])(?:{})(?![A-Za-z0-9_-])"
PATTERNS = (
    ("uuid", r"(?:GPU-|MIG-)?[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    ("mac", r"\b(?:[0-9a-fA-F]{2}[:-]){5,7}[0-9a-fA-F]{2}\b"),
    ("address", r"\b(?:\d{1,3}\.){3}\d{1,3}\b"),
    ("address", r"(?<![0-9a-fA-F:.])(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}(?![0-9a-fA-F:.])"),
    ("guid", r"\b0x[0-9a-fA-F]{12,16}\b"),
    ("serial", r"(?i)(?<=serial[ =:])\s*[A-Za-z0-9-]{6,}"),
)
KINDS = {
    "node": "node", "pod": "pod", "superblock": "superblock", "rack": "rack", "pdu": "pdu", "pdu_b": "pdu",
    "cdu": "cdu", "cable": "cable", "star_group": "star", "job": "job", "uuid": "uuid",
}  # fmt: skip


class Pseudonyms:
    """name -> pseudonym. Names with parts (a GPU, an HCA, a source) are their host's pseudonym and the part."""

    def __init__(self, names: Iterable[tuple[str, str]], people: Iterable[str]) -> None:
        by_kind: dict[str, list[str]] = {}
        for kind, name in sorted(set(names)):
            by_kind.setdefault(kind, []).append(name)
        by_kind["person"] = sorted(set(people))
        self.given: dict[str, str] = {}
        for kind, listed in by_kind.items():
            width = len(str(len(listed)))
            for number, name in enumerate(listed, 1):
                self.given.setdefault(name, f"{kind}-{number:0{width}}")
        known = sorted(self.given, key=len, reverse=True)
        self._words = re.compile(WORD.format("|".join(map(re.escape, known)))) if known else None
        self._seen: dict[str, str] = {}

    def text(self, text: str) -> str:
        """A text with every known name, and everything that looks like an address or number of a device, replaced."""
        if text in self._seen:
            return self._seen[text]
        found = text if self._words is None else self._words.sub(lambda word: self.given[word[0]], text)
        for kind, pattern in PATTERNS:
            found = re.sub(pattern, partial(self._numbered, kind), found)
        self._seen[text] = found
        return found

    def tree(self, value: Any) -> Any:
        """Strings in plain data, keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.tree(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.tree(one) for one in value)
        return value

    def frame(self, frame: pl.DataFrame, plain: frozenset[str] = PLAIN) -> pl.DataFrame:
        """All string columns, and lists of strings, but those in `plain`."""
        columns: list[pl.Expr | pl.Series] = []
        for name, dtype in frame.schema.items():
            if name in plain:
                continue
            if dtype == pl.String:
                distinct = frame[name].drop_nulls().unique().to_list()
                columns.append(pl.col(name).replace({one: self.text(one) for one in distinct}))
            elif dtype == pl.List(pl.String):
                columns.append(pl.Series(name, [self.tree(one) for one in frame[name].to_list()], dtype=dtype))
        return frame.with_columns(columns)

    def _numbered(self, kind: str, match: re.Match[str]) -> str:
        name = match[0]
        known = sum(one.startswith(f"{kind}-") for one in self.given.values())
        return self.given.setdefault(name, f"{kind}-{known + 1}")


def anonymised(bundle: Bundle) -> Bundle:
    """The same bundle under pseudonyms. Ids of incidents and actions, which come from names, are made anew."""
    known = _names(bundle)
    events = bundle.tables.get("outside_event")
    whos = set() if events is None else set(events["who"].drop_nulls())
    if events is not None:
        spelled = spelled_out(events, (name for _, name in known))
        bundle = replace(bundle, tables={**bundle.tables, "outside_event": spelled})
    names = Pseudonyms(known, {one.by for one in bundle.remarks} | whos)
    incidents = {one.id: _incident(one, names) for one in bundle.incidents}
    ids = {old: new.id for old, new in incidents.items()}
    actions = tuple(_action(one, names, ids) for one in bundle.actions)
    named = {old.request.id: new.request.id for old, new in zip(bundle.actions, actions, strict=True)}
    topology = replace(
        bundle.topology, name=names.text(bundle.topology.name), ports_by_switch={}, parameters=None,
        nodes=names.frame(bundle.topology.nodes, frozenset({"role"})),
        links=names.frame(bundle.topology.links, frozenset({"tier", "colour"})),
    )  # fmt: skip
    settings = json.loads(json.dumps(names.tree(bundle.manifest.settings)))
    return replace(
        bundle, topology=topology, actions=actions,
        manifest=replace(bundle.manifest, incident=ids[bundle.manifest.incident], name=names.text(bundle.manifest.name),
                         settings=settings, anonymised=True, lags=names.tree(bundle.manifest.lags)),
        tables={name: _table(name, frame, names) for name, frame in bundle.tables.items()},
        findings=names.frame(bundle.findings),
        incidents=tuple(replace(one, merged_into=ids.get(one.merged_into or "")) for one in incidents.values()),
        remarks=tuple(replace(one, by=names.text(one.by), text=_with_ids(names.text(one.text), {**ids, **named}))
                      for one in bundle.remarks),
    )  # fmt: skip


def _table(name: str, frame: pl.DataFrame, names: Pseudonyms) -> pl.DataFrame:
    words = {
        column for column, kind in TABLE_BY_NAME[name].schema.columns().items() if (kind.metadata or {}).get("choices")
    }
    return names.frame(frame, PLAIN | words).sort(TABLE_BY_NAME[name].time, maintain_order=True)


def _names(bundle: Bundle) -> set[tuple[str, str]]:
    """(kind, name) of all that has a name of its own."""
    found: set[tuple[str, str]] = set()
    for frame in (bundle.topology.nodes, bundle.topology.links, *bundle.tables.values()):
        for column, kind in KINDS.items():
            if column in frame.columns and frame.schema[column] == pl.String:
                found.update((kind, name) for name in frame[column].drop_nulls().unique().to_list())
    switches = {("switch", name) for name in bundle.topology.switches}
    nodes = {name for kind, name in found if kind == "node"}
    loops = {name for kind, name in found if kind in {"cdu", "pdu"}}
    for frame in bundle.tables.values():
        if "device" in frame.columns:
            devices = (name.partition("/")[0] for name in frame["device"].drop_nulls().unique().to_list())
            switches.update(("switch", name) for name in devices if name not in nodes | loops)
    topology_name = {("cluster", bundle.topology.name)} if bundle.topology.name else set()
    return found | switches | topology_name


def _incident(incident: Incident, names: Pseudonyms) -> Incident:
    roots = tuple(sorted(names.text(root) for root in incident.roots))
    return replace(
        incident, roots=roots, id=incident_id(incident.cause, incident.root_kind, roots, incident.starts_at),
        members=tuple(names.text(one) for one in incident.members), evidence=names.tree(incident.evidence),
        symptoms=tuple((kind, names.text(entity)) for kind, entity in incident.symptoms),
    )  # fmt: skip


def _action(record: ActionRecord, names: Pseudonyms, ids: dict[str, str]) -> ActionRecord:
    request = record.request
    incident, target = ids[request.incident], names.text(request.target)
    asked: ActionRequest = replace(
        request, incident=incident, target=target, id=action_id(incident, request.kind, target),
        parameters=names.tree(request.parameters), reason=names.text(request.reason),
    )  # fmt: skip
    return replace(record, request=asked, why=names.text(record.why))


def _with_ids(text: str, ids: dict[str, str]) -> str:
    for old, new in ids.items():
        text = text.replace(old, new)
    return text
