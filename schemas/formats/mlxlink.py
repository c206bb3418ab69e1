"""mlxlink's JSON to fabric_port (one row) and optic (one row a lane).

Traps (formats.md B6). Lanes stand as "3.583,3.253,... [-9.914..6.999]", values and alarm range in one text. "15E-255"
is no error observed: 0.0. A rate of 0 without light or link says nothing: null. A full output can come with a status
code that is not 0 ("Failed to open device"): refused whole, as it is stale or of another device. The bins of the FEC
histogram are sorted as text. The output names neither device nor port: the file's name or the message's key does.
"""

import re
from typing import Any

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.fabric_identity import place_of
from schemas.formats.fabric_readings import PHYSICAL_STATES, Rows, decoded, number_of
from schemas.formats.json_values import documents
from schemas.formats.optic_lanes import is_dark, receive_power, transmit_power

NAME = "mlxlink JSON"
VERSIONS = "MFT 4.34.1 (amBER 5.75); with and without module, FEC histogram and eye"
LEAVES = (
    "eye opening, serdes tuning, module identity, host-side SNR, CDR and equaliser flags, physical states of Ethernet"
)

RANGED = re.compile(r"(.*?)\s*(?:\[(-?\d{1,6}(?:\.\d{1,6})?)\.\.(-?\d{1,6}(?:\.\d{1,6})?)\])?")
SPEED = re.compile(r"(?:IB-)?(?:(\d{1,4}(?:\.\d{1,3})?)G\w*|(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR))", re.IGNORECASE)
LANE_GBPS = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
STATES = {
    "active": "active", "armed": "armed", "initialize": "init", "init": "init", "physical linkup": "init",
    "polling": "down", "down": "down", "disable": "down", "disabled": "down", "close port": "down", "sleep": "down",
    "rx disable": "down", "port pll down": "down",
}  # fmt: skip
NONE_OBSERVED = 1e-200
COUNTERS = (
    ("Link Down Counter", "link_downed_total", 1.0),
    ("Link Error Recovery Counter", "link_error_recovery_total", 1.0),
    ("Effective Physical Errors", "effective_error_total", 1.0),
    ("Symbol Errors", "symbol_error_total", 1.0),
    ("Time Since Last Clear [Min]", "seconds_since_clear", 60.0),
)
RATES = (
    ("Raw Physical BER", "raw_bit_error_rate"),
    ("Effective Physical BER", "effective_bit_error_rate"),
    ("Symbol BER", "symbol_bit_error_rate"),
)
LANE_RANGES = {
    "Rx Power Current [dBm]": ("receive_power_alarm_low_dbm", "receive_power_alarm_high_dbm"),
    "Tx Power Current [dBm]": ("transmit_power_alarm_low_dbm", None),
    "Bias Current [mA]": (None, "bias_alarm_high_milliamps"),
    "Temperature [C]": (None, "temperature_alarm_high_celsius"),
}
LANES_MAXIMUM = 16


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    sections = ('"Operational Info"', '"Physical Counters and BER Info"', '"Module Info"', '"Histogram of FEC Errors"')
    return '"output"' in text and any(section in text for section in sections)


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows at received_at. Rejects: outputs that say they failed, readings that are none, counted. Raises Unreadable
    when no document has an output.
    """
    ports, lanes = Rows.of("fabric_port", surroundings), Rows.of("optic", surroundings)
    rejects: list[Reject] = []
    device, port = place_of(surroundings.node)
    found = 0
    for place, message in documents(data, surroundings, NAME, rejects):
        output = _inside(message, "result", "output")
        if not isinstance(output, dict):
            rejects.append(Reject(rule="output|absent", reason=f"document {place}: no result.output", place=place))
            continue
        found += 1
        code = _inside(message, "status", "code")
        if code not in (0, None):
            told = str(_inside(message, "status", "message"))[:200].splitlines() or [""]
            reason = f"document {place}: status {str(code)[:20]} ({told[0]}); its output is not believed"
            rejects.append(Reject(rule="status|failed", reason=reason, place=place))
            continue
        row = ports.row(device, 1 if port is None else port)
        dark = _module(lanes, _section(output, "Module Info"), device, 1 if port is None else port, output)
        _operational(ports, row, _section(output, "Operational Info"))
        _counted(ports, row, _section(output, "Physical Counters and BER Info"), dark=dark)
        _histogram(ports, row, _section(output, "Histogram of FEC Errors"))
    if not found:
        raise Unreadable(f"{NAME}: no document has result.output")
    return decoded([ports, lanes], rejects)


def _inside(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _section(output: dict[str, Any], name: str) -> dict[str, Any]:
    found = output.get(name)
    return found if isinstance(found, dict) else {}


def _listed(value: Any) -> list[Any]:
    """{"values": [...]}, or "1,2,3 [low..high]", or one value."""
    if isinstance(value, dict):
        inner = value.get("values")
        return inner[:LANES_MAXIMUM] if isinstance(inner, list) else []
    if isinstance(value, str):
        found = RANGED.fullmatch(value.strip())
        plain = found[1] if found else value
        return [part.strip() for part in plain.split(",")][:LANES_MAXIMUM]
    return [] if value is None else [value]


def _operational(rows: Rows, row: dict[str, object], section: dict[str, Any]) -> None:
    state = str(section.get("State", "")).strip()
    if state:
        word = STATES.get(state.lower())
        rows.word(row, "state", word)
        if word is None:
            rows.refuse("state", "type", state)
    physical = PHYSICAL_STATES.get(re.sub(r"[\s_]", "", str(section.get("Physical state", ""))).lower())
    rows.word(row, "physical_state", physical)
    if row.get("state") == "down":
        return
    width = re.fullmatch(r"(\d{1,2})[xX]", str(section.get("Width", "")).strip())
    if width:
        rows.number(row, "width_lanes", width[1])
    if "Speed" in section:
        speed = SPEED.fullmatch(str(section["Speed"]).strip())
        lanes = int(width[1]) if width else None
        gigabits = None if speed is None else float(speed[1]) if speed[1] else _by_name(speed[2], lanes)
        rows.number(row, "rate_gigabits_per_second", section["Speed"] if gigabits is None else gigabits)


def _by_name(name: str, lanes: int | None) -> float | None:
    return None if lanes is None else LANE_GBPS[name.upper()] * lanes


def _counted(rows: Rows, row: dict[str, object], section: dict[str, Any], *, dark: bool) -> None:
    for name, column, factor in COUNTERS:
        if name in section:
            rows.number(row, column, section[name], factor=factor)
    for name, column in RATES:
        if name not in section:
            continue
        value = _rate(section[name])
        if value == 0 and (dark or row.get("state") == "down"):
            rows.shown.add(column)
            rows.refuse(column, "dark", section[name])
        else:
            rows.number(row, column, value)


def _rate(raw: Any) -> Any:
    number = number_of(raw)
    return 0.0 if number is not None and 0 <= number < NONE_OBSERVED else raw


def _histogram(rows: Rows, row: dict[str, object], section: dict[str, Any]) -> None:
    """Bins in order of their number, each of one count of symbols. Anything else could not be compared."""
    bins: dict[int, int] = {}
    for name, value in section.items():
        if name == "Header":
            continue
        pair = _listed(value)
        symbols = re.fullmatch(r"\[(\d{1,3})\]", str(pair[0])) if len(pair) == 2 else None
        count = number_of(pair[1]) if symbols else None
        if symbols is None or not isinstance(count, int) or not 0 <= count < 2**63:
            rows.refuse("fec_histogram", "type", f"{name}: {pair}")
            return
        bins[int(symbols[1])] = count
    if not bins:
        return
    if sorted(bins) != list(range(len(bins))):
        rows.refuse("fec_histogram", "type", f"bins {sorted(bins)}")
        return
    counts = [bins[symbols] for symbols in range(len(bins))]
    rows.word(row, "fec_histogram", counts)
    rows.number(row, "fec_corrected_total", sum(counts[1:]))


def _module(rows: Rows, section: dict[str, Any], device: str, port: int, output: dict[str, Any]) -> bool:
    """Rows of the lanes. True: the module says that no lane has light, or that light has no distance from noise."""
    received = _listed(section.get("Rx Power Current [dBm]"))
    sent = _listed(section.get("Tx Power Current [dBm]"))
    bias = _listed(section.get("Bias Current [mA]"))
    lost = _listed(section.get("Rx LOS [per lane]"))
    noise = _listed(section.get("SNR Media Lanes [dB]"))
    counted = _section(output, "Physical Counters and BER Info")
    rates = _listed(counted.get("Raw Physical BER Per Lane"))
    errors = _listed(counted.get("Raw Physical Errors Per Lane"))
    lanes = max(len(received), len(sent), len(bias)) if section else 0
    unlit = lanes > 0
    silent = bool(noise) and all(number_of(value) == 0 for value in noise)
    for lane in range(lanes):
        row = rows.row(device, port, lane)
        loss = _flag(_at(lost, lane))
        # One "N/A" for all lanes is counted once a lane, as the source has the column and no reading.
        receive_power(rows, row, _at(received, lane, "N/A"), lost=loss)
        transmit_power(rows, row, _at(sent, lane, "N/A"))
        rows.number(row, "bias_milliamps", _at(bias, lane, "N/A"))
        for column, values in (("signal_to_noise_db", noise), ("raw_error_total", errors)):
            if lane < len(values):
                rows.number(row, column, values[lane])
        unlit = unlit and (row.get("light") is False or is_dark(_at(received, lane)))
        if lane < len(rates):
            _lane_rate(rows, row, rates[lane], dark=silent or row.get("light") is False)
        _shared(rows, row, section)
    return silent or unlit


def _lane_rate(rows: Rows, row: dict[str, object], raw: Any, *, dark: bool) -> None:
    value = _rate(raw)
    if value == 0 and dark:
        rows.refuse("raw_bit_error_rate", "dark", raw)
    else:
        rows.number(row, "raw_bit_error_rate", value)


def _shared(rows: Rows, row: dict[str, object], section: dict[str, Any]) -> None:
    """What is the module's and not a lane's: case temperature, supply, alarm ranges."""
    for name, column, factor in (
        ("Temperature [C]", "module_temperature_celsius", 1.0), ("Voltage [mV]", "supply_volts", 1e-3),
    ):  # fmt: skip
        if name in section:
            rows.number(row, column, _at(_listed(section[name]), 0), factor=factor)
    for name, (low, high) in LANE_RANGES.items():
        found = RANGED.fullmatch(str(section.get(name, "")).strip())
        if found and found[2] is not None:
            for limit, value in ((low, found[2]), (high, found[3])):
                if limit is not None:
                    rows.number(row, limit, value)


def _at(values: list[Any], index: int, otherwise: Any = None) -> Any:
    return values[index] if index < len(values) else otherwise


def _flag(value: Any) -> bool | None:
    return {"0": False, "1": True}.get(str(value).strip())
