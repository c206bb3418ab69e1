"""Which cause explains which others, and which are one: two tables. Where things stand is in detectors.places.

Power goes before coolant, switch, node, GPU, link, job and telemetry (schemas.causes). A symptom leans on places: its
own entity, the domains it is inside of, the devices at its link's ends. A cause explains it from one of those places.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Relation = Literal["same", "inside", "whole", "end", "job", "source"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)


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

    def over(self, relation: Relation) -> tuple[str, ...]:
        """Its symptoms over one relation."""
        named: tuple[str, ...] = getattr(self, relation)
        return named


SLOWED = ("gpu_straggler", "gpu_hang")
OVERHEATED = ("gpu_thermal_throttle", *SLOWED)
BROKEN_ALONE = ("gpu_fatal_error", "gpu_memory", "gpu_nvlink", "gpu_pcie", *OVERHEATED)
BROKEN = (*BROKEN_ALONE, "gpu_power_brake")
LINKS = ("link_degraded", "link_flap", "link_down")
JOBS = ("job_hang", "checkpoint_stale")
READ_TOGETHER = ("gpu", "cold_plate")
SILENT = ("telemetry_stale", "telemetry_frozen", "telemetry_implausible")
CLOCK_OR_RESTART = ("clock_skew", "source_restarted")

EXPLAINS: tuple[Explains, ...] = (
    Explains(
        causes=("power_domain_lost",), same=("power_sag",),
        inside=("node_lost", "hardware_degraded", "gpu_fallen_off_bus", *BROKEN),
        whole=("coolant_pump_failure", "coolant_flow_restricted"), end=LINKS, job=JOBS,
        source=(*SILENT, *CLOCK_OR_RESTART),
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
    Explains(causes=("switch_lost",), end=LINKS, job=JOBS, source=(*SILENT, "source_restarted")),
    Explains(
        causes=("node_lost",), inside=("gpu_fallen_off_bus", *BROKEN), end=LINKS, job=JOBS,
        source=(*SILENT, *CLOCK_OR_RESTART),
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
    Merge(causes=("gpu_fallen_off_bus", *BROKEN_ALONE), over=("device",), together=True),
    # Hosts of one feed brake together: it is the power, not each host (NVSentinel issue 1666).
    Merge(causes=("gpu_power_brake",), over=("device", "pdu"), together=True),
    Merge(causes=("link_flap", "link_down"), over=("device", "bundle"), together=False),
    # A collector takes every table of whoever sends through it.
    Merge(causes=("telemetry_stale",), over=("site",), together=False),
    Merge(causes=("telemetry_frozen", "telemetry_implausible"), over=("table", "device"), together=False),
    # Counters of a whole fabric are cleared by one command, and an update restarts all exporters.
    Merge(causes=("source_restarted",), over=("site",), together=False),
    Merge(causes=("counter_stuck",), over=("table", "device"), together=False),
    # All tables of a host have one clock.
    Merge(causes=("clock_skew",), over=("device",), together=False),
)

SYMPTOMS: Mapping[str, Mapping[Relation, frozenset[str]]] = {
    cause: {relation: frozenset(row.over(relation)) for relation in RELATIONS if row.over(relation)}
    for row in EXPLAINS
    for cause in row.causes
}
"""By cause and relation, what it explains."""
EXPLAINS_ANY: Mapping[str, frozenset[str]] = {
    cause: frozenset().union(*over.values()) for cause, over in SYMPTOMS.items()
}
"""By cause, what it explains over whatever relation."""
EXPLAINED_BY: Mapping[str, Mapping[Relation, frozenset[str]]] = {
    symptom: {
        relation: frozenset(cause for cause, over in SYMPTOMS.items() if symptom in over.get(relation, ()))
        for relation in RELATIONS
    }
    for symptom in {symptom for over in SYMPTOMS.values() for named in over.values() for symptom in named}
}
"""The same read from the symptom: by symptom and relation, what explains it."""
MERGE_BY_CAUSE: Mapping[str, Merge] = {cause: row for row in MERGES for cause in row.causes}
