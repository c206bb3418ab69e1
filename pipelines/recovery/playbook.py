"""The playbook: for each cause the phases of its recovery, in order. One reads it top to bottom.

A step with `after` is not taken before that one is done on the same place (a node is not rebooted under a job that
was not drained); a last resort goes ahead without it when its deadline has come. within_seconds is the phase's
deadline, counted from the end of the phase it waits for, or from detection; it is shown with the incident, and a phase
that misses it goes to a person. A step with settle_seconds gives the one before it that long to help, and is taken
only if the incident lasts.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from schemas.action import ActionKind

Place = Literal["root", "nodes", "ports", "cluster"]


@dataclass(frozen=True)
class Step:
    """on: the roots themselves, the nodes that the roots are in or are, the far-end port of a root link (the end
    further from the GPU), or the cluster as one. parameters: plain data for the executor. if_short: only when there
    are fewer spares than nodes lost. or_after: a step on the cluster that will do as well as `after`. if_code,
    unless_code: only where a finding about the root has one of these codes, or none of them. if_page: not while the
    incident is a ticket.
    """

    kind: ActionKind
    on: Place
    reason: str
    after: ActionKind | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    if_short: bool = False
    within_seconds: float | None = None
    settle_seconds: float | None = None
    or_after: ActionKind | None = None
    if_code: frozenset[str] = frozenset()
    unless_code: frozenset[str] = frozenset()
    if_page: bool = False


def ticket(text: str, work: str = "") -> Step:
    return Step("open_ticket", "root", text, parameters={"work": work} if work else {})


# A dead GPU or node: 8 s in all from detection to training again, the bar of the reference cluster.
DRAIN = Step("drain_node", "nodes", "take the node out before anything is done to it", within_seconds=1)
REPLACE = (
    Step("pause_stage", "nodes", "the stage waits for its new rank", after="drain_node", within_seconds=1),
    Step(
        "allocate_spare", "nodes", "a spare takes the node's ranks", after="pause_stage", parameters={"count": 1},
        within_seconds=1,
    ),
    Step(
        "restore_shard", "nodes", "load the shard from its newest good checkpoint", after="allocate_spare",
        within_seconds=4,
    ),
    Step(
        "resume", "nodes", "go on with the spare", after="restore_shard", within_seconds=1,
        parameters={"partial_gradient_skipping": True},
    ),
)  # fmt: skip
RESET = Step("reset_gpu", "root", "clear the fault with the node empty", after="drain_node")
REBOOT = Step("reboot_node", "nodes", "only a reboot brings it back onto the bus", after="drain_node")
CHECKPOINT = Step("global_checkpoint", "cluster", "survivors save what they have", within_seconds=30)
SAVE = Step("global_checkpoint", "cluster", "what the loop's GPUs hold is saved before they are shut down")
CAP = Step("cap_power", "root", "less heat and current buys time", parameters={"share_of_limit": 0.7}, within_seconds=5)
RAISE_FLOW = Step("raise_flow", "root", "more flow through what still works", within_seconds=5)
# A link goes back to work by itself once it has been clean (returns.py); what is done to it by hand is a ticket.
ISOLATE = Step("isolate_port", "ports", "keep traffic off the link", within_seconds=5)


# Only a remap that failed wears the memory out (domain.md 4.2); a double bit error (XID 48) wants a reset, after which
# its rows are remapped. Resets that do not help lead to diagnostics and RMA by themselves (escalation.py).
REMAP_FAILED = frozenset({"row_remap_failure", "xid 64"})


def settled(step: Step, seconds: float, after: ActionKind) -> Step:
    return replace(step, after=after, settle_seconds=seconds)


# A cause that nobody has written a playbook for is a person's; a test keeps every cause of the catalogue in the book.
UNWRITTEN = (ticket("no playbook for this cause: see its evidence"),)
PLAYBOOK: dict[str, tuple[Step, ...]] = {
    "power_domain_lost": (
        CHECKPOINT,
        Step(
            "allocate_spare", "root", "spares take the ranks of the domain's nodes", parameters={"partial": True},
            within_seconds=5,
        ),
        Step(
            "reclaim_gpus", "cluster", "fewer spares than nodes lost: from under-used pods", if_short=True,
            within_seconds=60,
        ),
        Step(
            "restore_shard", "root", "load the shards onto the spares and the GPUs reclaimed", after="allocate_spare",
            or_after="reclaim_gpus", within_seconds=30,
        ),
        Step(
            "resume", "root", "go on at what capacity there is", after="restore_shard", within_seconds=5,
            parameters={"partial_gradient_skipping": True},
        ),
        ticket("power domain without power: find the breaker or feed"),
    ),
    "breaker_overloaded": (CAP, ticket("circuit above its continuous rating: move load before its breaker opens")),
    "power_sag": (CAP, ticket("supply voltage sags: check the feed")),
    "coolant_pump_failure": (
        Step("raise_flow", "root", "what pump still runs takes over the flow", within_seconds=5),
        CAP,
        SAVE,
        Step(
            "staged_shutdown", "root", "last resort before the hardware stops by itself", after="global_checkpoint",
            parameters={"last_resort": True}, settle_seconds=5,
        ),
        ticket("coolant pump failed: repair or exchange it"),
    ),
    # One sign alone may be a wet sensor; two are a leak (coolant.leak). Then work is saved and GPUs are off before the
    # flow ends, but water waits for that no longer than its pace allows (leak.py).
    "coolant_leak": (
        ticket("coolant leak: a person must look before anything is powered on again"),
        replace(CAP, if_page=True),
        replace(SAVE, if_page=True),
        Step(
            "staged_shutdown", "root", "no GPU is left on without flow, or under water", after="global_checkpoint",
            parameters={"last_resort": True, "automatic_power_on": False}, if_page=True,
        ),
        Step(
            "isolate_loop", "root", "stop the leak", after="staged_shutdown",
            parameters={"last_resort": True, "automatic_power_on": False}, if_page=True,
        ),
    ),
    "coolant_flow_restricted": (
        RAISE_FLOW, settled(CAP, 30, "raise_flow"), ticket("flow restricted: check strainer and valves"),
    ),
    "valve_stuck": (CAP, ticket("branch valve does not follow its set-point")),
    "cold_plate_clogged": (RAISE_FLOW, ticket("cold plate clogs: flush or exchange it")),
    "coolant_air": (ticket("air in the loop: bleed it"),),
    "coolant_chemistry": (ticket("coolant chemistry out of band: take a sample"),),
    "coolant_heat_unbalanced": (ticket("heat in and out of the loop differ: compare its meters"),),
    "heat_exchanger_fouled": (ticket("heat exchanger fouled: clean it"),),
    "switch_lost": (ticket("switch lost: exchange it"),),
    "node_lost": (DRAIN, *REPLACE, Step("reboot_node", "nodes", "bring the silent node back", after="drain_node")),
    "lemon_node": (ticket("node fails again and again: take it out for diagnostics"),),
    "hardware_degraded": (ticket("a fan, supply or sensor of the box is critical: exchange the part"),),
    "gpu_fallen_off_bus": (DRAIN, *REPLACE, REBOOT),
    "gpu_fatal_error": (DRAIN, *REPLACE, RESET),
    "gpu_memory": (
        DRAIN, *REPLACE,
        Step(
            "reset_gpu", "root", "a reset remaps the bad rows, with the node empty", after="drain_node",
            unless_code=REMAP_FAILED,
        ),
        Step("rma", "root", "memory rows can no longer be remapped", after="drain_node", if_code=REMAP_FAILED),
    ),
    "gpu_nvlink": (DRAIN, *REPLACE, RESET),
    "gpu_pcie": (ticket("PCIe link below its width, generation or error rate: reseat at the next drain"),),
    # Flow first, then power, then out: each gets its time to help.
    "gpu_thermal_throttle": (
        RAISE_FLOW, settled(CAP, 20, "raise_flow"), settled(DRAIN, 60, "cap_power"),
        ticket("GPU throttles: check its cold plate"),
    ),
    "gpu_power_brake": (ticket("power brake asserted from outside: check PSU and feed"),),
    "gpu_straggler": (ticket("GPU slower than its peers: run diagnostics at the next drain"),),
    "gpu_hang": (Step("restart_app", "root", "the rank is stuck"), ticket("hung rank: find out why")),
    "fiber_loss": (
        Step("clean_connector", "root", "loss at an event: clean both ends first"),
        Step("reseat", "root", "then seat them again and measure", after="clean_connector"),
    ),
    "fiber_reflectance": (Step("clean_connector", "root", "reflection: inspect and clean"),),
    "fiber_length": (ticket("cable is not of the length it should be: check what is plugged"),),
    "connector_contaminated": (Step("clean_connector", "root", "one end dirty: inspect and clean"),),
    "optic_degrading": (ticket("replace optic before it fails", work="replace_cable"),),
    "link_degraded": (ticket("error rate beyond its limit: clean, reseat or replace", work="clean_connector"),),
    "link_congested": (ticket("traffic waits for credit and nothing is damaged: see who shares the path"),),
    "link_flap": (ISOLATE, ticket("flapping link: clean, reseat, then replace", work="clean_connector")),
    "link_down": (
        Step("reset_port", "ports", "one try to bring the link up", within_seconds=10),
        ticket("link down: reseat, then replace", work="reseat"),
    ),
    "job_hang": (Step("restart_app", "root", "no rank makes progress"), ticket("job hangs: find the first rank")),
    "checkpoint_stale": (ticket("checkpoint older than its interval allows"),),
    "telemetry_stale": (ticket("source is silent: the state of what it watches is unknown"),),
    "telemetry_frozen": (ticket("values do not move: restart the exporter"),),
    "telemetry_implausible": (ticket("values out of range: check sensor and exporter"),),
    "counter_saturated": (ticket("counter stuck at its maximum: clear it"),),
    "counter_stuck": (ticket("counter stands still and must not: restart the exporter, then the driver"),),
    "clock_skew": (ticket("source's clock is off: check its time service"),),
    "source_restarted": (ticket("source restarts again and again: read its log"),),
}  # fmt: skip
