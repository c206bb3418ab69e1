"""ibswinfo's text to hardware_sensor: temperature, fans and power supplies of an unmanaged switch."""

import re

import polars as pl

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.fabric_identity import guid
from schemas.formats.fabric_readings import number_of
from schemas.tables import TABLE_BY_NAME

NAME = "ibswinfo"
VERSIONS = "ibswinfo"
LEAVES = "part and serial numbers, firmware, uptime, highest temperature so far"

TABLE = TABLE_BY_NAME["hardware_sensor"]
PAIR = re.compile(r"^(\S.{0,40}?|\s{2,8}\S.{0,40}?)\s*\| ?(.{0,120})$")
STATUS = re.compile(r"(status|DC power)$")
MEASURED = re.compile(r"(.+?) \((C|rpm|W)\)$")
COLUMNS = {"C": "temperature_celsius", "rpm": "fan_rpm", "W": "watts"}
KEPT_ELSEWHERE = "max temp"  # the highest since the start is no reading of now


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return re.search(r"^part number +\| ", text, re.MULTILINE) is not None and "firmware version" in text


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """hardware_sensor at received_at, a row each for the temperature, every fan, the fans together and every supply.

    device: the GUID, else the host the text comes from. health: of what says OK ok, of what says anything else
    critical. Rejects: measured values that are no numbers. Raises Unreadable when no line is a name and a value.
    """
    lines = payload.text(data, surroundings, NAME).split("\n")
    pairs = [(at, found) for at, line in enumerate(lines, 1) if (found := PAIR.match(line.rstrip()))]
    if not pairs:
        raise Unreadable(f"{NAME}: no line is a name and a value")
    values = {found[1].strip(): found[2].strip() for _, found in pairs}
    device = guid(values.get("GUID", "")) or surroundings.node
    sensors: dict[str, dict[str, float | str]] = {}
    rejects: list[Reject] = []
    supply = ""
    for at, found in pairs:
        name, value = found[1].strip(), found[2].strip()
        supply = name.split(" ")[0] if name.startswith("PSU") else supply if found[1].startswith(" ") else ""
        measured = MEASURED.match(name)
        if measured and measured[1] != KEPT_ELSEWHERE:
            number = number_of(value)
            if number is None:
                reason = f"line {at}: {device}: {supply} {name}".replace("  ", " ") + f" is no number: {value!r}"
                rejects.append(Reject(rule="ibswinfo|value", reason=reason, place=at, raw=lines[at - 1].encode()))
                continue
            sensors.setdefault(supply or measured[1], {})[COLUMNS[measured[2]]] = number
        elif STATUS.search(name):
            sensor = sensors.setdefault(supply or name.removesuffix(" status"), {})
            sensor["health"] = "ok" if value == "OK" and sensor.get("health") != "critical" else "critical"
    rows = [{"device": device, "sensor": sensor, **readings} for sensor, readings in sensors.items()]
    frame = pl.DataFrame(
        rows, schema={name: TABLE.columns[name] for name in ("device", "sensor", *COLUMNS.values(), "health")}
    )
    frame = frame.select(pl.lit(surroundings.received_at).cast(TABLE.columns["time"]).alias("time"), pl.all())
    return Decoded(tables={TABLE.name: frame}, rejects=rejects_frame(rejects))
