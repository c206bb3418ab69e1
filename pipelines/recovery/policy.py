"""Policy: what an incident calls for, in which order, on what. Pure. The guard says whether it may be.

The request carries the id of the action it waits for, the deadline of its phase, and what the executor needs to know.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from pipelines.recovery.heat import (
    CHECKPOINT_SECONDS,
    STAGE_SECONDS,
    flow_liters_per_minute,
    seconds_to_shutdown,
    stages,
)
from pipelines.recovery.leak import paged_at, seconds_to_isolation
from pipelines.recovery.playbook import PLAYBOOK, UNWRITTEN, Step, ticket
from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionRequest, action_id
from schemas.incident import Incident
from schemas.topology import Topology, node_of

TICKET_EVIDENCE = 3  # findings that go with a ticket
Target = tuple[str, str, dict[str, Any]]


def plan(incident: Incident, topology: Topology, settings: RecoverySettings) -> tuple[ActionRequest, ...]:
    """Requests in the order in which they should happen; none for a mere suspicion or what is over.

    At most steps x targets_maximum requests and one ticket for the rest; ids come from content.
    """
    if incident.state in ("suspect", "resolved"):
        return ()
    requests: list[ActionRequest] = []
    left_out = 0
    for step in PLAYBOOK.get(incident.cause, UNWRITTEN):
        if step.if_page and incident.severity != "page":
            continue
        targets = tuple(_targets(step, incident, topology, settings))
        left_out = max(left_out, len(targets) - settings.targets_maximum)
        some = targets[: settings.targets_maximum]
        requests.extend(_request(step, incident, target, topology.name) for target in some)
    if left_out > 0:
        rest = ticket(f"{left_out} more targets were left to people: too many to act on for one incident")
        requests.append(_request(rest, incident, ("cluster", topology.name, {}), topology.name))
    return tuple(requests)


def _request(step: Step, incident: Incident, place: Target, cluster: str) -> ActionRequest:
    target_kind, target, parameters = place
    carried = {"target_kind": target_kind, "cause": incident.cause, **step.parameters, **parameters}
    named = {one.get("detector") for one in incident.evidence if one.get("cause") == incident.cause}
    if detectors := sorted(name for name in named if name):
        carried["detectors"] = detectors
    if step.within_seconds is not None:
        carried["within_seconds"] = step.within_seconds
    if step.settle_seconds is not None:
        carried["settle_seconds"] = step.settle_seconds
        since = _came_back_at(target, incident)
        if since is not None:
            carried["lasts_since"] = since.isoformat()
    if step.kind == "open_ticket":
        carried["evidence"] = list(incident.evidence[:TICKET_EVIDENCE])
    if step.after is not None:
        # What is done to a GPU waits for what was done to its node, and the other way round.
        before = {"drain_node": node_of(target), "global_checkpoint": cluster}.get(step.after, target)
        if step.kind == "drain_node":
            before = next(root for root in incident.roots if node_of(root) == target)
        carried["after"] = action_id(incident.id, step.after, before)
    if step.or_after is not None:
        carried["or_after"] = action_id(incident.id, step.or_after, cluster)
    return ActionRequest(
        id=action_id(incident.id, step.kind, target), incident=incident.id, kind=step.kind, target=target,
        parameters=carried, requested_at=paged_at(incident) if step.if_page else incident.detected_at,
        reason=step.reason,
    )  # fmt: skip


def _targets(step: Step, incident: Incident, topology: Topology, settings: RecoverySettings) -> Iterator[Target]:
    """(kind of target, target, parameters of its own)."""
    match step.on:
        case "cluster":
            short = _short_nodes(incident, topology)
            if not step.if_short:
                urgency = _urgency(step, incident, topology, settings)
                yield "cluster", topology.name, {"roots": list(incident.roots), **urgency}
            elif short > 0:
                yield "cluster", topology.name, {"nodes": short, "roots": list(incident.roots)}
        case "nodes":
            roots = dict.fromkeys(node_of(root) for root in _lasting(step, incident))
            yield from (("node", node, {}) for node in roots)
        case "ports":
            yield from (_port(root, topology) for root in incident.roots)
        case "root":
            for root in _lasting(step, incident):
                if _calls_for(step, root, incident):
                    yield incident.root_kind, root, _own(step, root, incident, topology)


def _lasting(step: Step, incident: Incident) -> tuple[str, ...]:
    """The roots that a step is for. One that waits is not for those that have recovered meanwhile: their incident lasts
    until it is clear that they stay so, or for the sake of others.
    """
    waits = step.settle_seconds is not None or step.parameters.get("last_resort")
    return tuple(root for root in incident.roots if not _is_over(root, incident)) if waits else incident.roots


def _came_back_at(target: str, incident: Incident) -> datetime | None:
    """Since when the target's roots are in trouble again, where they had recovered after the incident was detected."""
    onsets = [
        datetime.fromisoformat(one["first_bad_at"])
        for one in incident.evidence
        if one.get("cause") == incident.cause and one.get("active") and one.get("first_bad_at")
        and target in (one.get("entity"), node_of(str(one.get("entity"))))
    ]  # fmt: skip
    since = max(onsets, default=incident.detected_at)
    return since if since > incident.detected_at else None


def _is_over(root: str, incident: Incident) -> bool:
    said = [one for one in incident.evidence if one.get("entity") == root and one.get("cause") == incident.cause]
    return bool(said) and not any(one.get("active", True) for one in said)


def _calls_for(step: Step, root: str, incident: Incident) -> bool:
    if not step.if_code and not step.unless_code:
        return True
    codes = {one.get("code") for one in incident.evidence if one.get("entity") == root}
    return (not step.if_code or bool(codes & step.if_code)) and not codes & step.unless_code


def _urgency(step: Step, incident: Incident, topology: Topology, settings: RecoverySettings) -> dict[str, Any]:
    """How long a checkpoint may wait for people: until it would come too late."""
    if step.kind != "global_checkpoint":
        return {}
    if incident.cause == "power_domain_lost":
        return {"deadline_at": _at(incident.detected_at, settings.power_deadline_seconds)}
    lasting = (root for root in incident.roots if not _is_over(root, incident))
    begins = [_shutdown_begins(root, incident, _stages(root, incident, topology)) for root in lasting]
    soonest = min((seconds for seconds in begins if seconds is not None), default=None)
    if soonest is None:
        return {}
    return {"deadline_at": _at(paged_at(incident), max(0.0, soonest - CHECKPOINT_SECONDS))}


def _own(step: Step, root: str, incident: Incident, topology: Topology) -> dict[str, Any]:
    """What a step on this root needs to know beyond its kind."""
    match step.kind:
        case "allocate_spare":
            lost = set(topology.nodes_under(incident.root_kind, root)).difference(spares_of(topology))
            return {"count": len(lost)}
        case "cap_power":
            return {"nodes": list(topology.nodes_under(incident.root_kind, root))}
        case "staged_shutdown":
            return _shutdown(root, incident, topology)
        case "isolate_loop":
            left = _seconds_left(root, incident, _stages(root, incident, topology))
            return {} if left is None else {"deadline_at": _at(paged_at(incident), left)}
        case "raise_flow" if incident.root_kind == "gpu":
            watts = _values(root, incident).get("power_watts")
            needed = flow_liters_per_minute(watts) if isinstance(watts, int | float) else flow_liters_per_minute()
            return {"flow_liters_per_minute": round(needed, 3)}
    return {}


def _shutdown(root: str, incident: Incident, topology: Topology) -> dict[str, Any]:
    """Stages of whole nodes, and the last moment at which to begin so that the last one ends before the hardware, or
    the flow of a loop that leaks.
    """
    in_turn = _stages(root, incident, topology)
    parameters: dict[str, Any] = {"stages": [list(stage) for stage in in_turn]}
    left, begins = _seconds_left(root, incident, in_turn), _shutdown_begins(root, incident, in_turn)
    if left is not None and begins is not None:
        until = "seconds_to_isolation" if incident.cause == "coolant_leak" else "seconds_to_shutdown"
        parameters[until] = round(left, 1)
        parameters["deadline_at"] = _at(paged_at(incident), begins)
    return parameters


def _stages(root: str, incident: Incident, topology: Topology) -> tuple[tuple[str, ...], ...]:
    return stages(topology.gpus_under(incident.root_kind, root), 100, topology.gpus_per_node)


def _shutdown_begins(root: str, incident: Incident, in_turn: tuple[tuple[str, ...], ...]) -> float | None:
    """Seconds after the page; None where the hardware will not stop by itself."""
    left = _seconds_left(root, incident, in_turn)
    return None if left is None else max(0.0, left - STAGE_SECONDS * len(in_turn))


def _seconds_left(root: str, incident: Incident, in_turn: tuple[tuple[str, ...], ...]) -> float | None:
    """Until the hardware stops by itself, or the loop is isolated because it leaks."""
    values = _values(root, incident)
    if incident.cause == "coolant_leak":
        return seconds_to_isolation(values, CHECKPOINT_SECONDS + STAGE_SECONDS * len(in_turn))
    stops_at = values.get("shuts_down_at")  # later than the page says, where a pump has failed again since
    if isinstance(stops_at, str):
        return (datetime.fromisoformat(stops_at) - paged_at(incident)).total_seconds()
    return seconds_to_shutdown(values)


def _values(root: str, incident: Incident) -> dict[str, Any]:
    """What was seen of the root itself."""
    seen = (one.get("values") for one in incident.evidence if one.get("entity") == root)
    return next((values for values in seen if isinstance(values, dict)), {})


def _at(moment: datetime, seconds: float) -> str:
    return (moment + timedelta(seconds=seconds)).isoformat()


def _port(link: str, topology: Topology) -> Target:
    """An unknown link has no port; the guard will say so."""
    row = topology.link_rows.get(link)
    if row is None:
        return "link", link, {}
    return "port", f"{row['b']}:{row['b_port']}", {"cable": link, "tier": row["tier"]}


def spares_of(topology: Topology, roots: tuple[str, ...] = (), root_kind: str = "node") -> tuple[str, ...]:
    """Nodes that the topology keeps as spares, without those that stand in the failed domains."""
    lost = {node for root in roots for node in topology.nodes_under(root_kind, root)}
    return tuple(node for node in _kept_as_spares(topology) if node not in lost)


@lru_cache(maxsize=2)
def _kept_as_spares(topology: Topology) -> tuple[str, ...]:
    return tuple(node for node, row in topology.node_rows.items() if row["role"] == "spare")


def _short_nodes(incident: Incident, topology: Topology) -> int:
    lost = {node for root in incident.roots for node in topology.nodes_under(incident.root_kind, root)}
    spare = set(spares_of(topology))
    return len(lost - spare) - len(spare - lost)
