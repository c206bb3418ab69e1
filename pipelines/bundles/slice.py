"""Which part of the cluster belongs into an incident's bundle: what is involved, and the peers it is judged against."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import polars as pl

from detectors.places import feeds_of
from schemas.incident import Incident
from schemas.tables import Table
from schemas.topology import Topology, node_of

# A node's peers are those of the smallest domain around it that has others; all of its feeds and its loop come along.
PEER_DOMAINS = ("pdu", "cdu", "superblock")
TOGETHER = 4  # nodes; fewer that fall silent at once are lost, whoever goes on (detectors/together.py)


@dataclass(frozen=True)
class Slice:
    """topology: nodes and links of the slice. names: by source column of the tables, whose rows are taken; a column
    that is not there (jobs, maintenance) is taken whole. No names at all: everything is.
    """

    topology: Topology
    names: dict[str, tuple[str, ...]]

    def wanted(self, table: Table) -> tuple[str, ...] | None:
        """Sources of the table whose rows are taken; None: all."""
        return self.names.get(table.source)


def involved_nodes(incident: Incident, topology: Topology) -> tuple[str, ...]:
    """Nodes under the incident's root, members and symptoms."""
    touched = _entities(incident)
    return tuple(dict.fromkeys(node for kind, entity in touched for node in topology.nodes_under(kind, entity)))


def slice_of(incident: Incident, topology: Topology, more: Sequence[str] = ()) -> Slice:
    """The incident's entities, their nodes' peers, and every device, cable, loop and PDU that these nodes use.

    more: further nodes, such as those of the same job.
    """
    touched = _entities(incident)
    involved = involved_nodes(incident, topology)
    nodes = {*involved, *more}
    for node in involved:
        nodes.update(_peers(topology, node))
    for kind, entity in touched:
        if kind in {"cdu", "pdu"}:
            nodes.update(topology.nodes_by_domain.get((kind, entity), ()))
    nodes.update(_neighbours(topology, involved))
    if len(nodes) >= topology.nodes.height:
        return Slice(topology, {})  # no part, but all of it
    named = {entity for kind, entity in touched if kind in {"link", "cable"}}
    switches = {entity for kind, entity in touched if kind == "switch"}
    ends = pl.col("a").str.split("/").list.first().is_in(list(nodes)) | pl.col("b").is_in(list(switches))
    links = topology.links.filter(ends | pl.col("a").is_in(list(switches)) | pl.col("cable").is_in(list(named)))
    rows = topology.nodes.filter(pl.col("node").is_in(list(nodes)))
    devices = dict.fromkeys(chain(links["a"].to_list(), links["b"].to_list(), sorted(nodes)))
    feeds = {feed for node in nodes for feed in feeds_of(topology, node)}
    loops = set(rows["cdu"].drop_nulls().to_list())
    feeds.update(entity for kind, entity in touched if kind == "pdu")
    loops.update(entity for kind, entity in touched if kind == "cdu")
    sliced = Topology(topology.name, rows, links, topology.gpus_per_node, topology.ports_by_switch)
    names = {
        "node": tuple(sorted(nodes)), "device": (*devices, *sorted(loops)), "cable": tuple(links["cable"].to_list()),
        "cdu": tuple(sorted(loops)), "pdu": tuple(sorted(feeds)),
    }  # fmt: skip
    return Slice(sliced, names)


def _entities(incident: Incident) -> tuple[tuple[str, str], ...]:
    """(kind, id) of root, members and symptoms; a telemetry source is the node, device, CDU or PDU that sends it."""
    own = [(incident.root_kind, root) for root in incident.roots]
    members = [("gpu", member) for member in incident.members]
    found: list[tuple[str, str]] = []
    for kind, entity in (*own, *members, *incident.symptoms):
        if kind != "source":
            found.append((kind, entity))
            continue
        sender = entity.partition(":")[2]
        found.extend((each, sender) for each in ("node", "switch", "cdu", "pdu"))
        found.append(("node", node_of(sender)))
    return tuple(dict.fromkeys(found))


def _neighbours(topology: Topology, involved: Sequence[str]) -> list[str]:
    """Whether a silence is a domain's or the collector's is told by who goes on: three such nodes for each involved,
    of the same pods first.
    """
    if len(involved) < TOGETHER:
        return []
    pods = {topology.node_rows[node]["pod"] for node in involved if node in topology.node_rows}
    near = topology.nodes.sort(~pl.col("pod").is_in(list(pods)).fill_null(value=True), maintain_order=True)
    gone = set(involved)
    others = [node for node in near["node"].to_list() if node not in gone]
    return others[: 3 * len(involved)]


def _peers(topology: Topology, node: str) -> tuple[str, ...]:
    row = topology.node_rows.get(node, {})
    for kind in PEER_DOMAINS:
        domain = row.get(kind)
        peers = () if domain is None else topology.nodes_by_domain.get((kind, domain), ())
        if len(peers) > 1:
            return peers
    return (node,)
