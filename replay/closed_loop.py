"""Days of failures of a whole cluster as events, and what a training job makes of its time through them. Pure.

Not telemetry but its outcome: when something fails, when the job goes on, what is rolled back, what capacity is
missing. Who brings the job back (people, or recovery) is the caller's; the failures are the same for both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from replay.randomness import generator
from schemas.causes import CAUSE_BY_NAME
from schemas.topology import Topology

DAY_SECONDS = 86400.0
REFERENCE_GPUS = 24576

# Counts of unexpected interruptions in 54 days on 16,384 GPUs (arXiv 2407.21783, table 5), by the cause that hotspare
# would name: software bugs and watchdogs are hangs of the job; NIC, switch and cable are links; host parts are nodes.
COUNTS: tuple[tuple[str, int], ...] = (
    ("gpu_fatal_error", 148 + 19 + 17 + 6 + 6),
    ("gpu_memory", 72),
    ("job_hang", 54 + 7 + 2),
    ("node_lost", 32 + 3 + 3 + 2 + 2 + 2 + 2),
    ("link_flap", 35 + 7),
)


@dataclass(frozen=True)
class Mix:
    """failures_per_day: range that each seed draws its rate from, for REFERENCE_GPUS GPUs. domains_share: of failures
    that are a whole power domain (rare, and dear).
    """

    name: str
    failures_per_day: tuple[float, float]
    domains_share: float
    source: str


MIXES: tuple[Mix, ...] = (
    Mix("llama3", (11.6, 11.6), 0.002, "419 interruptions in 54 days on 16,384 GPUs, scaled to the cluster"),
    Mix("seed", (70.0, 100.0), 0.002, "the reference cluster's own claim of 70 to 100 failures a day, same classes"),
)


@dataclass(frozen=True)
class Failure:
    """at: seconds from the beginning. luck: uniform draws that decide what repair brings, the same for every arm."""

    number: int
    at: float
    cause: str
    root_kind: str
    root: str
    luck: tuple[float, float]


def failures(mix: Mix, topology: Topology, days: float, seed: int) -> tuple[Failure, ...]:
    """A Poisson process over the compute nodes; the same seed gives the same failures."""
    random = generator(seed, f"closed loop {mix.name}")
    nodes = [node for node, row in topology.node_rows.items() if row["role"] != "spare"]
    pdus = sorted({str(pdu) for (kind, pdu) in topology.nodes_by_domain if kind == "pdu"})
    links = topology.links["cable"].to_list()
    causes, counts = [cause for cause, _ in COUNTS], [count for _, count in COUNTS]
    rate = (
        float(random.uniform(*mix.failures_per_day)) * topology.nodes.height * topology.gpus_per_node / REFERENCE_GPUS
    )
    found: list[Failure] = []
    at = float(random.exponential(DAY_SECONDS / rate))
    while at < days * DAY_SECONDS:
        share = [count / sum(counts) for count in counts]
        cause = causes[int(random.choice(len(causes), p=share))]
        if random.random() < mix.domains_share and pdus:
            cause = "power_domain_lost"
        kind = CAUSE_BY_NAME[cause].kind
        node = nodes[int(random.integers(len(nodes)))]
        slot = int(random.integers(topology.gpus_per_node))
        link = links[int(random.integers(len(links)))] if links else node
        pdu = pdus[int(random.integers(len(pdus)))] if pdus else node
        root = {"gpu": f"{node}/{slot}", "node": node, "link": link, "pdu": pdu}.get(kind, "train-1")
        luck = (float(random.random()), float(random.random()))
        found.append(Failure(len(found), at, cause, kind, root, luck))
        at += float(random.exponential(DAY_SECONDS / rate))
    return tuple(found)


@dataclass(frozen=True)
class Stop:
    """The job stands still from begins to ends. rolls_back: it then begins again at its newest checkpoint."""

    begins: float
    ends: float
    rolls_back: bool


@dataclass(frozen=True)
class Missing:
    """share of the job's GPUs that are not there from begins to ends, while it trains without them."""

    begins: float
    ends: float
    share: float


def effective_share(
    stops: Sequence[Stop],
    missing: Sequence[Missing],
    total_seconds: float,
    interval_seconds: float,
    stall_seconds: float,
) -> float:
    """Share of GPU time that trained: without stops, steps done twice, checkpoints' stalls, and missing GPUs.

    A checkpoint ends every interval of training time; what a roll-back loses is what was trained since the last one.
    """
    trained, since_checkpoint, clock = 0.0, 0.0, 0.0
    for begin, end, rolls_back in _merged(stops, total_seconds):
        trained += max(0.0, begin - clock)
        since_checkpoint = (since_checkpoint + max(0.0, begin - clock)) % interval_seconds
        if rolls_back:
            trained -= since_checkpoint
            since_checkpoint = 0.0
        clock = max(clock, end)
    trained += max(0.0, total_seconds - clock)
    absent = sum(one.share * max(0.0, min(one.ends, total_seconds) - one.begins) for one in missing)
    running = trained * interval_seconds / (interval_seconds + stall_seconds)
    return max(0.0, (running - absent) / total_seconds)


def _merged(stops: Sequence[Stop], total_seconds: float) -> list[tuple[float, float, bool]]:
    merged: list[tuple[float, float, bool]] = []
    for stop in sorted(stops, key=lambda one: one.begins):
        begin, end = stop.begins, min(stop.ends, total_seconds)
        if begin >= total_seconds or end <= begin:
            continue
        if merged and begin <= merged[-1][1]:
            first, last, rolls = merged[-1]
            merged[-1] = (first, max(last, end), rolls or stop.rolls_back)
        else:
            merged.append((begin, end, stop.rolls_back))
    return merged
