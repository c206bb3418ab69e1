"""`ethtool -m` to optic: SFP (SFF-8472, one lane), QSFP (SFF-8636) and CMIS modules.

Traps (formats.md B7). Power stands as mW and dBm; 0.0001 mW / -40.00 dBm and 0.0000 mW / -inf dBm are darkness. A
module without monitoring writes 0.00 C and 0.0000 V. Channels count from 1, in some builds from 0. The text names no
port: the command line in it, the file's name or the message's key does.
"""

import re
from collections.abc import Mapping

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.fabric_identity import interface_of, place_of
from schemas.formats.fabric_readings import Rows, decoded, number_of
from schemas.formats.optic_lanes import is_dark, receive_power, transmit_power

NAME = "ethtool -m text"
VERSIONS = "ethtool 4 to 6: SFF-8472, SFF-8636, CMIS"
LEAVES = "vendor and identity of the module, warnings other than of received light, alarm flags, transmitter flags"

LINE = re.compile(r"\s*([A-Za-z][A-Za-z0-9 ,/_()-]{2,60}?)\s*: ?(.{0,160})$")
COMMAND = re.compile(r"ethtool (?:-m|--module-info|--dump-module-eeprom) (\S{1,40})")
CHANNEL = re.compile(r"(.*?)\s*\(Chan(?:nel)? (\d{1,2})\)$")
DBM = re.compile(r"/\s*(-?\d{1,3}(?:\.\d{1,4})?|-inf|inf|nan) dBm", re.IGNORECASE)
PLAIN = re.compile(r"(-?\d{1,6}(?:\.\d{1,6})?) (?:mA|V|degrees C)\b")
RECEIVED = ("Rcvr signal avg optical power", "Receiver signal average optical power", "Receiver signal OMA")
SENT = ("Transmit avg optical power", "Laser output power")
BIAS = ("Laser tx bias current", "Laser bias current")
THRESHOLDS = {
    "Laser rx power low alarm threshold": "receive_power_alarm_low_dbm",
    "Laser rx power low warning threshold": "receive_power_warning_low_dbm",
    "Laser rx power high alarm threshold": "receive_power_alarm_high_dbm",
    "Laser output power low alarm threshold": "transmit_power_alarm_low_dbm",
    "Laser bias current high alarm threshold": "bias_alarm_high_milliamps",
    "Module temperature high alarm threshold": "temperature_alarm_high_celsius",
}


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return re.search(r"^\s*Identifier\s*: 0x[0-9a-f]{2}\b", payload.head_text(head), re.MULTILINE) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """One row per lane at received_at, for each module in the text. Rejects: modules that tell nothing of light, and
    readings that are none, counted. Raises Unreadable when no line is an Identifier.
    """
    lines = payload.text(data, surroundings, NAME).split("\n")
    modules = _modules(lines)
    if not modules:
        raise Unreadable(f"{NAME}: no Identifier line in {len(lines)} line(s)")
    rows = Rows.of("optic", surroundings)
    rejects: list[Reject] = []
    device, port = place_of(surroundings.node)
    for at, interface, values in modules:
        place = interface_of(surroundings.node, interface) if interface else (device, 1 if port is None else port)
        if place is None:
            reason = f"line {at}: {interface!r} is no interface with a port number"
            rejects.append(Reject(rule="port|absent", reason=reason, place=at))
        elif not _take(rows, place, values, at):
            reason = f"line {at}: the module tells nothing of light: copper, or no monitoring"
            rejects.append(Reject(rule="optic|absent", reason=reason, place=at))
    return decoded([rows], rejects)


def _modules(lines: list[str]) -> list[tuple[int, str | None, dict[tuple[str, int | None], str]]]:
    """Line, interface and (name, channel) -> value of each module. A module begins at its Identifier."""
    modules: list[tuple[int, str | None, dict[tuple[str, int | None], str]]] = []
    interface: str | None = None
    for at, line in enumerate(lines, 1):
        command = COMMAND.search(line)
        if command:
            interface = command[1]
            continue
        found = LINE.match(line.rstrip())
        if found is None:
            continue
        if found[1] == "Identifier":
            modules.append((at, interface, {}))
        if modules:
            channel = CHANNEL.match(found[1])
            key = (channel[1], int(channel[2])) if channel else (found[1], None)
            modules[-1][2].setdefault(key, found[2].strip())
    return modules


def _take(rows: Rows, place: tuple[str, int], values: Mapping[tuple[str, int | None], str], at: int) -> bool:
    told = [key for key in values if key[0] in (*RECEIVED, *SENT, *BIAS)]
    first = min((channel for _, channel in told if channel is not None), default=1)
    losses = re.findall(r"Yes|No", values.get(("Rx loss of signal", None), ""))
    for channel in dict.fromkeys(channel for _, channel in told):
        lane = 0 if channel is None else channel - (0 if first == 0 else 1)
        if lane > 16:
            continue
        row = rows.row(*place, lane)
        received = _first(values, RECEIVED, channel)
        if received is not None:
            receive_power(
                rows, row, _dbm(received), lost=losses[lane] == "Yes" if lane < len(losses) else None, place=at
            )
        sent, bias = _first(values, SENT, channel), _first(values, BIAS, channel)
        if sent is not None:
            transmit_power(rows, row, _dbm(sent), place=at)
        if bias is not None:
            rows.number(row, "bias_milliamps", _plain(bias), place=at)
        _shared(rows, row, values, at)
    return bool(told)


def _shared(rows: Rows, row: dict[str, object], values: Mapping[tuple[str, int | None], str], at: int) -> None:
    celsius, volts = values.get(("Module temperature", None)), values.get(("Module voltage", None))
    monitored = volts is None or number_of(_plain(volts)) != 0
    for column, text in (("module_temperature_celsius", celsius), ("supply_volts", volts)):
        if text is not None:
            rows.number(row, column, _plain(text) if monitored else None, place=at)
    for name, column in THRESHOLDS.items():
        text = values.get((name, None))
        if text is None:
            continue
        value = _dbm(text) if column.endswith("dbm") else _plain(text)
        rows.shown.add(column)
        if not (column.endswith("dbm") and is_dark(value)):  # 0.0000 mW: the module has no such threshold
            rows.number(row, column, value, place=at)


def _first(values: Mapping[tuple[str, int | None], str], names: tuple[str, ...], channel: int | None) -> str | None:
    return next((values[name, channel] for name in names if (name, channel) in values), None)


def _dbm(text: str) -> str:
    found = DBM.search(text)
    return found[1] if found else text


def _plain(text: str) -> str:
    found = PLAIN.match(text)
    return found[1] if found else text
