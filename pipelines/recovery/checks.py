"""The guard's checks: each looks at one danger and gives the reason to refuse, or None.

CHECKS is the order in which they are asked; the first refusal is the one recorded. Pure.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil

from pipelines.recovery.facts import CertainFacts
from pipelines.recovery.history import nodes_touched
from pipelines.recovery.kinds import DISRUPTIVE, PAPER, RESETS, RETURNS, TRUST_TELEMETRY
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRequest
from schemas.topology import DOMAIN_COLUMNS, node_of

# Causes whose deadline outweighs the two-person rule: a loop that leaks loses its flow at its deadline in any case.
URGENT = frozenset({"coolant_pump_failure", "coolant_leak", "power_domain_lost"})

ON_THEIR_WAY = ("pending", "scheduled", "waiting_approval")  # what may still be done, in time or when people say so


class Refusal(StrEnum):
    MISSING_FACTS = "missing_facts"
    UNKNOWN_TARGET = "unknown_target"
    BREAKER_TRIPPED = "breaker_tripped"
    BREAKER_TRIPS = "breaker_trips"
    HELD_BY_PERSON = "held_by_person"
    JOB_MINIMUM = "job_minimum"
    EXPIRED = "expired"
    TELEMETRY_DEGRADED = "telemetry_degraded"
    EARLIER_STEP_NOT_DONE = "earlier_step_not_done"
    STANDS_READY = "stands_ready"
    COOLDOWN = "cooldown"
    RESETS_USED_UP = "resets_used_up"
    LINK_BUDGET = "link_budget"
    NODE_BUDGET = "node_budget"
    NO_SPARE = "no_spare"
    NO_EXECUTOR = "no_executor"


def _breaker_tripped(request: ActionRequest, facts: CertainFacts, _: RecoverySettings) -> str | None:
    if not facts.breaker.tripped or request.kind in RETURNS | PAPER or _on_the_way_back(request, facts):
        return None
    return f"{facts.breaker.reason}; only a person resets it (`hotspare breaker reset`)"


def _on_the_way_back(request: ActionRequest, facts: CertainFacts) -> bool:
    """Diagnostics of a node that is out already take no service away, and it cannot return without them."""
    return request.kind == "field_diagnostics" and node_of(request.target) in facts.history.drained_nodes(facts.mode)


def _held(request: ActionRequest, facts: CertainFacts, _: RecoverySettings) -> str | None:
    """What a person has in hand, or stands in a domain that one has. Not even a return: the person may be inside."""
    if request.kind in PAPER:
        return None
    ends = facts.topology.ends(str(request.parameters.get("cable"))) or facts.topology.ends(request.target)
    places = {request.target, request.target.rpartition(":")[0], str(request.parameters.get("cable")), *ends}
    nodes = {node_of(place) for place in places}
    rows = (facts.topology.node_rows[node] for node in nodes if node in facts.topology.node_rows)
    domains = {row[name] for row in rows for name in DOMAIN_COLUMNS}
    held = sorted((places | nodes | {domain for domain in domains if domain is not None}) & facts.held)
    roots = [str(root) for root in request.parameters.get("roots", ())]  # what is asked of the cluster for their sake
    if roots and facts.held.issuperset(roots):
        held = [*held, *roots]
    return f"{held[0]!r} is held by a person or for maintenance (`hotspare holds list`)" if held else None


def _unknown_target(request: ActionRequest, facts: CertainFacts, _: RecoverySettings) -> str | None:
    """An action on something that the topology does not know is aimed at nothing, or at the wrong thing."""
    kind, target, topology = request.parameters.get("target_kind"), request.target, facts.topology
    if request.kind in PAPER:
        return None
    match kind:
        case "cluster":
            known = target == topology.name
        case "job" | "source":
            known = True  # not in the topology; who carries it out knows them
        case "node":
            known = target in topology.node_rows
        case "gpu":
            known = target in topology.gpus_of_node(node_of(target)) and node_of(target) in topology.node_rows
        case "port":
            row = topology.link_rows.get(str(request.parameters.get("cable")), {})
            known = target in {f"{row.get(end)}:{row.get(f'{end}_port')}" for end in ("a", "b")}
        case "link" | "cable":
            known = target in topology.link_rows
        case "switch":
            known = target in topology.links_by_device
        case _:
            known = (kind, target) in topology.nodes_by_domain
    return None if known else f"no {kind or 'kind of target'} {target!r} in topology {topology.name!r}"


def _expired(request: ActionRequest, facts: CertainFacts, settings: RecoverySettings) -> str | None:
    """Age, and the backlog of a tripped breaker: what waited behind it is for a person to judge again."""
    if request.kind in RETURNS | PAPER or _on_the_way_back(request, facts):
        return None
    # A loop may be short of flow for hours and lose the rest of it now: that is no old request.
    asked_at = max(request.requested_at, deadline_of(request) or request.requested_at)
    if asked_at < facts.now - timedelta(seconds=settings.expires_seconds):
        return f"requested at {request.requested_at:%Y-%m-%d %H:%M:%S}, more than {settings.expires_seconds:g} s ago"
    reset_at = facts.breaker.at
    if reset_at is not None and not facts.breaker.tripped and request.requested_at <= reset_at:
        return f"older than the breaker's reset at {reset_at:%Y-%m-%d %H:%M:%S}"
    return None


def _telemetry_degraded(request: ActionRequest, facts: CertainFacts, _: RecoverySettings) -> str | None:
    if request.kind not in TRUST_TELEMETRY:
        return None
    places = {request.target, node_of(request.target), request.target.rpartition(":")[0]}
    places.update(map(node_of, facts.topology.ends(str(request.parameters.get("cable")))))
    places.update(map(node_of, facts.topology.ends(request.target)))
    blind = sorted(places & facts.degraded)
    return f"telemetry of {blind[0]!r} is not to be trusted now" if blind else None


def deadline_of(request: ActionRequest) -> datetime | None:
    """When this can no longer wait for people: only what is left to a loop or a power domain is one."""
    said = request.parameters.get("deadline_at")
    return None if said is None or request.parameters.get("cause") not in URGENT else datetime.fromisoformat(said)


def is_last_chance(request: ActionRequest, now: datetime) -> bool:
    """Whether a last resort would come too late if it waited for anything more."""
    deadline = deadline_of(request)
    return bool(request.parameters.get("last_resort")) and deadline is not None and deadline <= now


def _stands_ready(request: ActionRequest, facts: CertainFacts, _: RecoverySettings) -> str | None:
    """What is done for the work of a node that was drained. A spare that fails while it waits has none, so that no
    other spare is to take it over.
    """
    drain = facts.known.get(str(request.parameters.get("after"))) if request.kind == "pause_stage" else None
    if drain is None or not drain.request.parameters.get("stood_ready"):
        return None
    return f"{request.target!r} was a spare that waited, and nothing ran on it"


def _earlier_step(request: ActionRequest, facts: CertainFacts, _: RecoverySettings) -> str | None:
    if is_last_chance(request, facts.now) and not _objected_before(request, facts):
        return None
    return earlier_not_done(request, facts)


def _objected_before(request: ActionRequest, facts: CertainFacts) -> bool:
    """Whoever objects to shutting GPUs down does not want their flow cut instead."""
    earlier = facts.known.get(str(request.parameters.get("after")))
    return earlier is not None and earlier.outcome == "rejected" and earlier.request.kind in DISRUPTIVE


def earlier_not_done(request: ActionRequest, facts: CertainFacts) -> str | None:
    """How the step stands that this one waits for; None when it is done."""
    after = request.parameters.get("after")
    if after is None:
        return None
    earlier = facts.known.get(after)
    if earlier is None:
        return f"{after} was never decided"
    other = facts.known.get(str(request.parameters.get("or_after")))
    steps = [step for step in (earlier, other) if step is not None]
    if any(step.outcome == "done" or (facts.mode == "dry-run" and step.outcome == "dry-run") for step in steps):
        return None
    return " and ".join(f"{step.request.kind} of {step.request.target!r} is {step.outcome}" for step in steps)


def awaited(request: ActionRequest, facts: CertainFacts) -> str:
    """The steps before this one that are on their way, each with how it stands; empty where none is."""
    steps = [facts.known.get(str(request.parameters.get(name))) for name in ("after", "or_after")]
    under_way = [step for step in steps if step is not None and step.outcome in ON_THEIR_WAY]
    return " or ".join(f"{step.request.kind} of {step.request.target!r} ({step.outcome})" for step in under_way)


def _cooldown(request: ActionRequest, facts: CertainFacts, settings: RecoverySettings) -> str | None:
    """Of an entity. What is asked of the cluster is for the sake of other entities each time: a power domain's
    checkpoint does not wait because a loop's was a moment ago.
    """
    if request.parameters.get("target_kind") == "cluster":
        return None
    last = facts.history.last_at(request.kind, request.target, facts.mode)
    if last is None or request.kind in RETURNS | PAPER:
        return None
    passed = (facts.now - last).total_seconds()
    if passed >= settings.cooldown_seconds:  # a clock that stepped back gives a negative time: still cooling
        return None
    return f"done at {last:%Y-%m-%d %H:%M:%S}, and {settings.cooldown_seconds:g} s must pass"


def _resets_used_up(request: ActionRequest, facts: CertainFacts, settings: RecoverySettings) -> str | None:
    if request.kind not in RESETS:
        return None
    since = facts.now - timedelta(days=settings.resets_window_days)
    used = facts.history.resets_since(request.target, since, facts.mode)
    if used < settings.resets_maximum:
        return None
    return f"{used} resets in {settings.resets_window_days:g} days: run field diagnostics, then replace it"


def _link_budget(request: ActionRequest, facts: CertainFacts, settings: RecoverySettings) -> str | None:
    if request.kind != "isolate_port":
        return None
    cable = str(request.parameters.get("cable"))
    isolated = facts.history.isolated_links(facts.mode) | {cable}
    allowed = max(settings.isolated_links_minimum, int(settings.isolated_links_share * facts.topology.links.height))
    if len(isolated) > allowed:
        return f"{allowed} links are isolated already"
    for place in {node_of(end) for end in facts.topology.ends(cable)}:
        here = sum(place in {node_of(end) for end in facts.topology.ends(other)} for other in isolated)
        if here > settings.isolated_links_per_device:
            return f"{settings.isolated_links_per_device} links of {place!r} are isolated already"
    return None


def _node_budget(request: ActionRequest, facts: CertainFacts, settings: RecoverySettings) -> str | None:
    if request.kind != "drain_node":
        return None
    drained = facts.history.drained_nodes(facts.mode) | {request.target}
    allowed = max(settings.drained_nodes_minimum, int(settings.drained_nodes_share * len(facts.topology.node_rows)))
    if len(drained) > allowed:
        return f"{allowed} nodes are drained already"
    rows = facts.topology.node_rows
    superblock = rows[request.target]["superblock"]
    here = sum(node in rows and rows[node]["superblock"] == superblock for node in drained)
    if here > settings.drained_nodes_per_superblock:
        return f"{settings.drained_nodes_per_superblock} nodes of superblock {superblock!r} are drained already"
    return None


def _job_minimum(request: ActionRequest, facts: CertainFacts, settings: RecoverySettings) -> str | None:
    if request.kind != "drain_node":
        return None
    for job in facts.jobs.values():
        least = settings.job_nodes_minimum.get(job.job, ceil(settings.job_nodes_minimum_share * len(job.nodes)))
        if request.target not in job.nodes or request.target in facts.history.drained_nodes(facts.mode):
            continue
        left = facts.history.nodes_left(job.nodes, facts.mode) - 1
        if left < least:
            return f"job {job.job!r} would be left with {left} nodes and needs {least}"
    return None


def _no_spare(request: ActionRequest, facts: CertainFacts, _: RecoverySettings) -> str | None:
    if request.kind != "allocate_spare":
        return None
    promised = facts.history.spares_promised if facts.mode == "dry-run" else 0
    left, wanted = max(0, facts.spares_available - promised), int(request.parameters.get("count", 1))
    if request.parameters.get("partial") and left > 0:
        return None  # as many as there are: the rest is reclaimed elsewhere
    return None if wanted <= left else f"{wanted} wanted, {left} left"


def _no_executor(request: ActionRequest, facts: CertainFacts, _: RecoverySettings) -> str | None:
    if facts.mode != "enforce" or request.kind in facts.executors:
        return None
    return f"nobody is set to carry out {request.kind}"


def _breaker_trips(request: ActionRequest, facts: CertainFacts, settings: RecoverySettings) -> str | None:
    if request.kind not in DISRUPTIVE or _on_the_way_back(request, facts):
        return None
    since = facts.now - timedelta(seconds=settings.breaker_window_seconds)
    touched = nodes_touched(request.parameters.get("target_kind"), request.target, facts.topology)
    if not touched:
        return None
    acted = facts.history.nodes_acted_on(since, facts.mode).union(touched)
    share = len(acted) / len(facts.topology.node_rows)
    if share <= settings.breaker_share:
        return None
    return f"{len(acted)} nodes ({share:.0%}) would be acted on in {settings.breaker_window_seconds:g} s"


Check = Callable[[ActionRequest, CertainFacts, RecoverySettings], str | None]
CHECKS: tuple[tuple[Refusal, Check], ...] = (
    (Refusal.BREAKER_TRIPPED, _breaker_tripped),
    (Refusal.UNKNOWN_TARGET, _unknown_target),
    (Refusal.HELD_BY_PERSON, _held),
    (Refusal.EXPIRED, _expired),
    (Refusal.TELEMETRY_DEGRADED, _telemetry_degraded),
    (Refusal.STANDS_READY, _stands_ready),
    (Refusal.EARLIER_STEP_NOT_DONE, _earlier_step),
    (Refusal.COOLDOWN, _cooldown),
    (Refusal.RESETS_USED_UP, _resets_used_up),
    (Refusal.LINK_BUDGET, _link_budget),
    (Refusal.NODE_BUDGET, _node_budget),
    (Refusal.JOB_MINIMUM, _job_minimum),
    (Refusal.NO_SPARE, _no_spare),
    (Refusal.NO_EXECUTOR, _no_executor),
    (Refusal.BREAKER_TRIPS, _breaker_trips),
)
