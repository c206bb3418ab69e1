"""Measurements of Telegraf's redfish input to hardware_sensor rows (github.com/influxdata/telegraf, inputs/redfish)."""

from typing import Any

import polars as pl

from schemas.formats.json_values import Readings
from schemas.tables import TABLE_BY_NAME

TABLE = TABLE_BY_NAME["hardware_sensor"]
INPUT = "redfish_"
# measurement -> field -> column
MEASUREMENTS = {
    "redfish_thermal_temperatures": {"reading_celsius": "temperature_celsius"},
    "redfish_thermal_fans": {"reading_rpm": "fan_rpm", "reading_percent": "fan_percent"},
    "redfish_power_powersupplies": {
        "power_output_watts": "watts", "last_power_output_watts": "watts", "power_input_watts": "input_watts",
        "line_input_voltage": "volts",
    },
    "redfish_power_voltages": {"reading_volts": "volts"},
    "redfish_power_powercontrol": {"power_consumed_watts": "watts"},
}  # fmt: skip
HEALTH = {"ok": "ok", "warning": "warning", "critical": "critical"}


class RedfishSensors:
    """Rows by device, sensor and time. The device is the tag source (the host name), else address."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.readings = Readings()
        self._rows: dict[tuple[str, str, int], dict[str, Any]] = {}

    def add(self, at: int, name: str, fields: dict[str, Any], tags: dict[str, Any], time: int) -> None:
        """One metric; `at` is its place."""
        device = _text(tags, "source") or _text(tags, "address") or self.node
        sensor = _text(tags, "name") or f"{name.removeprefix(INPUT)} {_text(tags, 'member_id')}".strip()
        row = self._rows.setdefault((device[:200], sensor[:200], time), {})
        for field, column in MEASUREMENTS.get(name, {}).items():
            if field in fields and row.get(column) is None:
                row[column] = self.readings.number(column, fields[field], at)
        health = _text(tags, "health").lower()
        if health in HEALTH:
            row["health"] = HEALTH[health]
        elif health:
            self.readings.lose("health", "type", health, at)

    def tables(self) -> dict[str, pl.DataFrame]:
        """hardware_sensor, or nothing."""
        rows = [
            {"time": time, "device": device, "sensor": sensor, **row}
            for (device, sensor, time), row in self._rows.items()
            if any(value is not None for value in row.values())
        ]
        if not rows:
            return {}
        frame = pl.DataFrame(rows, schema={**TABLE.columns, "time": pl.Int64()})
        return {TABLE.name: frame.cast({"time": TABLE.columns["time"]})}


def _text(tags: dict[str, Any], name: str) -> str:
    value = tags.get(name)
    return value.strip() if isinstance(value, str) else ""
