"""Redfish resources to coolant_loop, coolant_pump, power and hardware_sensor: one resource, a list, or a collection
with its members.

Which CDU or PDU a resource belongs to is said by its @odata.id (`/redfish/v1/ThermalEquipment/CDUs/{id}/...`,
`/redfish/v1/PowerEquipment/RackPDUs/{id}/...`). Properties carry their unit in the name and are SI, except where a
vendor writes gallons, psi or Fahrenheit, or says so in ReadingUnits. A Reading may be null: not reported.

A CDU or PDU id is unique within its controller only, so where the host of the service is known it stands before the id
(`bmc7/1`); an alias or a topology that knows the bare id says what it is (schemas.identity). Sensors of a server belong
to that host, or to the chassis of their path. Nothing is derived: the standard's own examples are not consistent.
"""

import re
from collections.abc import Iterator
from typing import Any

from schemas.formats import payload, redfish_chassis
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.json_values import document
from schemas.formats.redfish_resources import LEFT, NOT_THERE, RedfishRows
from schemas.formats.redfish_resources import READERS as PLANT_READERS

NAME = "Redfish JSON"
VERSIONS = (
    "DSP2046: CoolantConnector, Pump, Filter, Reservoir, LeakDetector, LeakDetection, PowerDistributionMetrics, "
    "Circuit; Thermal, Power, ThermalMetrics, PowerSupply, PowerSupplyMetrics of servers"
)
LEAVES = "service hours of filters, Outlet, Sensor, branch circuits, redundancy groups, thresholds, power limits"
LOOKS = re.compile(r'"@odata\.(?:id|type|context)"\s*:|"RedfishInteroperabilityProfile')
PROFILE = "RedfishInteroperabilityProfile"
KIND = re.compile(r"#(?:\w+\.)*(\w+)")
RESOURCES_MAXIMUM = 100_000
READERS = {**PLANT_READERS, **redfish_chassis.READERS}


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return LOOKS.search(payload.head_text(head)) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """coolant_loop, one row per CDU and time; coolant_pump, one per pump; power, one per PDU; hardware_sensor, one per
    sensor, fan and supply of a server. Time is the newest ReadingTime of a resource, or received_at.

    Rejects: readings that are no numbers or of an unknown unit, and resources that no table holds or that say they are
    not there (State Absent, Disabled, UnavailableOffline), counted by kind. Raises Unreadable for invalid JSON, with
    line and column, and for a document without any resource.
    """
    tree = document(data, surroundings, NAME)
    if isinstance(tree, dict) and str(tree.get("SchemaDefinition", "")).startswith(PROFILE):
        reason = "a Redfish interoperability profile: which properties a device must have, no readings"
        return Decoded(rejects=rejects_frame([Reject(rule="file|configuration", reason=reason)]))
    rows = RedfishRows(surroundings)
    left: dict[str, list[str]] = {}
    seen = 0
    for kind, resource in _resources(tree):
        seen += 1
        state = _state(resource)
        if kind in LEFT or (kind in READERS and state in NOT_THERE):
            words = f"{kind} says it is {state}" if kind in READERS else LEFT[kind]
            left.setdefault(words, []).append(str(resource.get("@odata.id", ""))[:200])
        elif kind in READERS:
            READERS[kind](rows, resource, seen)
    if not seen:
        raise Unreadable(f"{NAME}: no resource with an @odata.type")
    rejects = rows.rejects() + [
        Reject(rule="resource|left", reason=f"{words} ({len(places)}, first {places[0] or 'without @odata.id'})")
        for words, places in left.items()
    ]
    tables = rows.tables()
    if not tables and not rejects:
        kinds = ", ".join(sorted({kind for kind, _ in _resources(tree)})[:5])
        rejects = [Reject(rule="resource|left", reason=f"no reading in {seen} resource(s): {kinds}")]
    return Decoded(tables=tables, rejects=rejects_frame(rejects))


def _resources(tree: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(kind, resource) of the tree and of everything expanded in it, outermost first. Vendors' Oem parts are theirs."""
    waiting: list[Any] = [tree]
    found = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(reversed(value))
            continue
        if not isinstance(value, dict):
            continue
        named = value.get("@odata.type")
        match = KIND.fullmatch(named) if isinstance(named, str) and len(named) < 200 else None
        if match:
            found += 1
            if found > RESOURCES_MAXIMUM:
                raise Unreadable(f"{NAME}: more than {RESOURCES_MAXIMUM} resources")
            yield match.group(1), value
        waiting.extend(reversed([inner for key, inner in value.items() if key not in {"Oem", "Links", "Actions"}]))


def _state(resource: dict[str, Any]) -> Any:
    status = resource.get("Status")
    return status.get("State") if isinstance(status, dict) else None
