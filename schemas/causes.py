"""The one vocabulary of causes: findings, incidents, labels and scores use these words and no others.

A cause carries what an SRE needs to know first: in which kind of place its root sits, how far up the causal order
it stands (power before node before link before heartbeat), and whether GPUs are out of service because of it.
"""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["page", "ticket", "info"]
Kind = Literal["gpu", "node", "link", "cable", "switch", "cdu", "pdu", "job", "source"]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A way to fail.

    name: the word used everywhere. kind: the failure domain its root is. order: place in the causal order; an
    earlier one explains a later one. takes_gpus: whether the GPUs under the entity are members of the incident.
    stalls_gpus: whether the GPUs of the job that is its root are members: they are well, and do nothing.
    waits: whether it is usually somebody else's symptom, so that its incident waits for a better explanation.
    lingers_seconds: how long its detectors may still hold it when all is well again (their windows and hysteresis).
    severity: the default; a detector may say otherwise.
    """

    name: str
    kind: Kind
    order: int
    takes_gpus: bool = False
    stalls_gpus: bool = False
    waits: bool = False
    lingers_seconds: float = 0.0
    severity: Severity = "page"


POWER, COOLANT, SWITCH, NODE, GPU, LINK, JOB, TELEMETRY = range(8)

CAUSES: tuple[Cause, ...] = (
    Cause(name="power_domain_lost", kind="pdu", order=POWER, takes_gpus=True),
    Cause(name="breaker_overloaded", kind="pdu", order=POWER),
    Cause(name="power_sag", kind="pdu", order=POWER),
    Cause(name="coolant_pump_failure", kind="cdu", order=COOLANT),
    Cause(name="coolant_leak", kind="cdu", order=COOLANT),
    Cause(name="coolant_flow_restricted", kind="cdu", order=COOLANT),
    Cause(name="valve_stuck", kind="gpu", order=COOLANT),
    Cause(name="cold_plate_clogged", kind="gpu", order=COOLANT, lingers_seconds=660.0, severity="ticket"),
    Cause(name="coolant_air", kind="cdu", order=COOLANT, severity="ticket"),
    Cause(name="coolant_chemistry", kind="cdu", order=COOLANT, severity="ticket"),
    Cause(name="coolant_heat_unbalanced", kind="cdu", order=COOLANT, severity="ticket"),
    Cause(name="heat_exchanger_fouled", kind="cdu", order=COOLANT, severity="ticket"),
    Cause(name="switch_lost", kind="switch", order=SWITCH),
    Cause(name="node_lost", kind="node", order=NODE, takes_gpus=True, waits=True),
    Cause(name="lemon_node", kind="node", order=NODE, severity="ticket"),
    Cause(name="hardware_degraded", kind="node", order=NODE, severity="ticket"),
    Cause(name="gpu_fallen_off_bus", kind="gpu", order=GPU, takes_gpus=True),
    Cause(name="gpu_fatal_error", kind="gpu", order=GPU, takes_gpus=True),
    Cause(name="gpu_memory", kind="gpu", order=GPU, takes_gpus=True),
    Cause(name="gpu_nvlink", kind="gpu", order=GPU, takes_gpus=True),
    Cause(name="gpu_pcie", kind="gpu", order=GPU, severity="ticket"),
    Cause(name="gpu_thermal_throttle", kind="gpu", order=GPU, takes_gpus=True),
    Cause(name="gpu_power_brake", kind="gpu", order=GPU, takes_gpus=True),
    Cause(name="gpu_straggler", kind="gpu", order=GPU, takes_gpus=True, severity="ticket"),
    Cause(name="gpu_hang", kind="gpu", order=GPU, takes_gpus=True, waits=True),
    Cause(name="fiber_loss", kind="cable", order=LINK, severity="ticket"),
    Cause(name="fiber_reflectance", kind="cable", order=LINK, severity="ticket"),
    Cause(name="fiber_length", kind="cable", order=LINK, severity="ticket"),
    Cause(name="connector_contaminated", kind="link", order=LINK, severity="ticket"),
    Cause(name="optic_degrading", kind="link", order=LINK, severity="ticket"),
    Cause(name="link_degraded", kind="link", order=LINK, lingers_seconds=660.0, severity="ticket"),
    Cause(name="link_congested", kind="link", order=LINK, severity="info"),
    Cause(name="link_flap", kind="link", order=LINK, waits=True),
    Cause(name="link_down", kind="link", order=LINK, waits=True),
    Cause(name="job_hang", kind="job", order=JOB, stalls_gpus=True, waits=True),
    Cause(name="checkpoint_stale", kind="job", order=JOB, severity="ticket", waits=True),
    Cause(name="telemetry_stale", kind="source", order=TELEMETRY, severity="ticket", waits=True),
    Cause(name="telemetry_frozen", kind="source", order=TELEMETRY, severity="ticket", waits=True),
    Cause(name="telemetry_implausible", kind="source", order=TELEMETRY, severity="ticket", waits=True),
    Cause(name="counter_saturated", kind="source", order=TELEMETRY, severity="ticket"),
    Cause(name="counter_stuck", kind="source", order=TELEMETRY, severity="ticket"),
    Cause(name="clock_skew", kind="source", order=TELEMETRY, severity="ticket"),
    Cause(name="source_restarted", kind="source", order=TELEMETRY, severity="info"),
)

CAUSE_BY_NAME: dict[str, Cause] = {cause.name: cause for cause in CAUSES}
