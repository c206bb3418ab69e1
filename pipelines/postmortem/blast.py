"""The blast radius: where in the cluster the incident's root lies and whom it took, as a map of squares."""

from collections import Counter
from dataclasses import dataclass
from html import escape

from schemas.incident import Incident
from schemas.topology import Topology, node_of

UNTOUCHED_MAXIMUM = 12
"""Domains without anybody involved that are drawn, for what the others are seen against."""


@dataclass(frozen=True, kw_only=True)
class Domain:
    """One power domain (or what stands for it). nodes: (node, its GPUs that are members, whether it is under the root).
    place: pods and superblocks that it lies in.
    """

    name: str
    place: str
    nodes: tuple[tuple[str, int, bool], ...]
    is_root: bool

    @property
    def members(self) -> int:
        return sum(members for _, members, _ in self.nodes)

    @property
    def touched(self) -> bool:
        return self.is_root or any(members or under for _, members, under in self.nodes)


def domains(incident: Incident, topology: Topology) -> tuple[Domain, ...]:
    """Every power domain of the topology, touched ones first."""
    members = Counter(node_of(member) for member in incident.members)
    roots = set(incident.roots)
    hit = {node for root in roots for node in topology.nodes_under(incident.root_kind, root)}
    groups: dict[str, list[dict[str, str | None]]] = {}
    for row in topology.nodes.sort("pdu", "node").iter_rows(named=True):
        groups.setdefault(row["pdu"] or row["superblock"] or "nodes", []).append(row)
    found = [
        Domain(
            name=name, is_root=name in roots,
            place=" ".join(sorted({str(row[kind]) for row in rows for kind in ("pod", "superblock") if row[kind]})[:4]),
            nodes=tuple((str(row["node"]), members[str(row["node"])], row["node"] in hit) for row in rows),
        )
        for name, rows in groups.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (not one.touched, one.name)))


def drawn(found: tuple[Domain, ...], gpus_per_node: int) -> str:
    """HTML: a box a domain, a square a node; colours come from the page's style, and every box says its count too."""
    untouched = [one for one in found if not one.touched]
    shown = [one for one in found if one.touched] + untouched[:UNTOUCHED_MAXIMUM]
    parts = [_box(one, gpus_per_node) for one in shown]
    if left := len(untouched) - UNTOUCHED_MAXIMUM:
        parts += [f'<p class="soft">and {left} further domains of the slice, untouched</p>'] if left > 0 else []
    return "".join(parts)


def _box(domain: Domain, gpus_per_node: int) -> str:
    squares = "".join(
        f'<span class="node{_kind(members, gpus_per_node)}{" under" if under and not members else ""}" '
        f'title="{escape(node)}: {members} of {gpus_per_node} GPUs"></span>'
        for node, members, under in domain.nodes
    )
    took = f"{domain.members} GPUs" if domain.members else "untouched" if not domain.touched else "no GPUs"
    return (
        f'<div class="domain{" root-domain" if domain.is_root else ""}"><b>{escape(domain.name)}</b> '
        f'<span class="soft">{escape(domain.place)}</span><div class="nodes">{squares}</div>{took}</div>'
    )


def _kind(members: int, gpus_per_node: int) -> str:
    return " lost" if members >= gpus_per_node else " part" if members else ""
