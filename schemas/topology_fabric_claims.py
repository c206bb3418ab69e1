"""Claims about switches, cables and bandwidth, each compared with what the parameters give."""

from collections.abc import Iterator
from types import MappingProxyType

from schemas.topology_claims import ClusterClaims
from schemas.topology_contradiction import Contradiction
from schemas.topology_parameters import FabricParameters

# model -> ports, Gb/s a port. Source: NVIDIA's Quantum and Quantum-2 data sheets.
SWITCH_MODELS = MappingProxyType({"QM8700": (40, 200), "QM8790": (40, 200), "QM9700": (64, 400), "QM9790": (64, 400)})
# H100 SXM: 18 NVLink 4 links, 450 GB/s one way in all; a 400 Gb/s HCA moves 50.
NVLINK_LINKS_PER_GPU = 18
NVLINK_GIGABYTES_PER_SECOND = 450
METERS_PER_NANOSECOND = 0.299792458
GROUP_INDEX = 1.468  # G.652 at 1550 nm
DESKEW_NANOSECONDS = 180  # what the receiver of a multi-lane Ethernet PCS realigns (IEEE 802.3, 400GBASE-R)
SHORTEST_PULSE_NANOSECONDS = 3  # of common OTDRs
MATED_PAIR_LOSS_MAXIMUM_DB = 0.75  # TIA-568
ABOUT = 0.05  # claims are rounded: within 5 % is agreement


def fabric_claims(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    yield from _switch_model(p, claims)
    yield from _counts(p, claims)
    yield from _oversubscription(p, claims)
    yield from _bisection(p, claims)
    yield from _nvlink(p, claims)
    yield from _cables(claims)


def differs(claimed: float, computed: float) -> bool:
    return abs(claimed - computed) > ABOUT * abs(computed)


def non_blocking(p: FabricParameters) -> FabricParameters:
    """The same nodes behind radix-64 switches without oversubscription, for comparison."""
    return FabricParameters(
        pods=p.pods, superblocks_per_pod=p.superblocks_per_pod, nodes_per_superblock=p.nodes_per_superblock,
        gpus_per_node=p.gpus_per_node,
    )  # fmt: skip


def _switch_model(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    if claims.switch_model in SWITCH_MODELS:
        ports, gbps = SWITCH_MODELS[claims.switch_model]
        if (p.leaf_ports, p.gbps) != (ports, gbps):
            yield Contradiction(
                f"{claims.switch_model} is not the switch described",
                f"{claims.switch_model} has {ports} ports x {gbps} Gb/s = {ports * gbps / 1000:g} Tb/s; "
                f"described: {p.leaf_ports} ports x {p.gbps} Gb/s = {p.leaf_ports * p.gbps / 1000:g} Tb/s",
            )


def _counts(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    full = non_blocking(p)
    if differs(claims.switches, p.switches):
        yield Contradiction(
            "the switches named do not add up to the number claimed",
            f"{p.leaves} leaves + {p.spines} spines + {p.core_switches} cores = {p.switches:,} switches, "
            f"claimed {claims.switches:,}; non-blocking radix-64 takes {full.switches:,}",
        )
    if differs(claims.cables, p.links):
        yield Contradiction(
            "the cables named do not add up to the number claimed",
            f"{p.gpus:,} node-leaf + {p.pods * p.uplinks_per_pod:,} leaf-spine + {p.core_links:,} spine-core = "
            f"{p.links:,} cables, claimed {claims.cables:,}; non-blocking radix-64 takes {full.links:,}",
        )


def _oversubscription(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    leaf = p.leaf_down / max(1, p.leaf_up)
    if differs(claims.pod_oversubscription, leaf):
        yield Contradiction(
            "the pod's oversubscription is not the one claimed",
            f"{p.leaf_down} ports down / {p.leaf_up} up of a leaf = {leaf:g}:1, "
            f"claimed {claims.pod_oversubscription:g}:1",
        )
    core_ports = p.core_switches * p.core_ports
    cluster = p.pods * p.uplinks_per_pod / max(1, core_ports)
    if differs(claims.cluster_oversubscription, cluster):
        yield Contradiction(
            "the cluster's oversubscription is not the one claimed",
            f"{p.pods} pods x {p.uplinks_per_pod} leaf uplinks = {p.pods * p.uplinks_per_pod:,} / "
            f"{core_ports:,} core ports = {cluster:g}:1, claimed {claims.cluster_oversubscription:g}:1",
        )


def _bisection(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    injection = p.gpus * p.gbps
    core = min(p.core_switches * p.core_ports, p.core_links) * p.gbps / 2
    if claims.bisection_gbps > injection / 2:
        yield Contradiction(
            "the bisection claimed is more than the GPUs can inject",
            f"{p.gpus:,} GPUs x {p.gbps} Gb/s / 2 = {_petabits(injection / 2)} one way at best, "
            f"claimed {_petabits(claims.bisection_gbps)}",
        )
    if differs(claims.bisection_gbps, core):
        yield Contradiction(
            "the core cannot carry the bisection claimed",
            f"{p.core_switches} cores x {p.core_ports} ports x {p.gbps} Gb/s / 2 = {_petabits(core)} one way, "
            f"claimed {_petabits(claims.bisection_gbps)}",
        )


def _nvlink(p: FabricParameters, claims: ClusterClaims) -> Iterator[Contradiction]:
    ratio = NVLINK_GIGABYTES_PER_SECOND / (p.gbps / 8)
    if claims.nvlink_links_per_gpu != NVLINK_LINKS_PER_GPU:
        yield Contradiction(
            "the NVLink count is not that of an H100",
            f"an H100 SXM has {NVLINK_LINKS_PER_GPU} links to its NVSwitches, claimed {claims.nvlink_links_per_gpu}",
        )
    if differs(claims.network_to_nvlink_ratio, ratio):
        yield Contradiction(
            "the ratio of network to NVLink bandwidth is not the one claimed",
            f"{NVLINK_GIGABYTES_PER_SECOND} GB/s / ({p.gbps} Gb/s / 8) = 1:{ratio:g}, "
            f"claimed 1:{claims.network_to_nvlink_ratio:g}",
        )


def _cables(claims: ClusterClaims) -> Iterator[Contradiction]:
    skew_nanoseconds = claims.cable_match_meters * GROUP_INDEX / METERS_PER_NANOSECOND
    resolution_meters = SHORTEST_PULSE_NANOSECONDS * METERS_PER_NANOSECOND / GROUP_INDEX / 2
    if skew_nanoseconds < DESKEW_NANOSECONDS:
        yield Contradiction(
            "matching cable lengths that closely serves nothing",
            f"{claims.cable_match_meters * 100:g} cm x {GROUP_INDEX} / c = {skew_nanoseconds * 1000:.0f} ps, "
            f"while receivers realign {DESKEW_NANOSECONDS} ns",
        )
    if claims.cable_match_meters < resolution_meters:
        yield Contradiction(
            "an OTDR cannot verify the length match claimed",
            f"{SHORTEST_PULSE_NANOSECONDS} ns pulse x c / {GROUP_INDEX} / 2 = {resolution_meters:.2f} m, "
            f"claimed {claims.cable_match_meters:g} m",
        )
    if claims.connector_loss_rejected_db < MATED_PAIR_LOSS_MAXIMUM_DB:
        yield Contradiction(
            "connectors would be rejected that the standard passes",
            f"rejected from {claims.connector_loss_rejected_db:g} dB, a mated pair may lose "
            f"{MATED_PAIR_LOSS_MAXIMUM_DB:g} dB (TIA-568)",
            "note",
        )


def _petabits(gbps: float) -> str:
    return f"{gbps / 1e6:.2f} Pb/s"
