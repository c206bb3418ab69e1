"""What each Redfish resource says of a coolant loop, a pump or a PDU (DMTF DSP2046; OCP's CDU profile)."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import dataframely as dy
import polars as pl

from schemas.formats.decoded import NOT_SAID, Reject, Surroundings
from schemas.formats.json_values import Readings, microseconds, since_epoch
from schemas.formats.units import conversion
from schemas.tables import TABLE_BY_NAME

NOT_THERE = frozenset({"Absent", "Disabled", "UnavailableOffline", "StandbyOffline"})
LEFT: Mapping[str, str] = {
    "Outlet": "Outlet: one outlet of a PDU, whose power is in the PDU's",
    "Sensor": "Sensor: a single sensor, whose place in a loop or PDU its resource does not say",
}
CDU = re.compile(r"/ThermalEquipment/(?:CDUs|HeatExchangers|ImmersionUnits)/([^/#]+)")
PDU = re.compile(
    r"/PowerEquipment/(?:RackPDUs|FloorPDUs|PowerShelves|Switchgear|Switchgears|TransferSwitches)/([^/#]+)"
)
# Property -> unit. SI ones are the standard's, the others vendors'.
CONNECTOR: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "flow_liters_per_minute": (
        "Flow", {"LitersPerMinute": "L/min", "GallonsPerMinute": "gal/min", "GPM": "gal/min", "LPM": "L/min"},
    ),
    "supply_celsius": ("SupplyTemperature", {"Celsius": "C", "Fahrenheit": "F"}),
    "return_celsius": ("ReturnTemperature", {"Celsius": "C", "Fahrenheit": "F"}),
    "supply_pressure_kpa": ("SupplyPressure", {"kPa": "kPa", "psi": "psi", "PSI": "psi", "Bar": "bar"}),
    "return_pressure_kpa": ("ReturnPressure", {"kPa": "kPa", "psi": "psi", "PSI": "psi", "Bar": "bar"}),
}  # fmt: skip
HEALTH = {"OK": "ok", "Warning": "warning", "Critical": "critical"}
LEAK_WORDS = {"OK": "ok", "Warning": "warning", "Critical": "critical", "Unavailable": "fault"}
LEAK_ORDER = ("ok", "fault", "warning", "critical")  # a detector in fault must not hide another's leak
BREAKER_WORDS = {"Normal": "closed", "On": "closed", "Off": "open", "Tripped": "tripped", "Manual": "open"}
LINES = ("Line1ToLine2", "Line2ToLine3", "Line3ToLine1")
PHASES = ("Line1", "Line2", "Line3")


class RedfishRows:
    """Values by table, entity and time, as the resources of one payload say them."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.readings = Readings()
        self.refused: list[Reject] = []
        self._rows: dict[str, dict[tuple[str, ...], dict[str, Any]]] = {}

    def row(self, table: str, resource: dict[str, Any], **key: str) -> dict[str, Any]:
        """The row of an entity at the resource's time."""
        time = self._time(resource)
        keys = (*key.values(), str(time))
        return self._rows.setdefault(table, {}).setdefault(keys, {"time": time, **key})

    def value(self, table: str, column: str, reading: Any, unit: str, place: int) -> float | None:
        """A reading, bare or wrapped in {"Reading": ...}, in the table's unit."""
        if isinstance(reading, dict):
            named = reading.get("ReadingUnits")
            unit = named if isinstance(named, str) and named else unit
            reading = reading.get("Reading")
        number = self.readings.number(column, reading, place)
        if number is None:
            return None
        metadata = _column(table, column).metadata or {}
        found = conversion(unit, metadata["unit"])
        if found is None:
            self.readings.lose(column, "unit", f"{number} {unit[:40]}", place)
            return None
        return self._within(table, column, found.of(number), place)

    def entity(self, pattern: re.Pattern[str], resource: dict[str, Any], place: int) -> str | None:
        """The id in the resource's path, behind the host of the service where it is known; that host where there is no
        path; None, and refused, when the path is of something else, such as a leak detector in a server.
        """
        path = resource.get("@odata.id")
        if not isinstance(path, str):
            return self.surroundings.node
        match = pattern.search(path)
        if match is None:
            reason = f"{str(resource.get('@odata.type'))[:80]} of no CDU or PDU: {path[:200]}"
            self.refused.append(Reject(rule="resource|left", reason=reason, place=place))
            return None
        host = self.surroundings.node
        return match.group(1)[:200] if host == NOT_SAID else f"{host}/{match.group(1)[:100]}"

    def tables(self) -> dict[str, pl.DataFrame]:
        """Frames with the columns that some row has; rows that say nothing but their key are left out."""
        frames = {}
        for name, rows in self._rows.items():
            table = TABLE_BY_NAME[name]
            told = [row for row in rows.values() if any(row[column] is not None for column in row
                                                        if column not in (table.time, *table.key))]  # fmt: skip
            if told:
                names = [column for column in table.columns if any(column in row for row in told)]
                schema = {column: table.columns[column] for column in names} | {"time": pl.Int64()}
                frames[name] = pl.DataFrame(told, schema=schema).cast({"time": table.columns["time"]})
        return frames

    def rejects(self) -> list[Reject]:
        return self.refused + self.readings.rejects("resource")

    def _within(self, table: str, column: str, value: float, place: int) -> float | None:
        known = _column(table, column)
        low, high = getattr(known, "min", None), getattr(known, "max", None)
        if (low is not None and value < low) or (high is not None and value > high):
            self.readings.lose(column, "range", value, place)
            return None
        return value

    def _time(self, resource: dict[str, Any]) -> int:
        """The newest ReadingTime of the resource and of its readings; received_at where none says."""
        stamps = [part.get("ReadingTime") for part in (resource, *resource.values()) if isinstance(part, dict)]
        known = [
            time for stamp in stamps if isinstance(stamp, str)
            if (time := microseconds(stamp, self.surroundings.utc_offset_minutes)) is not None
        ]  # fmt: skip
        return max(known, default=since_epoch(self.surroundings.received_at))


@cache
def _column(table: str, column: str) -> dy.Column:
    """Putting a schema's columns together costs more than a reading."""
    return TABLE_BY_NAME[table].schema.columns()[column]


def _connector(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    """Secondary is the loop to the racks, primary the facility's water. A connector of a server's plate is neither."""
    cdu, path = rows.entity(CDU, resource, place), str(resource.get("@odata.id", ""))
    primary = "/PrimaryCoolantConnectors" in path
    if cdu is None:
        return
    if not primary and "/SecondaryCoolantConnectors" not in path:
        rows.refused.append(
            Reject(rule="resource|left", reason=f"CoolantConnector of neither loop: {path[:200]!r}", place=place)
        )
        return
    row = rows.row("coolant_loop", resource, cdu=cdu)
    for column, (stem, units) in CONNECTOR.items():
        name = f"facility_{column}" if primary else column
        for suffix, unit in units.items():
            if f"{stem}{suffix}" in resource:
                _set(row, name, rows.value("coolant_loop", name, resource[f"{stem}{suffix}"], unit, place))
    if not primary and "HeatRemovedkW" in resource:
        name = "heat_removed_kilowatts"
        _set(row, name, rows.value("coolant_loop", name, resource["HeatRemovedkW"], "kW", place))


def _set(row: dict[str, Any], column: str, value: float | None) -> None:
    """A CDU with several connectors: the first one that says something holds."""
    if row.get(column) is None:
        row[column] = value


def _pump(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    cdu = rows.entity(CDU, resource, place)
    if cdu is None:
        return
    name = resource.get("Id") or str(resource.get("@odata.id", "")).rpartition("/")[2]
    if not isinstance(name, str) or not name:
        rows.refused.append(Reject(rule="resource|name", reason=f"a pump of {cdu} without an Id", place=place))
        return
    _part(rows, resource, cdu, place)
    row = rows.row("coolant_pump", resource, cdu=cdu, pump=name[:200])
    speed = resource.get("PumpSpeedPercent")
    row["speed_percent"] = rows.value("coolant_pump", "speed_percent", speed, "%", place)
    revolutions = speed.get("SpeedRPM") if isinstance(speed, dict) else resource.get("SpeedRPM")
    row["speed_rpm"] = rows.value("coolant_pump", "speed_rpm", revolutions, "RPM", place)
    power = resource.get("PowerWatts") or resource.get("InputPowerWatts")
    row["power_watts"] = rows.value("coolant_pump", "power_watts", power, "W", place)


def _part(rows: RedfishRows, resource: dict[str, Any], cdu: str, place: int) -> None:
    """The health of a CDU's pump or filter, under its kind and id."""
    status = resource.get("Status")
    health = status.get("Health") if isinstance(status, dict) else None
    if health is None:
        return
    kind = str(resource["@odata.type"]).rpartition(".")[2].lower()
    name = resource.get("Id") or str(resource.get("@odata.id", "")).rpartition("/")[2]
    if not isinstance(health, str) or health not in HEALTH:
        rows.readings.lose("health", "type", health, place)
        return
    rows.row("hardware_sensor", resource, device=cdu, sensor=f"{kind} {name}"[:200])["health"] = HEALTH[health]


def _filter(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    cdu = rows.entity(CDU, resource, place)
    if cdu is not None:
        _part(rows, resource, cdu, place)


def _reservoir(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    """With several reservoirs the lowest level is the loop's."""
    cdu = rows.entity(CDU, resource, place)
    if cdu is None:
        return
    level = rows.value("coolant_loop", "level_percent", resource.get("FluidLevelPercent"), "%", place)
    row = rows.row("coolant_loop", resource, cdu=cdu)
    levels = [value for value in (row.get("level_percent"), level) if value is not None]
    row["level_percent"] = min(levels, default=None)


def _leak(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    """A detector, or a group of them: the worst state of all is the loop's."""
    cdu = rows.entity(CDU, resource, place)
    if cdu is None:
        return
    detectors = [resource]
    for group in resource.get("LeakDetectorGroups") or ():
        inner = group.get("Detectors") if isinstance(group, dict) else None
        detectors += [item for item in inner if isinstance(item, dict)] if isinstance(inner, list) else []
    row = rows.row("coolant_loop", resource, cdu=cdu)
    for detector in detectors:
        state = detector.get("DetectorState")
        if state is None or state == "Absent":
            continue
        if not isinstance(state, str) or state not in LEAK_WORDS:
            rows.readings.lose("leak_state", "type", state, place)
            continue
        words = [word for word in (row.get("leak_state"), LEAK_WORDS[state]) if word is not None]
        row["leak_state"] = max(words, key=LEAK_ORDER.index)


def _distribution_metrics(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    pdu = rows.entity(PDU, resource, place)
    if pdu is not None:
        row = rows.row("power", resource, pdu=pdu)
        row["watts"] = rows.value("power", "watts", resource.get("PowerWatts"), "W", place)


def _circuit(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    """The mains of a PDU; branches are parts of it. volts: mean of the line-to-line readings, or the only voltage of
    one phase. amps: the largest of the phases, which is the one that trips a breaker.
    """
    pdu = rows.entity(PDU, resource, place)
    path = str(resource.get("@odata.id", ""))
    if pdu is None or not (resource.get("CircuitType") == "Mains" or "/Mains/" in path):
        return
    row = rows.row("power", resource, pdu=pdu)
    volts = _several(rows, "volts", resource.get("PolyPhaseVoltage"), LINES, "V", place)
    single = rows.value("power", "volts", resource.get("Voltage"), "V", place)
    row["volts"] = sum(volts) / len(volts) if volts else single
    amps = _several(rows, "amps", resource.get("PolyPhaseCurrentAmps"), PHASES, "A", place)
    row["amps"] = max(amps) if amps else rows.value("power", "amps", resource.get("CurrentAmps"), "A", place)
    row["rated_amps"] = rows.value("power", "rated_amps", resource.get("RatedCurrentAmps"), "A", place)
    watts = rows.value("power", "watts", resource.get("PowerWatts"), "W", place)
    row["watts"] = row.get("watts") if watts is None else watts
    breaker = resource.get("BreakerState")
    if breaker is not None and (not isinstance(breaker, str) or breaker not in BREAKER_WORDS):
        rows.readings.lose("breaker", "type", breaker, place)
    row["breaker"] = BREAKER_WORDS.get(breaker) if isinstance(breaker, str) else None


def _several(  # noqa: PLR0913, PLR0917  what, of whom, and where it stands
    rows: RedfishRows, column: str, readings: Any, names: tuple[str, ...], unit: str, place: int
) -> list[float]:
    found = [
        rows.value("power", column, readings.get(name) if isinstance(readings, dict) else None, unit, place)
        for name in names
    ]
    return [value for value in found if value is not None]


READERS: Mapping[str, Callable[[RedfishRows, dict[str, Any], int], None]] = {
    "CoolantConnector": _connector,
    "Pump": _pump,
    "Filter": _filter,
    "Reservoir": _reservoir,
    "LeakDetector": _leak,
    "LeakDetection": _leak,
    "PowerDistributionMetrics": _distribution_metrics,
    "Circuit": _circuit,
}
