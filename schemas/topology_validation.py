"""What in a topology cannot be cabled or contradicts itself, with the arithmetic.

Parameters are checked by arithmetic, whatever a description claims besides is compared with it, and frames, wherever
they come from, are checked row by row.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from schemas.topology import Topology
from schemas.topology_contradiction import Contradiction, Severity
from schemas.topology_fabric_claims import fabric_claims
from schemas.topology_facility_claims import facility_claims
from schemas.topology_parameters import FabricParameters

EXAMPLES_MAXIMUM = 5


def check(subject: FabricParameters | Topology) -> tuple[Contradiction, ...]:
    """Nothing when all is well. A topology that was built from parameters is checked with them."""
    if isinstance(subject, FabricParameters):
        claimed = () if subject.claims is None else (
            *fabric_claims(subject, subject.claims), *facility_claims(subject, subject.claims)
        )  # fmt: skip
        return (*_parameters(subject), *claimed)
    built_from = () if subject.parameters is None else check(subject.parameters)
    return (*built_from, *_nodes(subject), *_links(subject), *_ports(subject), *_connections(subject))


def _parameters(p: FabricParameters) -> Iterator[Contradiction]:
    tiers = (("leaf", p.leaf_down, p.leaf_up, p.leaf_ports), ("spine", p.spine_down, p.spine_up, p.spine_ports))
    for tier, down, up, ports in tiers:
        if down + up > ports:
            sum_of_ports = f"{down} ports down + {up} up = {down + up} > {ports} ports"
            yield Contradiction(f"a {tier} has too few ports", sum_of_ports, "cannot be cabled")
    if p.spines_in_pod * p.spine_ports < p.uplinks_per_pod:
        yield Contradiction(
            "the spines of a pod have fewer ports than its leaves have uplinks",
            f"{p.spines_in_pod} spines x {p.spine_ports} ports = {p.spines_in_pod * p.spine_ports} < "
            f"{p.uplinks_per_pod} uplinks per pod",
            "cannot be cabled",
        )
    if p.core_switches * p.core_ports < p.core_links:
        yield Contradiction(
            "the cores have fewer ports than the spines have uplinks",
            f"{p.core_switches} cores x {p.core_ports} ports = {p.core_switches * p.core_ports:,} < {p.pods} pods x "
            f"{p.spines_in_pod} spines x {p.spine_up} uplinks = {p.core_links:,}",
            "cannot be cabled",
        )
    if p.core_links and p.pods > p.core_down:
        few = f"{p.core_down} links of a core < {p.pods} pods"
        yield Contradiction("a core does not see every pod", few, "note")
    if p.spines_in_pod and 2 * p.leaf_up <= p.spines_in_pod:
        share = f"{p.leaf_up} uplinks of a leaf x 2 <= {p.spines_in_pod} spines per pod"
        yield Contradiction("not every two leaves of a pod share a spine: more hops within the pod", share, "note")


def _nodes(topology: Topology) -> Iterator[Contradiction]:
    nodes = topology.nodes
    yield from _listed("a node is listed twice", nodes.filter(pl.col("node").is_duplicated())["node"], "contradicts")
    for domain in ("pdu", "cdu"):
        without = nodes.filter(pl.col(domain).is_null())["node"]
        yield from _listed(f"a node has no {domain}: its loss would not be seen as one incident", without, "note")
    cabled = topology.ports.select(pl.col("device").str.split("/").list.first()).unique()["device"]
    yield from _listed("a node has no cable", nodes.filter(~pl.col("node").is_in(cabled.implode()))["node"], "note")


def _links(topology: Topology) -> Iterator[Contradiction]:
    links = topology.links
    named_twice = links.filter(pl.col("cable").is_duplicated())["cable"]
    yield from _listed("a cable's name is used twice", named_twice, "contradicts")
    same = links.filter(pl.col("a") == pl.col("b"))["cable"]
    yield from _listed("both ends of a cable are in the same device", same, "cannot be cabled")
    negative = links.filter(pl.col("length_meters") < 0)
    shown = pl.format("{} ({} m)", "cable", "length_meters")
    yield from _listed("a cable's length is negative", negative.select(shown).to_series(), "contradicts")
    hosts = topology.ports.filter(pl.col("device").str.contains("/", literal=True))
    known = topology.nodes["node"].implode()
    dangling = hosts.filter(~pl.col("device").str.split("/").list.first().is_in(known))["device"]
    yield from _listed("a cable ends in an HCA of a node that is not listed", dangling, "contradicts")


def _ports(topology: Topology) -> Iterator[Contradiction]:
    ports = topology.ports
    used = ports.filter(pl.col("port").is_not_null()).with_columns(
        pl.format("{}:{} by {}", "device", "port", "cable").alias("shown")
    )
    twice = used.filter(pl.struct("device", "port").is_duplicated()).sort("device", "port", "cable")["shown"]
    yield from _listed("a port is used by two cables", twice, "cannot be cabled")
    yield from _listed("a port's number is below 1", used.filter(pl.col("port") < 1)["shown"], "contradicts")
    capacity = pl.DataFrame(
        {"device": list(topology.ports_by_switch), "capacity": list(topology.ports_by_switch.values())},
        schema={"device": pl.String, "capacity": pl.Int64},
    )
    counted = ports.group_by("device").agg(pl.len().alias("used"), pl.col("port").max().alias("highest"))
    over = counted.join(capacity, on="device").filter(pl.max_horizontal("used", "highest") > pl.col("capacity"))
    shown = pl.format("{} uses {} ports, up to number {}, of {}", "device", "used", "highest", "capacity")
    too_many = over.sort("device").select(shown).to_series()
    yield from _listed("a switch has fewer ports than are used", too_many, "cannot be cabled")
    bare = capacity.join(counted, on="device", how="anti").sort("device")["device"]
    yield from _listed("a switch has no cable", bare, "note")


def _connections(topology: Topology) -> Iterator[Contradiction]:
    """Islands: a node's HCAs belong together, as NVLink joins them."""
    sizes = island_sizes(topology)
    if len(sizes) > 1:
        listed = " + ".join(f"{size:,}" for size in sizes[:EXAMPLES_MAXIMUM])
        more = f" + {len(sizes) - EXAMPLES_MAXIMUM} more" if len(sizes) > EXAMPLES_MAXIMUM else ""
        spelled = f"{len(sizes)} islands of {listed}{more} devices"
        yield Contradiction("the fabric is not connected", spelled, "contradicts")


def island_sizes(topology: Topology) -> tuple[int, ...]:
    """Devices (nodes and switches) in each connected part of the cabled fabric, largest first."""
    ends = topology.links.select(pl.col("a", "b").str.split("/").list.first())
    devices = pl.concat([ends["a"], ends["b"]]).unique().sort()
    if devices.is_empty():
        return ()
    number = pl.DataFrame({"device": devices}).with_row_index("number")
    pairs = ends.join(number, left_on="a", right_on="device").join(number, left_on="b", right_on="device")
    near, far = pairs["number"].to_numpy(), pairs["number_right"].to_numpy()
    label = np.arange(devices.len())
    while True:
        # Every device takes the lowest label beside it; then labels jump to their label's label.
        before = label.copy()
        np.minimum.at(label, near, before[far])
        np.minimum.at(label, far, before[near])
        label = np.minimum(label, label[label])
        if (label == before).all():
            break
    _, counts = np.unique(label, return_counts=True)
    return tuple(sorted(counts.tolist(), reverse=True))


def _listed(what: str, names: pl.Series, severity: Severity) -> Iterator[Contradiction]:
    if names.len():
        more = f" and {names.len() - EXAMPLES_MAXIMUM:,} more" if names.len() > EXAMPLES_MAXIMUM else ""
        examples = ", ".join(str(name) for name in names.head(EXAMPLES_MAXIMUM))
        yield Contradiction(what, f"{names.len():,}: {examples}{more}", severity)
