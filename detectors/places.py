"""Where levels stand, and where they look for their cause: the topology as places.

All that one host holds leans on the same places, so these are drawn up once for the host: ten thousand findings of
one domain speak of few hosts.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import itemgetter

import msgspec

from detectors.correlation_state import Instant, Key, Level
from detectors.explanation import EXPLAINED_BY, MERGE_BY_CAUSE, READ_TOGETHER, Relation
from schemas.causes import CAUSE_BY_NAME, CAUSES, POWER, SWITCH, TELEMETRY
from schemas.tables import TABLES
from schemas.topology import Topology, node_of

Place = str
"""Kind and id as one text, which is hashed once; a link and its cable are one place. Beside the kinds of entities there
are: slots, the GPUs of a node; below, what is at the other end of a node's links; runs, what works for a job.
"""
HIGHEST: Mapping[str, int] = {
    **{"link" if one.kind == "cable" else one.kind: one.order for one in reversed(CAUSES)},
    "slots": min(one.order for one in CAUSES if one.kind == "gpu"), "below": SWITCH, "runs": POWER,
}  # fmt: skip
"""By kind of place, how high in the causal order whatever stands there can be (CAUSES is in that order)."""
Sought = tuple[str, str, str, tuple[str, ...]]
"""What has a site: cause, kind, entity, and members of a job."""
Look = tuple[int, Place, Relation]
"""A place where one looks for a cause: how high what stands there can be, the place, and over which relation."""
SOURCE_KINDS: Mapping[str, str] = {table.name: table.source for table in TABLES}


class Surroundings(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Places that a level leans on over one relation. Compared by identity: all of one host share it."""

    relation: Relation
    places: tuple[Place, ...]


class Site(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Of one cause and entity. own: its place. stands: where its symptoms find it, its own place first. around: what
    it leans on beside its own place. looks: where it looks for its cause, the place first where what stands can be the
    highest in the causal order. shares: over which domains its root merges with its like.
    """

    own: Place
    stands: tuple[Place, ...]
    around: tuple[Surroundings, ...]
    looks: tuple[Look, ...]
    shares: tuple[str, ...]


class Seat(msgspec.Struct, eq=False, gc=False):
    """A level while a step is under way, and where it stands. It refers to nothing that leads back to it (gc=False)."""

    key: Key
    level: Level
    site: Site

    @property
    def stands(self) -> tuple[Place, ...]:
        """At its own place and beside it, and in the job that its evidence names."""
        job = self.level.job
        return self.site.stands if job is None or self.key[2] == "job" else (*self.site.stands, f"runs {job}")


def rank_of(seat: Seat) -> tuple[int, Instant, Key]:
    """Causes before symptoms, then the earlier."""
    return (CAUSE_BY_NAME[seat.key[1]].order, seat.level.onset, seat.key)


class Sites(dict[Sought, Site]):
    """The sites of a topology, drawn up when first asked for. They stay, for a cluster has only so many devices; but
    jobs come and go, and one of thousands of GPUs has as many places. of_jobs: what the last two steps asked for.
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        self.topology = topology
        self.of_jobs: deque[dict[Sought, Site]] = deque([{}, {}], maxlen=2)
        self._drawn: dict[tuple[Relation, str], tuple[Surroundings]] = {}

    def begin_step(self) -> None:
        """A step asks first for all that its state holds: what the step before it did not ask for is let go."""
        self.of_jobs.appendleft({})

    def __missing__(self, sought: Sought) -> Site:
        if sought[1] != "job":
            return self.setdefault(sought, self._draw(sought))
        now, before = self.of_jobs
        return now.get(sought) or now.setdefault(sought, before.get(sought) or self._draw(sought))

    def _draw(self, sought: Sought) -> Site:
        cause, kind, entity, members = sought
        own = place_of(kind, entity)
        explained_by = EXPLAINED_BY.get(cause, {})
        around = tuple(one for one in self._around(kind, entity, members) if explained_by.get(one.relation))
        here = (Surroundings("same", (own,)),) if explained_by.get("same") else ()
        looks = ((_highest(place), place, one.relation) for one in (*around, *here) for place in one.places)
        merge = MERGE_BY_CAUSE.get(cause)
        over = () if merge is None else merge.over
        shares = tuple(f"{cause} {place}" for each in over for place in _DOMAINS[each](self.topology, kind, entity))
        return Site(own, (own, *self._beside(kind, entity)), around, tuple(sorted(looks, key=itemgetter(0))), shares)

    def _beside(self, kind: str, entity: str) -> Iterable[Place]:
        """Where symptoms find it, other than at its own place."""
        if kind == "gpu":
            return (f"slots {node_of(entity)}",)
        if kind in ("link", "cable"):
            hosts = map(node_of, self.topology.ends(entity))
            return dict.fromkeys(f"below {node}" for node in hosts if node in self.topology.node_rows)
        return (f"below {node}" for node in self.topology.nodes_under(kind, entity)) if kind == "switch" else ()

    def _around(self, kind: str, entity: str, members: tuple[str, ...]) -> Iterable[Surroundings]:
        """What it leans on."""
        around: Iterable[Surroundings] = ()
        match kind:
            case "gpu":
                around = self._host("inside", node_of(entity))
            case "node":
                around = self._host("inside", entity, itself=False)
            case "link" | "cable":
                ends = self.topology.ends(entity)
                around = dict.fromkeys(part for end in ends for part in self._near_device("end", end))
            case "cdu":
                nodes = self.topology.nodes_under(kind, entity)
                feeds = dict.fromkeys(f"pdu {feed}" for node in nodes for feed in feeds_of(self.topology, node))
                around = (Surroundings("whole", tuple(feeds)),)
            case "job":
                around = (Surroundings("job", (f"runs {entity}", *self._workplaces(members))),)
            case "source":
                around = self._near_source(entity)
        return around

    def _host(self, relation: Relation, node: str, *, itself: bool = True) -> tuple[Surroundings]:
        """A node, unless it is the node that looks, and what it is inside of."""
        wanted = (relation, f"node {node}" if itself else node)
        drawn = self._drawn.get(wanted)
        if drawn is None:
            places = [f"node {node}"] if itself else []
            places.extend(f"pdu {feed}" for feed in feeds_of(self.topology, node))
            if (cdu := self.topology.node_rows.get(node, {}).get("cdu")) is not None:
                places.append(f"cdu {cdu}")
            drawn = self._drawn.setdefault(wanted, (Surroundings(relation, tuple(places)),))
        return drawn

    def _only(self, relation: Relation, place: Place) -> tuple[Surroundings]:
        wanted = (relation, place)
        drawn = self._drawn.get(wanted)
        if drawn is None:
            drawn = self._drawn.setdefault(wanted, (Surroundings(relation, (place,)),))
        return drawn

    def _near_device(self, relation: Relation, device: str) -> tuple[Surroundings, ...]:
        """A device is a GPU, an HCA or a switch: its name tells."""
        node, slash, slot = device.partition("/")
        if not slash and node not in self.topology.node_rows:
            return self._only(relation, f"switch {device}")
        host = self._host(relation, node)
        return self._only(relation, f"gpu {device}") + host if slot.isdecimal() else host

    def _near_source(self, source: str) -> tuple[Surroundings, ...]:
        table, _, sender = source.partition(":")
        kind = SOURCE_KINDS.get(table, "device")
        if kind not in ("gpu", "node", "device"):
            return self._only("source", place_of(kind, sender))
        near = self._host("source", sender) if kind == "node" else self._near_device("source", sender)
        # One GPU that hangs blocks the agent that reads all of its host (NVSentinel issue 1748).
        return near + self._only("source", f"slots {sender}") if table in READ_TOGETHER else near

    def _workplaces(self, members: tuple[str, ...]) -> dict[Place, None]:
        """Where a job's members sit, down to the links of their nodes. A member that is a node brings all its GPUs."""
        places: dict[Place, None] = {}
        for member in members:
            node = node_of(member)
            gpus = (member,) if "/" in member else self.topology.gpus_of_node(member)
            places.update((f"gpu {gpu}", None) for gpu in gpus)
            places.update(dict.fromkeys(self._host("job", node)[0].places))
            places[f"below {node}"] = None
        return places


def place_of(kind: str, entity: str) -> Place:
    return f"{'link' if kind == 'cable' else kind} {entity}"


def _highest(place: Place) -> int:
    return HIGHEST.get(place.partition(" ")[0], TELEMETRY)


def feeds_of(topology: Topology, node: str) -> tuple[str, ...]:
    row = topology.node_rows.get(node, {})
    return tuple(dict.fromkeys(feed for feed in (row.get("pdu"), row.get("pdu_b")) if feed is not None))


@lru_cache(maxsize=2)
def drawn_up(topology: Topology) -> Sites:
    """Sites follow from the topology, and are kept with it: every step asks about the same few hosts."""
    return Sites(topology)


def _of_node(column: str) -> Callable[[Topology, str, str], tuple[Place, ...]]:
    def domain(topology: Topology, _kind: str, entity: str) -> tuple[Place, ...]:
        value = topology.node_rows.get(node_of(entity), {}).get(column)
        return () if value is None else (f"{column} {value}",)

    return domain


def _devices(topology: Topology, kind: str, entity: str) -> tuple[Place, ...]:
    """The hosts and switches that a GPU, a link or a source belongs to."""
    if kind in ("link", "cable"):
        return tuple(f"device {node_of(end)}" for end in topology.ends(entity))
    return (f"device {node_of(entity.partition(':')[2] or entity)}",)


def _bundle(topology: Topology, _kind: str, entity: str) -> tuple[Place, ...]:
    star = topology.link_rows.get(entity, {}).get("star_group")
    return () if star is None else (f"bundle {star}",)


def _pods(topology: Topology, kind: str, entity: str) -> tuple[Place, ...]:
    pods = (topology.node_rows[node]["pod"] for node in topology.nodes_under(kind, entity))
    return tuple(f"pod {pod}" for pod in dict.fromkeys(pods) if pod is not None)


_DOMAINS: Mapping[str, Callable[[Topology, str, str], tuple[Place, ...]]] = {
    "site": lambda _topology, _kind, _entity: ("site",),
    "pod": _pods,
    "rack": _of_node("rack"),
    "superblock": _of_node("superblock"),
    "pdu": lambda topology, _kind, entity: tuple(f"pdu {feed}" for feed in feeds_of(topology, node_of(entity))),
    "device": _devices,
    "bundle": _bundle,
    "table": lambda _topology, _kind, entity: (f"table {entity.partition(':')[0]}",),
}
