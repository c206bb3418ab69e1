"""Which cause explains which others, and where it must stand to do so. Two tables, and the places that they speak of.

Power goes before coolant, switch, node, GPU, link, job and telemetry (schemas.causes). A symptom leans on places: its
own entity, the domains it is inside of, the devices at its link's ends. A cause explains it from one of those places.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from schemas.tables import TABLES
from schemas.topology import Topology, node_of

Place = tuple[str, str]  # kind and id; a link and its cable are one place
Relation = Literal["same", "inside", "whole", "end", "job", "source"]


@dataclass(frozen=True, kw_only=True)
class Explains:
    """The causes on the left explain, over each relation, the symptoms named for it.

    same: of the same entity (a link and its cable are one). inside: of a GPU or node inside the domain. whole: of a
    coolant loop whose every node has lost all its feeds. end: of a link with an end in the domain. job: of a job
    with members in the domain. source: of a telemetry source that is, or sits in, the domain.
    """

    causes: tuple[str, ...]
    same: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    job: tuple[str, ...] = ()
    source: tuple[str, ...] = ()


SLOWED = ("gpu_straggler", "gpu_hang")
OVERHEATED = ("gpu_thermal_throttle", *SLOWED)
BROKEN = ("gpu_fatal_error", "gpu_memory", "gpu_nvlink", "gpu_pcie", "gpu_power_brake", *OVERHEATED)
LINKS = ("link_degraded", "link_flap", "link_down")
JOBS = ("job_hang", "checkpoint_stale")
READ_TOGETHER = ("gpu", "cold_plate")
SILENT = ("telemetry_stale", "telemetry_frozen", "telemetry_implausible")

EXPLAINS: tuple[Explains, ...] = (
    Explains(
        causes=("power_domain_lost",), same=("power_sag",),
        inside=("node_lost", "hardware_degraded", "gpu_fallen_off_bus", *BROKEN),
        whole=("coolant_pump_failure", "coolant_flow_restricted"), end=LINKS, job=JOBS, source=(*SILENT, "clock_skew"),
    ),
    Explains(
        causes=("power_sag",), inside=("node_lost", "hardware_degraded", "gpu_power_brake", *SLOWED), end=LINKS,
        job=JOBS, source=SILENT, whole=("coolant_pump_failure", "coolant_flow_restricted"),
    ),
    Explains(
        causes=("coolant_leak",), same=("coolant_pump_failure", "coolant_flow_restricted", "coolant_air"),
        inside=("node_lost", *OVERHEATED), job=JOBS, source=SILENT,
    ),
    # At 95 degrees Celsius a GPU shuts itself down and is gone from the bus (domain.md 4.1).
    Explains(
        causes=("coolant_pump_failure",), same=("coolant_flow_restricted",), job=JOBS, source=SILENT,
        inside=("cold_plate_clogged", "valve_stuck", "node_lost", "gpu_fallen_off_bus", *OVERHEATED),
    ),
    Explains(causes=("coolant_air",), same=("coolant_flow_restricted",), inside=OVERHEATED),
    Explains(causes=("coolant_flow_restricted", "heat_exchanger_fouled"), inside=OVERHEATED),
    Explains(causes=("valve_stuck",), same=("cold_plate_clogged", *OVERHEATED)),
    Explains(causes=("cold_plate_clogged",), same=OVERHEATED),
    Explains(causes=("switch_lost",), end=LINKS, job=JOBS, source=SILENT),
    Explains(
        causes=("node_lost",), inside=("gpu_fallen_off_bus", *BROKEN), end=LINKS, job=JOBS,
        source=(*SILENT, "clock_skew"),
    ),
    Explains(causes=("gpu_fallen_off_bus",), same=BROKEN, job=JOBS, source=SILENT),
    Explains(
        causes=("gpu_memory", "gpu_nvlink"), same=("gpu_fatal_error", *SLOWED), job=JOBS,
        source=SILENT,
    ),
    Explains(causes=("gpu_fatal_error",), same=SLOWED, job=JOBS, source=SILENT),
    Explains(causes=("gpu_pcie", "gpu_power_brake", "gpu_thermal_throttle"), same=SLOWED, job=JOBS),
    Explains(causes=("gpu_hang",), same=("gpu_straggler",), job=JOBS),
    Explains(causes=("gpu_straggler",), job=JOBS),
    Explains(causes=("fiber_loss", "fiber_reflectance", "fiber_length"), same=("optic_degrading", *LINKS), job=JOBS),
    Explains(causes=("connector_contaminated",), same=("optic_degrading", *LINKS), job=JOBS),
    Explains(causes=("optic_degrading",), same=LINKS, job=JOBS),
    Explains(causes=("link_degraded",), same=("link_flap", "link_down"), job=JOBS),
    Explains(causes=("link_flap",), same=("link_down",), job=JOBS),
    Explains(causes=("link_down",), job=JOBS),
    Explains(causes=("job_hang",), same=("checkpoint_stale",)),
    # Rows of a clock that stepped back are late: the source looks silent. A counter at its end looks frozen.
    Explains(causes=("clock_skew",), same=SILENT),
    Explains(causes=("counter_saturated",), same=("telemetry_frozen",)),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Merge:
    """Roots of one of these causes, in one of these domains and begun within `domain_seconds`, are one incident.

    together: the roots went down together, so a cause that explains half of them takes them all (domain.md 4.3: at
    least 50 % of the affected); otherwise it takes only those that it explains.
    """

    causes: tuple[str, ...]
    over: tuple[str, ...]
    together: bool


# Two faults in one domain within 10 s happen by chance once in decades (domain.md 4.3). Causes not named here never
# merge: two GPUs of different nodes, two loops or two jobs that fail at once are two incidents.
MERGES: tuple[Merge, ...] = (
    Merge(causes=("power_domain_lost", "power_sag"), over=("site",), together=True),
    Merge(causes=("switch_lost",), over=("pod",), together=True),
    Merge(causes=("node_lost",), over=("rack", "superblock", "pdu"), together=True),
    Merge(causes=("hardware_degraded",), over=("device",), together=False),
    Merge(causes=("gpu_fallen_off_bus", *BROKEN), over=("device",), together=True),
    # Hosts of one feed brake together: it is the power, not each host (NVSentinel issue 1666).
    Merge(causes=("gpu_power_brake",), over=("device", "pdu"), together=True),
    Merge(causes=("link_flap", "link_down"), over=("device", "bundle"), together=False),
    # A collector takes every table of whoever sends through it.
    Merge(causes=("telemetry_stale",), over=("site",), together=False),
    Merge(causes=("telemetry_frozen", "telemetry_implausible"), over=("table", "device"), together=False),
    # All tables of a host have one clock.
    Merge(causes=("clock_skew",), over=("device",), together=False),
)

SYMPTOMS: Mapping[tuple[str, str], frozenset[str]] = {
    (cause, relation): frozenset(getattr(row, relation))
    for row in EXPLAINS
    for cause in row.causes
    for relation in ("same", "inside", "whole", "end", "job", "source")
    if getattr(row, relation)
}
MERGE_BY_CAUSE: Mapping[str, Merge] = {cause: row for row in MERGES for cause in row.causes}
SOURCE_KINDS: Mapping[str, str] = {table.name: table.source for table in TABLES}


def place_of(kind: str, entity: str) -> Place:
    return ("link" if kind == "cable" else kind, entity)


def stands_at(topology: Topology, kind: str, entity: str, job: str | None) -> tuple[Place, ...]:
    """Where a level is found by its symptoms: at its entity, in its job, and above the nodes at its link's end."""
    places = [place_of(kind, entity)]
    if job is not None and kind != "job":
        places.append(("runs", job))
    if kind in ("link", "cable", "switch"):
        places.extend(("below", node) for node in dict.fromkeys(topology.nodes_under(kind, entity)))
    return tuple(places)


def leans_on(topology: Topology, kind: str, entity: str, members: Iterable[str]) -> tuple[tuple[Relation, Place], ...]:
    """Where a level looks for its cause. `members` are the GPUs or nodes of a job, if it is one."""
    own: tuple[Relation, Place] = ("same", place_of(kind, entity))
    match kind:
        case "gpu" | "node":
            return own, *(("inside", place) for place in _around(topology, kind, entity) if place != own[1])
        case "link" | "cable":
            around = (place for end in topology.ends(entity) for place in _around(topology, "device", end))
            return own, *(("end", place) for place in dict.fromkeys(around))
        case "cdu":
            feeds = (feed for node in topology.nodes_under(kind, entity) for feed in feeds_of(topology, node))
            return own, *(("whole", ("pdu", feed)) for feed in dict.fromkeys(feeds))
        case "job":
            return own, ("job", ("runs", entity)), *(("job", place) for place in _workplaces(topology, members))
        case "source":
            table, _, sender = entity.partition(":")
            nearby = _around(topology, SOURCE_KINDS.get(table, "device"), sender)
            # One GPU that hangs blocks the agent that reads all of its host (NVSentinel issue 1748).
            read = topology.gpus_of_node(sender) if table in READ_TOGETHER else ()
            return own, *(("source", place) for place in (*nearby, *(("gpu", gpu) for gpu in read)))
        case _:
            return (own,)


def shares(topology: Topology, cause: str, kind: str, entity: str) -> tuple[Place, ...]:
    """The domains over which a root of this cause merges with its like."""
    merge = MERGE_BY_CAUSE.get(cause)
    return (
        () if merge is None else tuple(place for over in merge.over for place in _DOMAINS[over](topology, kind, entity))
    )


def feeds_of(topology: Topology, node: str) -> tuple[str, ...]:
    row = topology.node_rows.get(node, {})
    return tuple(dict.fromkeys(feed for feed in (row.get("pdu"), row.get("pdu_b")) if feed is not None))


def _around(topology: Topology, kind: str, entity: str) -> tuple[Place, ...]:
    """The entity and what it is inside of, nearest first. A device is a GPU, an HCA or a switch: its name tells."""
    if kind not in ("gpu", "node", "device"):
        return (place_of(kind, entity),)
    node, slash, slot = entity.partition("/")
    row = topology.node_rows.get(node)
    if row is None and kind == "device" and not slash:
        return (("switch", entity),)
    places: list[Place] = [("gpu", entity)] if slot.isdecimal() else []
    places.append(("node", node))
    if row is not None:
        places.extend(("pdu", feed) for feed in feeds_of(topology, node))
        if row["cdu"] is not None:
            places.append(("cdu", row["cdu"]))
    return tuple(places)


def _workplaces(topology: Topology, members: Iterable[str]) -> dict[Place, None]:
    """Where a job's members sit, down to the links of their nodes. A member that is a node brings all its GPUs."""
    places: dict[Place, None] = {}
    for member in members:
        gpus = (member,) if "/" in member else topology.gpus_of_node(member)
        places.update((place, None) for gpu in gpus for place in _around(topology, "gpu", gpu))
        places["below", node_of(member)] = None
    return places


def _of_node(column: str) -> Callable[[Topology, str, str], tuple[Place, ...]]:
    def domain(topology: Topology, _kind: str, entity: str) -> tuple[Place, ...]:
        value = topology.node_rows.get(node_of(entity), {}).get(column)
        return () if value is None else ((column, value),)

    return domain


def _devices(topology: Topology, kind: str, entity: str) -> tuple[Place, ...]:
    """The hosts and switches that a GPU, a link or a source belongs to."""
    if kind in ("link", "cable"):
        return tuple(("device", node_of(end)) for end in topology.ends(entity))
    return (("device", node_of(entity.partition(":")[2] or entity)),)


def _bundle(topology: Topology, _kind: str, entity: str) -> tuple[Place, ...]:
    star = topology.link_rows.get(entity, {}).get("star_group")
    return () if star is None else (("bundle", str(star)),)


def _pods(topology: Topology, kind: str, entity: str) -> tuple[Place, ...]:
    pods = (topology.node_rows[node]["pod"] for node in topology.nodes_under(kind, entity))
    return tuple(("pod", pod) for pod in dict.fromkeys(pods) if pod is not None)


_DOMAINS: Mapping[str, Callable[[Topology, str, str], tuple[Place, ...]]] = {
    "site": lambda _topology, _kind, _entity: (("site", ""),),
    "pod": _pods,
    "rack": _of_node("rack"),
    "superblock": _of_node("superblock"),
    "pdu": lambda topology, _kind, entity: tuple(("pdu", feed) for feed in feeds_of(topology, node_of(entity))),
    "device": _devices,
    "bundle": _bundle,
    "table": lambda _topology, _kind, entity: (("table", entity.partition(":")[0]),),
}
