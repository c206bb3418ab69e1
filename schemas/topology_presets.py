"""Clusters built from parameters: who is where, and which cable goes from which port to which.

Wiring is arithmetic on whole columns, so 24,576 GPUs and their 73,728 links take a fraction of a second.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import polars as pl

from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, Topology
from schemas.topology_claims import ClusterClaims
from schemas.topology_layout import leaf_to_spine_meters, node_to_leaf_meters, spine_to_core_meters
from schemas.topology_parameters import TIA_598_COLOURS, FabricParameters

# Literal numbers of the first description of the cluster, contradictions and all: topology_validation names them.
# spine_uplinks: half of a 40-port switch, the most favourable reading of "1:1 between pods".
SEED = FabricParameters(
    leaf_ports=40, spine_ports=40, core_ports=40, leaf_uplinks=8, spines_per_pod=4, spine_uplinks=20, cores=24,
    nodes_per_pdu=32, lanes_per_cable=8, colours=TIA_598_COLOURS[:8], claims=ClusterClaims(),
)  # fmt: skip
# Meta's 24k RoCE cluster: 8 pods of 3,072 GPUs, racks of 16 GPUs below one switch, 7:1 between pods, modular spines.
# Source: Meta, "RDMA over Ethernet for distributed AI training at Meta scale" (SIGCOMM 2024); 576 ports = one
# 16-slot chassis of 36 x 400 Gb/s cards, our reading.
META_ROCE = FabricParameters(
    pods=8, superblocks_per_pod=12, nodes_per_leaf=2, rails_per_leaf=8, nodes_per_rack=2,
    spine_ports=576, core_ports=576, spine_oversubscription=7.0,
)  # fmt: skip
PRESETS: Mapping[str, FabricParameters] = MappingProxyType(
    {"seed": SEED, "ndr-fat-tree": FabricParameters(), "meta-roce": META_ROCE}
)


def parameters_of(preset: str = "ndr-fat-tree", **parameters: Any) -> FabricParameters:
    """The preset with some numbers changed. Raises ValueError, one line, for a name it does not know."""
    if preset not in PRESETS:
        raise ValueError(f"topology preset {preset!r} is not known: choose one of {', '.join(PRESETS)}")
    known = [field.name for field in fields(FabricParameters)]
    for name in parameters:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(known)}"
            raise ValueError(f"topology parameter {name!r} is not known: {hint}")
    return replace(PRESETS[preset], **parameters)


def build(preset: str = "ndr-fat-tree", **parameters: Any) -> Topology:
    """The preset's cluster, with the given FabricParameters changed: ``build(pods=1)`` has 1,024 GPUs.

    Names: n00012, its HCAs n00012/hca3 (port 1), sb00, pod00, pdu-000, cdu-00, r0000, leaf-000, spine-000, core-000,
    c000000. HCA k of a node goes to the leaf of rail k. Switch ports count from 1, those down before those up.
    Raises ValueError for an unknown name or a number that no cluster can have.
    """
    return build_from(parameters_of(preset, **parameters), preset)


def build_from(parameters: FabricParameters, name: str) -> Topology:
    tiers = [tier(parameters) for tier in (_node_leaf, _leaf_spine, _spine_core)]
    links = pl.concat(tiers).with_row_index("index").with_columns(
        _named("c", "index", 6).alias("cable"),
        gbps=pl.lit(parameters.gbps, pl.Float64),
        lanes=pl.lit(parameters.lanes_per_cable, pl.Int64),
    )  # fmt: skip
    return Topology(
        name, _nodes(parameters), links.select(LINK_COLUMNS.names()).cast(LINK_COLUMNS),
        parameters.gpus_per_node, _ports_by_switch(parameters), parameters,
    )  # fmt: skip


def _named(prefix: str, column: str, digits: int) -> pl.Expr:
    return pl.format(prefix + "{}", pl.col(column).cast(pl.String).str.zfill(digits))


def _counted(column: str, count: int) -> pl.DataFrame:
    return pl.select(pl.int_range(count).alias(column))


def _nodes(p: FabricParameters) -> pl.DataFrame:
    place = _counted("index", p.nodes).with_columns(
        sb=pl.col("index") // p.nodes_per_superblock,
        in_sb=pl.col("index") % p.nodes_per_superblock,
        pod_index=pl.col("index") // p.nodes_per_pod,
    )
    racks_per_superblock = -(-p.nodes_per_superblock // p.nodes_per_rack)
    # Spare number s is in pod s mod pods, so a pod has those below its share, counted from its last node.
    spares = (p.spare_nodes - pl.col("pod_index") + p.pods - 1) // p.pods
    return place.with_columns(
        pdu_index=pl.col("index") // p.nodes_per_pdu,
        cdu_index=pl.col("index") // p.nodes_per_cdu,
        rack_index=pl.col("sb") * racks_per_superblock + pl.col("in_sb") // p.nodes_per_rack,
        spare=pl.col("index") % p.nodes_per_pod >= p.nodes_per_pod - spares,
    ).select(
        node=_named("n", "index", 5),
        superblock=_named("sb", "sb", 2),
        pod=_named("pod", "pod_index", 2),
        pdu=_named("pdu-", "pdu_index", 3),
        cdu=_named("cdu-", "cdu_index", 2),
        pdu_b=pl.lit(None, pl.String),
        role=pl.when("spare").then(pl.lit("spare")).otherwise(pl.lit("compute")),
        rack=_named("r", "rack_index", 4),
    ).cast(NODE_COLUMNS)  # fmt: skip


def _node_leaf(p: FabricParameters) -> pl.DataFrame:
    """Cable after cable by node and HCA."""
    rail_groups = p.gpus_per_node // p.rails_per_leaf
    placed = _counted("index", p.gpus).with_columns(
        node=pl.col("index") // p.gpus_per_node, hca=pl.col("index") % p.gpus_per_node
    ).with_columns(
        sb=pl.col("node") // p.nodes_per_superblock, in_sb=pl.col("node") % p.nodes_per_superblock
    ).with_columns(
        leaf=pl.col("sb") * p.leaves_per_superblock
        + pl.col("in_sb") // p.nodes_below_leaf * rail_groups
        + pl.col("hca") // p.rails_per_leaf,
        b_port=pl.col("in_sb") % p.nodes_below_leaf * p.rails_per_leaf + pl.col("hca") % p.rails_per_leaf + 1,
        length_meters=node_to_leaf_meters(p),
    )  # fmt: skip
    return placed.select(
        pl.format("{}/hca{}", _named("n", "node", 5), "hca").alias("a"),
        pl.lit(1, pl.Int64).alias("a_port"),
        _named("leaf-", "leaf", 3).alias("b"),
        "b_port",
        pl.lit("node-leaf").alias("tier"),
        "length_meters",
        *_star(p, _named("leaf-", "leaf", 3), "down", pl.col("b_port") - 1),
    )


def _leaf_spine(p: FabricParameters) -> pl.DataFrame:
    """Round robin: uplinks of a pod, counted leaf by leaf, go to spine after spine."""
    placed = _counted("index", p.pods * p.uplinks_per_pod).with_columns(
        leaf=pl.col("index") // max(1, p.leaf_up),
        up=pl.col("index") % max(1, p.leaf_up),
        pod=pl.col("index") // max(1, p.uplinks_per_pod),
        in_pod=pl.col("index") % max(1, p.uplinks_per_pod),
    ).with_columns(
        spine=pl.col("pod") * p.spines_in_pod + pl.col("in_pod") % max(1, p.spines_in_pod),
        b_port=pl.col("in_pod") // max(1, p.spines_in_pod) + 1,
        length_meters=leaf_to_spine_meters(p),
    )  # fmt: skip
    return placed.select(
        _named("leaf-", "leaf", 3).alias("a"),
        (pl.col("up") + p.leaf_down + 1).alias("a_port"),
        _named("spine-", "spine", 3).alias("b"),
        "b_port",
        pl.lit("leaf-spine").alias("tier"),
        "length_meters",
        *_star(p, _named("leaf-", "leaf", 3), "up", pl.col("up")),
    )


def _spine_core(p: FabricParameters) -> pl.DataFrame:
    """Planes: the same uplink of the same spine of every pod, one after another, fills core after core, so that a
    core sees all pods.
    """
    placed = _counted("index", p.core_links).with_columns(
        pod=pl.col("index") % p.pods,
        in_pod=pl.col("index") // p.pods // max(1, p.spine_up),
        up=pl.col("index") // p.pods % max(1, p.spine_up),
        core=pl.col("index") // max(1, p.core_down),
        b_port=pl.col("index") % max(1, p.core_down) + 1,
    ).with_columns(
        spine=pl.col("pod") * p.spines_in_pod + pl.col("in_pod"), length_meters=spine_to_core_meters(p)
    ).sort("spine", "up")  # fmt: skip
    return placed.select(
        _named("spine-", "spine", 3).alias("a"),
        (pl.col("up") + p.spine_down + 1).alias("a_port"),
        _named("core-", "core", 3).alias("b"),
        "b_port",
        pl.lit("spine-core").alias("tier"),
        "length_meters",
        *_star(p, _named("spine-", "spine", 3), "up", pl.col("up")),
    )


def _star(p: FabricParameters, switch: pl.Expr, direction: str, position: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Cables of one side of a switch, bundled by as many as there are colours: each colour once in a sea-star."""
    colours = dict(enumerate(p.colours))
    return (
        pl.format("{}/" + direction + "-{}", switch, position // len(colours)).alias("star_group"),
        (position % len(colours)).replace_strict(colours, return_dtype=pl.String).alias("colour"),
    )


def _ports_by_switch(p: FabricParameters) -> dict[str, int]:
    kinds = (
        ("leaf", p.leaves, p.leaf_ports),
        ("spine", p.spines, p.spine_ports),
        ("core", p.core_switches, p.core_ports),
    )
    return {f"{kind}-{index:03d}": ports for kind, count, ports in kinds for index in range(count)}
