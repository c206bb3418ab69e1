"""Policy: what an incident of each cause calls for, in which order, on what. Pure. The guard says whether it may be.

A step names a kind of action and where it goes. A step with `after` must not be taken before that one is done on the
same place (a node is not rebooted under a job that was not drained); the request carries the id it waits for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pipelines.recovery.settings import RecoverySettings
from schemas.action import ActionKind, ActionRequest, action_id
from schemas.incident import Incident
from schemas.topology import Topology, node_of

Place = Literal["root", "nodes", "ports", "cluster"]


@dataclass(frozen=True)
class Step:
    """on: the roots themselves, the nodes that the roots are in or are, the far-end port of a root link (the end
    further from the GPU), or the cluster as one. parameters: plain data for the executor.
    """

    kind: ActionKind
    on: Place
    reason: str
    after: ActionKind | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    if_short: bool = False


def _ticket(text: str) -> Step:
    return Step("open_ticket", "root", text)


DRAIN = Step("drain_node", "nodes", "take the node out before anything is done to it")
REPLACE = (
    Step("allocate_spare", "nodes", "a spare takes the node's ranks", after="drain_node", parameters={"count": 1}),
    Step("restore_shard", "nodes", "load the shard from its newest good checkpoint", after="allocate_spare"),
    Step(
        "resume", "nodes", "go on with the spare", after="restore_shard", parameters={"partial_gradient_skipping": True}
    ),
)
RESET = Step("reset_gpu", "root", "clear the fault with the node empty", after="drain_node")
REBOOT = Step("reboot_node", "nodes", "only a reboot brings it back onto the bus", after="drain_node")
CHECKPOINT = Step("global_checkpoint", "cluster", "survivors save what they have")
CAP = Step("cap_power", "root", "less heat and current buys time", parameters={"share_of_limit": 0.7})
RAISE_FLOW = Step("raise_flow", "root", "more flow through what still works")

POLICY: dict[str, tuple[Step, ...]] = {
    "power_domain_lost": (
        CHECKPOINT,
        Step("allocate_spare", "root", "spares take the ranks of the domain's nodes"),
        Step("reclaim_gpus", "cluster", "fewer spares than nodes lost", if_short=True),
        _ticket("power domain without power: find the breaker or feed"),
    ),
    "power_sag": (CAP, _ticket("supply voltage sags: check the feed")),
    "coolant_pump_failure": (
        Step("raise_flow", "root", "the other pump takes over the flow"),
        CAP,
        Step(
            "staged_shutdown", "root", "last resort before the hardware stops by itself", after="cap_power",
            parameters={"last_resort": True, "gpus_per_stage": 100, "after_checkpoint": True},
        ),
        _ticket("coolant pump failed: repair or exchange it"),
    ),
    "coolant_leak": (
        CAP,
        Step("isolate_loop", "root", "stop the leak", after="cap_power", parameters={"automatic_power_on": False}),
        _ticket("coolant leak: a person must look before anything is powered on again"),
    ),
    "coolant_flow_restricted": (RAISE_FLOW, CAP, _ticket("flow restricted: check strainer and valves")),
    "valve_stuck": (CAP, _ticket("branch valve does not follow its set-point")),
    "cold_plate_clogged": (RAISE_FLOW, _ticket("cold plate clogs: flush or exchange it")),
    "coolant_air": (_ticket("air in the loop: bleed it"),),
    "coolant_chemistry": (_ticket("coolant chemistry out of band: take a sample"),),
    "heat_exchanger_fouled": (_ticket("heat exchanger fouled: clean it"),),
    "switch_lost": (_ticket("switch lost: exchange it"),),
    "node_lost": (DRAIN, *REPLACE, Step("reboot_node", "nodes", "bring the silent node back", after="drain_node")),
    "gpu_fallen_off_bus": (DRAIN, *REPLACE, REBOOT),
    "gpu_fatal_error": (DRAIN, *REPLACE, RESET),
    "gpu_memory": (
        DRAIN, *REPLACE, Step("rma", "root", "memory rows can no longer be remapped", after="drain_node"),
    ),
    "gpu_nvlink": (DRAIN, *REPLACE, RESET),
    "gpu_pcie": (_ticket("PCIe link below its width, generation or error rate: reseat at the next drain"),),
    "gpu_thermal_throttle": (RAISE_FLOW, CAP, _ticket("GPU throttles: check its cold plate")),
    "gpu_power_brake": (_ticket("power brake asserted from outside: check PSU and feed"),),
    "gpu_straggler": (_ticket("GPU slower than its peers: run diagnostics at the next drain"),),
    "gpu_hang": (Step("restart_app", "root", "the rank is stuck"), _ticket("hung rank: find out why")),
    "fiber_loss": (
        Step("clean_connector", "root", "loss at an event: clean both ends first"),
        Step("reseat", "root", "then seat them again and measure", after="clean_connector"),
    ),
    "fiber_reflectance": (Step("clean_connector", "root", "reflection: inspect and clean"),),
    "fiber_length": (_ticket("cable is not of the length it should be: check what is plugged"),),
    "connector_contaminated": (Step("clean_connector", "root", "one end dirty: inspect and clean"),),
    "optic_degrading": (_ticket("replace optic before it fails"),),
    "link_degraded": (_ticket("error rate beyond its limit: clean, reseat or replace"),),
    "link_flap": (Step("isolate_port", "ports", "keep traffic off a flapping link"), _ticket("flapping link")),
    "link_down": (Step("reset_port", "ports", "one try to bring the link up"), _ticket("link down")),
    "job_hang": (Step("restart_app", "root", "no rank makes progress"), _ticket("job hangs: find the first rank")),
    "checkpoint_stale": (_ticket("checkpoint older than its interval allows"),),
    "telemetry_stale": (_ticket("source is silent: the state of what it watches is unknown"),),
    "telemetry_frozen": (_ticket("values do not move: restart the exporter"),),
    "telemetry_implausible": (_ticket("values out of range: check sensor and exporter"),),
    "counter_saturated": (_ticket("counter stuck at its maximum: clear it"),),
    "clock_skew": (_ticket("source's clock is off: check its time service"),),
}  # fmt: skip


def plan(incident: Incident, topology: Topology, settings: RecoverySettings) -> tuple[ActionRequest, ...]:
    """Requests in the order in which they should happen; none for a mere suspicion or what is over.

    At most steps x targets_maximum requests and one ticket for the rest; ids come from content.
    """
    if incident.state in ("suspect", "resolved"):
        return ()
    requests: list[ActionRequest] = []
    left_out = 0
    for step in POLICY[incident.cause]:
        targets = tuple(_targets(step, incident, topology))
        left_out = max(left_out, len(targets) - settings.targets_maximum)
        for kind, target, parameters in targets[: settings.targets_maximum]:
            requests.append(_request(step, incident, kind, target, parameters))
    if left_out > 0:
        rest = _ticket(f"{left_out} more targets were left to people: too many to act on for one incident")
        requests.append(_request(rest, incident, "cluster", topology.name, {}))
    return tuple(requests)


def _request(
    step: Step, incident: Incident, target_kind: str, target: str, parameters: dict[str, Any]
) -> ActionRequest:
    carried = {"target_kind": target_kind, "cause": incident.cause, **step.parameters, **parameters}
    if step.after is not None:
        # What is done to a GPU waits for what was done to its node.
        place = node_of(target) if step.after == "drain_node" else target
        carried["after"] = action_id(incident.id, step.after, place)
    return ActionRequest(
        id=action_id(incident.id, step.kind, target), incident=incident.id, kind=step.kind, target=target,
        parameters=carried, requested_at=incident.detected_at, reason=step.reason,
    )  # fmt: skip


def _targets(step: Step, incident: Incident, topology: Topology) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(kind of target, target, parameters of its own)."""
    match step.on:
        case "cluster":
            short = _short_nodes(incident, topology)
            if not step.if_short:
                yield "cluster", topology.name, {"roots": list(incident.roots)}
            elif short > 0:
                yield "cluster", topology.name, {"nodes": short}
        case "nodes":
            roots = dict.fromkeys(node_of(root) for root in incident.roots)
            yield from (("node", node, {}) for node in roots)
        case "ports":
            yield from (_port(root, topology) for root in incident.roots)
        case "root":
            for root in incident.roots:
                lost = set(topology.nodes_under(incident.root_kind, root)).difference(spares_of(topology))
                yield incident.root_kind, root, {"count": len(lost)} if step.kind == "allocate_spare" else {}


def _port(link: str, topology: Topology) -> tuple[str, str, dict[str, Any]]:
    """An unknown link has no port; the guard will say so."""
    row = topology.link_rows.get(link)
    if row is None:
        return "link", link, {}
    return "port", f"{row['b']}:{row['b_port']}", {"cable": link, "tier": row["tier"]}


def spares_of(topology: Topology, roots: tuple[str, ...] = (), root_kind: str = "node") -> tuple[str, ...]:
    """Nodes that the topology keeps as spares, without those that stand in the failed domains."""
    lost = {node for root in roots for node in topology.nodes_under(root_kind, root)}
    return tuple(node for node, row in topology.node_rows.items() if row["role"] == "spare" and node not in lost)


def _short_nodes(incident: Incident, topology: Topology) -> int:
    lost = {node for root in incident.roots for node in topology.nodes_under(incident.root_kind, root)}
    spare = set(spares_of(topology))
    return len(lost - spare) - len(spare - lost)
