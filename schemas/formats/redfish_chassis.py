"""What Redfish says of a server's own box: Thermal and Power (before 2020), ThermalMetrics and PowerSupplyMetrics
(since), PowerSupply. Each sensor, fan and supply is a row of hardware_sensor under the name the controller gives it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from schemas.formats.decoded import NOT_SAID, Reject
from schemas.formats.redfish_resources import HEALTH, NOT_THERE, RedfishRows

TABLE = "hardware_sensor"
CHASSIS = re.compile(r"/Chassis/([^/#]+)")
SUPPLY = re.compile(r"/PowerSupplies/([^/#]+)")
KINDS = {"Fans": "fan", "PowerSupplies": "supply", "PowerControl": "power"}
FAN_UNITS = {"RPM": ("fan_rpm", "RPM"), "Percent": ("fan_percent", "%")}


def thermal(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    """Temperatures and Fans. A fan whose unit is not told is in RPM (DSP2046: ReadingUnits since 1.0.1)."""
    for sensor in _parts(resource, "Temperatures"):
        row = _row(rows, resource, sensor, "temperature", place)
        if row is not None:
            _set(rows, row, "temperature_celsius", sensor.get("ReadingCelsius"), "C", place)
    for fan in _parts(resource, "Fans"):
        row = _row(rows, resource, fan, "fan", place)
        column, unit = FAN_UNITS.get(str(fan.get("ReadingUnits", "RPM")), ("fan_rpm", str(fan.get("ReadingUnits"))))
        if row is not None:
            _set(rows, row, column, fan.get("Reading", fan.get("ReadingRPM")), unit, place)


def power(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    """PowerSupplies, PowerControl (the whole box) and Voltages."""
    for supply in _parts(resource, "PowerSupplies"):
        row = _row(rows, resource, supply, "supply", place)
        if row is not None:
            output = supply.get("PowerOutputWatts", supply.get("LastPowerOutputWatts"))
            _set(rows, row, "watts", output, "W", place)
            _set(rows, row, "input_watts", supply.get("PowerInputWatts"), "W", place)
            _set(rows, row, "volts", supply.get("LineInputVoltage"), "V", place)
    for control in _parts(resource, "PowerControl"):
        row = _row(rows, resource, control, "power", place)
        if row is not None:
            _set(rows, row, "watts", control.get("PowerConsumedWatts"), "W", place)
    for rail in _parts(resource, "Voltages"):
        row = _row(rows, resource, rail, "voltage", place)
        if row is not None:
            _set(rows, row, "volts", rail.get("ReadingVolts"), "V", place)


def thermal_metrics(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    """TemperatureReadingsCelsius, and those of TemperatureSummaryCelsius under their own names."""
    for sensor in _parts(resource, "TemperatureReadingsCelsius"):
        row = _row(rows, resource, sensor, "temperature", place)
        if row is not None:
            _set(rows, row, "temperature_celsius", sensor, "C", place)
    summary = resource.get("TemperatureSummaryCelsius")
    for name, sensor in summary.items() if isinstance(summary, dict) else ():
        if isinstance(sensor, dict):
            row = _row(rows, resource, {"Name": f"{name} summary", **sensor}, "temperature", place)
            if row is not None:
                _set(rows, row, "temperature_celsius", sensor, "C", place)


def supply(rows: RedfishRows, resource: dict[str, Any], place: int) -> None:
    """PowerSupplyMetrics, and PowerSupply, which says its health and state. One inside a Power is read with it."""
    if str(resource.get("@odata.type")).startswith("#Power."):
        return
    found = SUPPLY.search(str(resource.get("@odata.id", "")))
    row = _row(rows, resource, resource, "supply", place, f"power supply {found.group(1)}" if found else None)
    if row is None:
        return
    _set(rows, row, "watts", resource.get("OutputPowerWatts"), "W", place)
    _set(rows, row, "input_watts", resource.get("InputPowerWatts"), "W", place)
    _set(rows, row, "volts", resource.get("InputVoltage"), "V", place)
    _set(rows, row, "amps", resource.get("InputCurrentAmps"), "A", place)
    _set(rows, row, "temperature_celsius", resource.get("TemperatureCelsius"), "C", place)
    fan = resource.get("FanSpeedPercent")
    _set(rows, row, "fan_percent", fan, "%", place)
    _set(rows, row, "fan_rpm", fan.get("SpeedRPM") if isinstance(fan, dict) else None, "RPM", place)


def _parts(resource: dict[str, Any], key: str) -> Iterator[dict[str, Any]]:
    """The parts listed under the key. Several of one name, as some vendors write them, get their MemberId into it."""
    listed = resource.get(key)
    parts = [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    names = Counter(_name(part) for part in parts)
    for part in parts:
        name, member = _name(part), part.get("MemberId")
        if isinstance(member, str | int) and (not name or names[name] > 1):
            yield {**part, "Name": f"{name or KINDS.get(key, key)} {member}"}
        else:
            yield part


def _name(part: dict[str, Any]) -> str:
    given = (part.get(key) for key in ("Name", "FanName", "DeviceName"))
    return next((name.strip() for name in given if isinstance(name, str)), "")


def _row(  # noqa: PLR0913, PLR0917  the part, of what, and where it stands
    rows: RedfishRows, resource: dict[str, Any], part: dict[str, Any], what: str, place: int, named: str | None = None
) -> dict[str, Any] | None:
    """The part's row, or None for one that says it is not there or that has neither name nor number."""
    status = part.get("Status")
    status = status if isinstance(status, dict) else {}
    if status.get("State") in NOT_THERE:
        return None
    name = named or _name(part)
    if not name:
        rows.refused.append(Reject(rule="resource|name", reason=f"a {what} without a Name or MemberId", place=place))
        return None
    device, path = rows.surroundings.node, CHASSIS.search(str(resource.get("@odata.id", "")))
    if device == NOT_SAID and path:
        device = path.group(1)[:200]
    row = rows.row(TABLE, resource, device=device, sensor=name[:200])
    health = status.get("Health")
    if isinstance(health, str) and health in HEALTH:
        row["health"] = HEALTH[health]
    elif health is not None:
        rows.readings.lose("health", "type", health, place)
    return row


def _set(  # noqa: PLR0913, PLR0917  the reading, and where it goes and stands
    rows: RedfishRows, row: dict[str, Any], column: str, reading: Any, unit: str, place: int
) -> None:
    if reading is not None and row.get(column) is None:
        row[column] = rows.value(TABLE, column, reading, unit, place)


READERS: Mapping[str, Callable[[RedfishRows, dict[str, Any], int], None]] = {
    "Thermal": thermal,
    "Power": power,
    "ThermalMetrics": thermal_metrics,
    "PowerSupplyMetrics": supply,
    "PowerSupply": supply,
}
