"""SONiC's Redis databases as JSON (sonic-db-dump, redis-dump) to fabric_port and optic.

Traps (formats.md B7). All values are texts. Counters hang on object ids, and COUNTERS_PORT_NAME_MAP names their ports:
where a dump is without it, they cannot be resolved and are rejects. Power is taken as dBm, which -inf (dark) and N/A
fit; some old platforms wrote mW, and the text does not say so. Values can carry their unit ("-1.2dBm").
"""

import re
from typing import Any

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.formats.fabric_identity import interface_of
from schemas.formats.fabric_readings import LOGICAL_STATES, Rows, decoded, is_blank, number_of
from schemas.formats.json_values import document
from schemas.formats.optic_lanes import is_dark, receive_power, transmit_power

NAME = "SONiC Redis JSON"
VERSIONS = "COUNTERS_DB, STATE_DB and APPL_DB, with and without type and value"
LEAVES = "queues, buffers, packets by kind and size, TRANSCEIVER_INFO, _STATUS and _PM, thresholds that no column holds"

COUNTERS = {
    "SAI_PORT_STAT_IF_IN_OCTETS": "receive_bytes_total",
    "SAI_PORT_STAT_IF_OUT_OCTETS": "transmit_bytes_total",
    "SAI_PORT_STAT_IF_IN_ERRORS": "receive_error_total",
    "SAI_PORT_STAT_IF_OUT_DISCARDS": "transmit_discard_total",
    "SAI_PORT_STAT_IF_IN_FEC_CORRECTABLE_FRAMES": "fec_corrected_total",
    "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES": "fec_uncorrected_total",
    "SAI_PORT_STAT_IF_IN_FEC_SYMBOL_ERRORS": "fec_symbol_error_total",
    "FEC_PRE_BER": "raw_bit_error_rate",
    "FEC_POST_BER": "effective_bit_error_rate",
}
# Priority flow control, priority by priority: their sum is the column.
PAUSES = {
    "pause_received_total": tuple(f"SAI_PORT_STAT_PFC_{priority}_RX_PKTS" for priority in range(8)),
    "pause_sent_total": tuple(f"SAI_PORT_STAT_PFC_{priority}_TX_PKTS" for priority in range(8)),
}
CODEWORDS = "SAI_PORT_STAT_IF_IN_FEC_CODEWORD_ERRORS_S"
THRESHOLDS = {
    "rxpowerlowalarm": "receive_power_alarm_low_dbm",
    "rxpowerlowwarning": "receive_power_warning_low_dbm",
    "rxpowerhighalarm": "receive_power_alarm_high_dbm",
    "txpowerlowalarm": "transmit_power_alarm_low_dbm",
    "txbiashighalarm": "bias_alarm_high_milliamps",
    "temphighalarm": "temperature_alarm_high_celsius",
}
SHARED = {"temperature": "module_temperature_celsius", "voltage": "supply_volts"}
LANE = re.compile(r"(rx|tx)(\d{1,2})(power|bias)$")
UNIT = re.compile(r"\s*(?:dBm|mA|C|Volts|V)$")
KEY = re.compile(r"(COUNTERS|RATES|PORT_TABLE|TRANSCEIVER_DOM_SENSOR|TRANSCEIVER_DOM_THRESHOLD)[:|](.{1,64})$")
LOOKS = re.compile(r'"(?:COUNTERS(?:_PORT_NAME_MAP|:)|RATES:|PORT_TABLE[:|]|TRANSCEIVER_\w+\|)')


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return text.lstrip()[:1] == "{" and LOOKS.search(text) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows at received_at; the switch is surroundings.node. Raises Unreadable when no key is of these databases."""
    whole = document(data, surroundings, NAME)
    entries = {key: _fields(value) for key, value in whole.items()} if isinstance(whole, dict) else {}
    names = {oid: port for port, oid in (entries.get("COUNTERS_PORT_NAME_MAP") or {}).items() if isinstance(oid, str)}
    ports, lanes = Rows.of("fabric_port", surroundings), Rows.of("optic", surroundings)
    limits: dict[tuple[str, int], dict[str, Any]] = {}
    known = bool(names)
    for key, fields in entries.items():
        found = KEY.match(key)
        if found is None:
            continue
        known = True
        if found[1] in ("COUNTERS", "RATES") and not any(name in COUNTERS for name in fields):
            continue  # a queue's or a buffer's
        port = names.get(found[2], found[2])
        place = None if port.startswith("oid:") else interface_of(surroundings.node, port)
        if place is None:
            ports.refuse("port", "unnamed", key)
        elif found[1] in ("COUNTERS", "RATES"):
            _counted(ports, ports.row(*place), fields)
        elif found[1] == "PORT_TABLE":
            _state(ports, place, fields)
        else:
            limits.setdefault(place, {}).update(fields)
    if not known:
        raise Unreadable(f"{NAME}: no key of a SONiC database")
    for place, fields in limits.items():
        _optic(lanes, place, fields)
    return decoded([ports, lanes], [])


def _fields(value: Any) -> dict[str, Any]:
    """The hash, bare or as {"type": "hash", "value": {...}}."""
    if not isinstance(value, dict):
        return {}
    inner = value.get("value")
    return inner if value.get("type") == "hash" and isinstance(inner, dict) else value


def _counted(rows: Rows, row: dict[str, object], fields: dict[str, Any]) -> None:
    for name, column in COUNTERS.items():
        if name in fields:
            rows.number(row, column, fields[name])
    for column, names in PAUSES.items():
        numbers = [number_of(fields[name]) for name in names if name in fields]
        whole = [number for number in numbers if isinstance(number, int)]
        if whole and len(whole) == len(numbers):
            rows.number(row, column, sum(whole))
    counts: list[int] = []
    while (name := f"{CODEWORDS}{len(counts)}") in fields:
        count = number_of(fields[name])
        if not isinstance(count, int) or not 0 <= count < 2**63:
            rows.refuse("fec_histogram", "blank" if is_blank(fields[name]) else "type", fields[name])
            return
        counts.append(count)
    if counts:
        rows.word(row, "fec_histogram", counts)


def _state(rows: Rows, place: tuple[str, int], fields: dict[str, Any]) -> None:
    """APPL_DB says oper_status, STATE_DB netdev_oper_status; speed is in Mb/s."""
    state = fields.get("oper_status", fields.get("netdev_oper_status"))
    if state is None:
        return
    row = rows.row(*place)
    word = LOGICAL_STATES.get(str(state).lower())
    rows.word(row, "state", word)
    if word is None:
        rows.refuse("state", "blank" if is_blank(state) else "type", state)
    elif word == "active" and "speed" in fields:
        rows.number(row, "rate_gigabits_per_second", fields["speed"], factor=1e-3)


def _optic(rows: Rows, place: tuple[str, int], fields: dict[str, Any]) -> None:
    lanes: dict[int, dict[str, Any]] = {}
    for name, value in fields.items():
        found = LANE.match(name)
        if found and 1 <= int(found[2]) <= 16:
            lanes.setdefault(int(found[2]) - 1, {})[found[1] + found[3]] = _bare(value)
    for lane, values in sorted(lanes.items()):
        if all(is_blank(value) for value in values.values()):
            rows.refuse("lane", "blank", values)  # a module has fewer lanes than the database has fields
            continue
        row = rows.row(*place, lane)
        if "rxpower" in values:
            receive_power(rows, row, values["rxpower"])
        if "txpower" in values:
            transmit_power(rows, row, values["txpower"])
        if "txbias" in values:
            rows.number(row, "bias_milliamps", values["txbias"])
        for name, column in (SHARED | THRESHOLDS).items():
            if name in fields and not (column.endswith("_dbm") and is_dark(_bare(fields[name]))):
                rows.number(row, column, _bare(fields[name]))


def _bare(value: Any) -> Any:
    return UNIT.sub("", value.strip()) if isinstance(value, str) else value
