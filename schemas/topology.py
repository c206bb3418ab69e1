"""The cluster as data: who is in which failure domain, and what is plugged into what.

Two frames carry all of it, the same that nodes.csv and links.csv of a recording hold. Switches, PDUs and CDUs are
the names that these frames mention. A link and its cable share one name, as one is the other's logical side.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from schemas.topology_parameters import FabricParameters

NODE_COLUMNS = pl.Schema(
    {
        "node": pl.String, "superblock": pl.String, "pod": pl.String, "pdu": pl.String, "cdu": pl.String,
        "pdu_b": pl.String, "role": pl.String, "rack": pl.String,
    }
)  # fmt: skip
LINK_COLUMNS = pl.Schema(
    {
        "cable": pl.String, "a": pl.String, "a_port": pl.Int64, "b": pl.String, "b_port": pl.Int64,
        "tier": pl.String, "length_meters": pl.Float64, "colour": pl.String, "lanes": pl.Int64, "star_group": pl.String,
        "gbps": pl.Float64,
    }
)  # fmt: skip
DOMAIN_COLUMNS = ("pdu", "pdu_b", "cdu", "superblock", "pod", "rack")
"""Of the nodes: each names a failure domain of the kind that it is called by; pdu_b is a second feed, of kind pdu."""
ALIAS_COLUMNS = pl.Schema({"kind": pl.String, "alias": pl.String, "entity": pl.String})
TIERS = ("node-leaf", "leaf-spine", "spine-core")


@dataclass(frozen=True, eq=False)
class Topology:
    """nodes: one row per host (NODE_COLUMNS). links: one row per cable (LINK_COLUMNS); a is the end nearer the GPU.

    pdu_b is the second feed of a node with two; role is compute or spare. colour, lanes and star_group (the sea-star
    of cables that leave one switch together) describe the cable itself; gbps is its data rate one way.
    ports_by_switch: how many ports a switch has, where that is known. parameters: those it was built from, if it was.
    aliases: what other sources call its devices (schemas.identity), such as the GUIDs that a fabric was discovered by.
    """

    name: str
    nodes: pl.DataFrame
    links: pl.DataFrame
    gpus_per_node: int = 8
    ports_by_switch: Mapping[str, int] = field(default_factory=dict)
    parameters: FabricParameters | None = None
    aliases: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ALIAS_COLUMNS))

    @cached_property
    def node_rows(self) -> Mapping[str, dict[str, str | None]]:
        return {row["node"]: row for row in self.nodes.iter_rows(named=True)}

    @cached_property
    def link_rows(self) -> Mapping[str, dict[str, object]]:
        return {row["cable"]: row for row in self.links.iter_rows(named=True)}

    @cached_property
    def ports(self) -> pl.DataFrame:
        """Every end of every link: device, port, cable, peer, peer_port, tier. Two rows a link."""
        near = self.links.select("cable", "tier", device="a", port="a_port", peer="b", peer_port="b_port")
        far = self.links.select("cable", "tier", device="b", port="b_port", peer="a", peer_port="a_port")
        return pl.concat([near, far]).select("device", "port", "cable", "peer", "peer_port", "tier")

    @cached_property
    def ports_by_name(self) -> pl.DataFrame:
        """Every port in order of its name (device:port): name, peer, peer_port, cable, is_a (the end a of a link).
        Where two links are said to end in it, the first is meant.
        """
        ends = self.ports.unique(["device", "port"], keep="first", maintain_order=True)
        named = ends.select("peer", "peer_port", "cable", name=pl.format("{}:{}", "device", "port"))
        ends_a = self.links.select(pl.format("{}:{}", "a", "a_port")).to_series()
        return named.with_columns(is_a=pl.col("name").is_in(ends_a.implode())).sort("name")

    @cached_property
    def links_by_device(self) -> Mapping[str, tuple[str, ...]]:
        grouped = self.ports.group_by("device", maintain_order=True).agg("cable")
        return {device: tuple(cables) for device, cables in grouped.iter_rows()}

    @cached_property
    def peers_by_device(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """Device -> (peer, cable) by port."""
        by_port = self.ports.sort("device", "port", "cable").group_by("device", maintain_order=True)
        return {
            device: tuple(zip(peers, cables, strict=True))
            for device, peers, cables in by_port.agg("peer", "cable").iter_rows()
        }

    @cached_property
    def hcas_by_node(self) -> Mapping[str, tuple[str, ...]]:
        """Node -> its cabled HCAs in order of their number."""
        found: dict[str, list[str]] = {}
        for device in sorted(filter(self.is_hca, self.links_by_device), key=lambda hca: (len(hca), hca)):
            found.setdefault(node_of(device), []).append(device)
        return {node: tuple(hcas) for node, hcas in found.items()}

    @staticmethod
    def is_hca(device: str) -> bool:
        """A switch has no slash in its name."""
        return "/" in device

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Devices that are not an HCA of a node."""
        return tuple(sorted(device for device in self.links_by_device if not self.is_hca(device)))

    @cached_property
    def nodes_by_domain(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """(kind, id) -> nodes, for pdu, cdu, superblock, pod and rack. A node with two feeds is under both PDUs."""
        found: dict[tuple[str, str], list[str]] = {}
        for row in self.nodes.iter_rows(named=True):
            for column in DOMAIN_COLUMNS:
                if row[column] is not None:
                    found.setdefault((column.removesuffix("_b"), row[column]), []).append(row["node"])
        return {domain: tuple(nodes) for domain, nodes in found.items()}

    def gpus_of_node(self, node: str) -> tuple[str, ...]:
        return tuple(f"{node}/{slot}" for slot in range(self.gpus_per_node))

    def nodes_under(self, kind: str, entity: str) -> tuple[str, ...]:
        """Nodes that live or die with the entity: a failure domain's members. A switch has those directly below it."""
        match kind:
            case "node":
                return (entity,) if entity in self.node_rows else ()
            case "gpu":
                return self.nodes_under("node", node_of(entity))
            case "link" | "cable":
                return tuple(node for end in self.ends(entity) for node in self.nodes_under("node", node_of(end)))
            case "switch":
                below = (end for cable in self.links_by_device.get(entity, ()) for end in self.ends(cable))
                return tuple(dict.fromkeys(node_of(end) for end in below if node_of(end) in self.node_rows))
            case _:
                return self.nodes_by_domain.get((kind, entity), ())

    def gpus_under(self, kind: str, entity: str) -> tuple[str, ...]:
        """GPU ids of the failure domain, in order."""
        if kind == "gpu":
            return (entity,)
        return tuple(gpu for node in self.nodes_under(kind, entity) for gpu in self.gpus_of_node(node))

    def ends(self, cable: str) -> tuple[str, ...]:
        """The two devices of a link; nothing for an unknown one."""
        row = self.link_rows.get(cable)
        return () if row is None else (str(row["a"]), str(row["b"]))


def node_of(entity: str) -> str:
    """The host part of a GPU, HCA or node id; a switch is its own."""
    return entity.partition("/")[0]


def topology_from_frames(name: str, nodes: pl.DataFrame, links: pl.DataFrame, *, gpus_per_node: int = 8) -> Topology:
    """Fill in what the frames leave out. Raises ValueError naming a column that must be there."""
    filled_nodes = _filled("nodes", nodes, NODE_COLUMNS, {"node"})
    return Topology(name, filled_nodes, _filled("links", links, LINK_COLUMNS, {"cable", "a", "b"}), gpus_per_node)


def _filled(what: str, frame: pl.DataFrame, columns: pl.Schema, needed: set[str]) -> pl.DataFrame:
    if frame.width == 0:
        return pl.DataFrame(schema=columns)
    missing = needed - set(frame.columns)
    if missing:
        raise ValueError(f"{what}: column {min(missing)} is missing")
    return frame.select(
        pl.col(column).cast(dtype) if column in frame.columns else pl.lit(None, dtype).alias(column)
        for column, dtype in columns.items()
    )
