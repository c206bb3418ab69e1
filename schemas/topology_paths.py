"""Ways through the fabric: who is next to whom, the shortest way between two GPUs, and how much a tier can carry."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from schemas.topology import TIERS, Topology, node_of


@dataclass(frozen=True)
class FabricPath:
    """devices: from HCA to HCA with the switches between, cables: one fewer, hops: cables on the way.

    Two GPUs of one node talk over NVLink: no devices, no hops.
    """

    devices: tuple[str, ...]
    cables: tuple[str, ...]

    @property
    def hops(self) -> int:
        return len(self.cables)


def neighbours(topology: Topology, device: str) -> tuple[str, ...]:
    """What cables of a switch, an HCA or a node (all its HCAs) lead to, by port, each once. A GPU has its HCA.

    Raises ValueError for a device that is not in the topology.
    """
    if device in topology.peers_by_device:
        return tuple(dict.fromkeys(peer for peer, _ in topology.peers_by_device[device]))
    if device in topology.node_rows:
        hcas = topology.hcas_by_node.get(device, ())
        return tuple(dict.fromkeys(peer for hca in hcas for peer, _ in topology.peers_by_device[hca]))
    return (hca_of_gpu(topology, device),)


def hca_of_gpu(topology: Topology, gpu: str) -> str:
    """The HCA that the GPU sends through: that of its slot; slots share evenly where a node has fewer HCAs.

    Raises ValueError for what is no GPU of the topology or has no cable.
    """
    node, _, slot = gpu.partition("/")
    hcas = topology.hcas_by_node.get(node, ())
    known = node in topology.node_rows and slot.isascii() and slot.isdigit()
    if not known or int(slot) >= topology.gpus_per_node:
        raise ValueError(f"{gpu!r} is not in topology {topology.name}: give a switch, node, HCA or GPU, as n00012/3")
    if not hcas:
        raise ValueError(f"node {node} of {gpu} has no cable in topology {topology.name}")
    own = f"{node}/hca{int(slot)}"
    return own if own in hcas else hcas[int(slot) * len(hcas) // topology.gpus_per_node]


def path(topology: Topology, gpu_a: str, gpu_b: str) -> FabricPath:
    """A shortest way between two GPUs, the same one both ways: of several, the one over the lowest ports.

    Raises ValueError for an unknown GPU, or two that no cables join.
    """
    if gpu_b < gpu_a:
        back = path(topology, gpu_b, gpu_a)
        return FabricPath(back.devices[::-1], back.cables[::-1])
    start, goal = hca_of_gpu(topology, gpu_a), hca_of_gpu(topology, gpu_b)
    if node_of(gpu_a) == node_of(gpu_b):
        return FabricPath((), ())
    came_from: dict[str, tuple[str, str]] = {start: ("", "")}
    waiting = deque([start])
    while waiting and goal not in came_from:
        device = waiting.popleft()
        for peer, cable in topology.peers_by_device[device]:
            if peer not in came_from:
                came_from[peer] = (device, cable)
                if peer == goal or not topology.is_hca(peer):  # hosts do not forward
                    waiting.append(peer)
    if goal not in came_from:
        raise ValueError(f"no cables join {gpu_a} and {gpu_b} in topology {topology.name}")
    devices, cables = [goal], []
    while devices[-1] != start:
        before, cable = came_from[devices[-1]]
        devices.append(before)
        cables.append(cable)
    return FabricPath(tuple(reversed(devices)), tuple(reversed(cables)))


def bisection_gbps(topology: Topology) -> float | None:
    """Gb/s one way between halves of the cluster in the worst case: half of what the narrowest tier carries.

    A switch carries no more than its ports, whatever is drawn. None where cables do not tell their rate.
    """
    return min((gbps / 2 for gbps in gbps_by_tier(topology).values()), default=None) if _rated(topology) else None


def gbps_by_tier(topology: Topology) -> Mapping[str, float]:
    """Tier -> sum of its cables' rates, bounded by the ports of the switches above. Tiers that exist, from below."""
    ports = pl.DataFrame(
        {"b": list(topology.ports_by_switch), "ports": list(topology.ports_by_switch.values())},
        schema={"b": pl.String, "ports": pl.Int64},
    )
    switches = topology.links.group_by("tier", "b").agg(pl.col("gbps").sum(), pl.len().alias("used"))
    bounded = switches.join(ports, on="b", how="left").with_columns(
        gbps=pl.col("gbps") * pl.min_horizontal(1.0, pl.col("ports") / pl.col("used"))
    )
    found = dict(bounded.group_by("tier").agg(pl.col("gbps").sum()).iter_rows())
    return {tier: found[tier] for tier in TIERS if tier in found}


def oversubscription_by_tier(topology: Topology) -> Mapping[str, float]:
    """For "leaf" and "spine" rate down over rate up, as cabled; 1 is non-blocking. Counts cables where rates are not
    known. A tier without uplinks is left out.
    """
    rate = pl.col("gbps").sum() if _rated(topology) else pl.len().cast(pl.Float64)
    totals = dict(topology.links.group_by("tier").agg(rate.alias("rate")).iter_rows())
    pairs = {"leaf": ("node-leaf", "leaf-spine"), "spine": ("leaf-spine", "spine-core")}
    return {
        switch: totals[down] / totals[up] for switch, (down, up) in pairs.items() if totals.get(up) and down in totals
    }


def _rated(topology: Topology) -> bool:
    return topology.links.height > 0 and topology.links["gbps"].null_count() == 0
