"""The numbers a fabric is built from, and what follows from them: pure arithmetic, no frames.

Three tiers of switches: leaf (of one rail or one rack), spine (of one pod), core. One pod needs no core, one leaf no
spine. What is left at None is derived: a tier has its oversubscription, and no spine or core more than its ports.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor

from schemas.topology_claims import ClusterClaims

# TIA-598-D order of the twelve fibres of a ribbon or an MPO-12.
TIA_598_COLOURS = (
    "blue", "orange", "green", "brown", "slate", "white", "red", "black", "yellow", "violet", "rose", "aqua",
)  # fmt: skip

GPUS_MAXIMUM = 1 << 20  # forty times the reference cluster; keeps a slip of the pen from filling the memory
_DERIVED = ("leaf_uplinks", "spines_per_pod", "spine_uplinks", "cores")


@dataclass(frozen=True, kw_only=True)
class FabricParameters:
    """A cluster by its numbers. Defaults: 24,576 GPUs behind a non-blocking radix-64 NDR fabric, one leaf a rail.

    rails_per_leaf: 1 = rail-optimised (a leaf serves the same HCA of nodes_per_leaf nodes); gpus_per_node = a leaf
    takes whole nodes, as in a rack. Oversubscription: ports down over ports up, 1 = non-blocking. nodes_per_pdu 16 =
    128 GPUs, about 163 kW of 10.2 kW nodes. spare_nodes are among the nodes, the last of each pod in turn.
    lanes_per_cable: 400 Gb/s as 4 x 100 Gb/s. colours: of the cables of one sea-star, in order. claims: what its
    description says besides; only the validator reads it.
    """

    pods: int = 24
    superblocks_per_pod: int = 4
    nodes_per_superblock: int = 32
    gpus_per_node: int = 8
    nodes_per_leaf: int = 32
    rails_per_leaf: int = 1
    leaf_ports: int = 64
    spine_ports: int = 64
    core_ports: int = 64
    gbps: int = 400
    leaf_oversubscription: float = 1.0
    spine_oversubscription: float = 1.0
    leaf_uplinks: int | None = None
    spines_per_pod: int | None = None
    spine_uplinks: int | None = None
    cores: int | None = None
    nodes_per_rack: int = 4
    nodes_per_pdu: int = 16
    nodes_per_cdu: int = 32
    spare_nodes: int = 0
    lanes_per_cable: int = 4
    colours: tuple[str, ...] = TIA_598_COLOURS
    claims: ClusterClaims | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for a number no cluster can have; one that merely cannot be cabled is for the validator."""
        for name, value in vars(self).items():
            if name in ("colours", "claims") or (value is None and name in _DERIVED):
                continue
            fraction, least = name.endswith("oversubscription"), 0 if name == "spare_nodes" else 1
            number = isinstance(value, int) or (fraction and isinstance(value, float))
            if not number or isinstance(value, bool) or not least <= value <= GPUS_MAXIMUM:
                what = "a number" if fraction else "a whole number"
                raise ValueError(f"topology parameter {name} must be {what} of at least {least}, not {value!r}")
        if self.gpus > GPUS_MAXIMUM:
            raise ValueError(f"{self.nodes:,} nodes x {self.gpus_per_node} GPUs is more than {GPUS_MAXIMUM:,} GPUs")
        if self.spare_nodes > self.nodes:
            raise ValueError(f"topology parameter spare_nodes is {self.spare_nodes}, but there are {self.nodes} nodes")
        if self.gpus_per_node % self.rails_per_leaf:
            raise ValueError(f"rails_per_leaf {self.rails_per_leaf} does not divide gpus_per_node {self.gpus_per_node}")
        if not self.colours:
            raise ValueError("topology parameter colours is empty: give at least one")

    @property
    def superblocks(self) -> int:
        return self.pods * self.superblocks_per_pod

    @property
    def nodes_per_pod(self) -> int:
        return self.superblocks_per_pod * self.nodes_per_superblock

    @property
    def nodes(self) -> int:
        return self.pods * self.nodes_per_pod

    @property
    def gpus(self) -> int:
        """As many as HCAs."""
        return self.nodes * self.gpus_per_node

    @property
    def nodes_below_leaf(self) -> int:
        return min(self.nodes_per_leaf, self.nodes_per_superblock)

    @property
    def leaf_down(self) -> int:
        """Ports of a full leaf towards nodes."""
        return self.nodes_below_leaf * self.rails_per_leaf

    @property
    def leaves_per_superblock(self) -> int:
        return ceil(self.nodes_per_superblock / self.nodes_below_leaf) * (self.gpus_per_node // self.rails_per_leaf)

    @property
    def leaves_per_pod(self) -> int:
        return self.superblocks_per_pod * self.leaves_per_superblock

    @property
    def leaves(self) -> int:
        return self.pods * self.leaves_per_pod

    @property
    def leaf_up(self) -> int:
        if self.leaves == 1:
            return 0
        return self.leaf_uplinks or _ceil_divide(self.leaf_down, self.leaf_oversubscription)

    @property
    def uplinks_per_pod(self) -> int:
        return self.leaves_per_pod * self.leaf_up

    @cached_property
    def spines_in_pod(self) -> int:
        """A spine spends its ports down and up by its oversubscription; in a lone pod all of them go down."""
        if self.leaves == 1:
            return 0
        if self.spines_per_pod is not None:
            return self.spines_per_pod
        ratio = _ratio(self.spine_oversubscription)
        down = self.spine_ports if self.pods == 1 else floor(self.spine_ports * ratio / (1 + ratio))
        return ceil(self.uplinks_per_pod / max(1, down))

    @property
    def spines(self) -> int:
        return self.pods * self.spines_in_pod

    @property
    def spine_down(self) -> int:
        """Ports of the fullest spine towards leaves."""
        return ceil(self.uplinks_per_pod / self.spines_in_pod) if self.spines_in_pod else 0

    @property
    def spine_up(self) -> int:
        if self.pods == 1:
            return 0
        if self.spine_uplinks is not None:
            return self.spine_uplinks
        return ceil(Fraction(self.uplinks_per_pod, self.spines_in_pod) / _ratio(self.spine_oversubscription))

    @property
    def core_links(self) -> int:
        return self.spines * self.spine_up

    @property
    def core_switches(self) -> int:
        if self.core_links == 0:
            return 0
        return self.cores or ceil(self.core_links / self.core_ports)

    @property
    def core_down(self) -> int:
        """Ports of the fullest core."""
        return ceil(self.core_links / self.core_switches) if self.core_switches else 0

    @property
    def switches(self) -> int:
        return self.leaves + self.spines + self.core_switches

    @property
    def links(self) -> int:
        return self.gpus + self.pods * self.uplinks_per_pod + self.core_links


def _ratio(oversubscription: float) -> Fraction:
    """Exact for what people write, 1/3 included, so that ceil never adds a port for a rounding error."""
    return Fraction(oversubscription).limit_denominator(1000)


def _ceil_divide(ports: int, oversubscription: float) -> int:
    return ceil(ports / _ratio(oversubscription))
