"""UFM's telemetry stream, JSON, to fabric_port: full samples, and samples of what has changed only.

Traps (formats.md B5). Times are microseconds. In a sample of changes a port or counter that is not there is unchanged:
null, never 0. Infiniband_MB*_u_Gb are bytes, whatever the name says: in a real sample they are 288 a packet, which is
one management packet (256 bytes of MAD and 32 of headers). The width of the error counters is not told.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.fabric_identity import device_of, guid
from schemas.formats.fabric_readings import LOGICAL_STATES, Rows, decoded, number_of
from schemas.formats.json_values import documents, microseconds, since_epoch

NAME = "UFM telemetry JSON"
VERSIONS = "full samples, changed-only samples, low-frequency fields"
LEAVES = "histN (buffer use), congestion bandwidth, normalised bandwidth, cable and firmware texts, per-lane power"

# A field of the low-frequency set is spelt in two ways (formats.md B5).
FIELDS: dict[str, tuple[str, float]] = {
    "Infiniband_MBOut_u_Gb": ("transmit_bytes_total", 1),
    "Infiniband_MBIn_u_Gb": ("receive_bytes_total", 1),
    "Infiniband_PckOut_u_Packets": ("transmit_packets_total", 1),
    "Infiniband_PckIn_u_Packets": ("receive_packets_total", 1),
    "Infiniband_SymbolErrors_u_Errors": ("symbol_error_total", 1),
    "Infiniband_LinkRecovers_u_Errors": ("link_error_recovery_total", 1),
    "Infiniband_LinkDowned_u_Errors": ("link_downed_total", 1),
    "Infiniband_RcvErrors_u_Errors": ("receive_error_total", 1),
    "Infiniband_RcvRemotePhysErrors_u_Errors": ("receive_remote_physical_error_total", 1),
    "Infiniband_RcvSwRelayErrors_u_Errors": ("receive_switch_relay_error_total", 1),
    "Infiniband_XmtDiscards_u_Errors": ("transmit_discard_total", 1),
    "Infiniband_XmtConstraintErrors_u_Errors": ("transmit_constraint_error_total", 1),
    "Infiniband_RcvConstraintErrors_u_Errors": ("receive_constraint_error_total", 1),
    "Infiniband_LinkIntegrityErrors_u_Errors": ("local_link_integrity_error_total", 1),
    "Infiniband_ExcBufOverrunErrors_u_Errors": ("excessive_buffer_overrun_total", 1),
    "Infiniband_VL15Dropped_u_Drops": ("vl15_dropped_total", 1),
    "Infiniband_XmitWait_u_Ticks": ("transmit_wait_total", 1),
    "Link_Down_IB": ("link_downed_total", 1),
    "PortRcvErrors": ("receive_error_total", 1),
    "PortRcvRemotePhysicalErrors": ("receive_remote_physical_error_total", 1),
    "PortRcvPktsExtended": ("receive_packets_total", 1),
    "Symbol_Errors": ("symbol_error_total", 1),
    "Effective_Errors": ("effective_error_total", 1),
    "phy_effective_errors": ("effective_error_total", 1),
    "Total_Raw_BER": ("raw_bit_error_rate", 1),
    "Raw_BER": ("raw_bit_error_rate", 1),
    "Effective_BER": ("effective_bit_error_rate", 1),
    "Symbol_BER": ("symbol_bit_error_rate", 1),
}
NONE_OBSERVED = 1e-200
GUIDS = ("node_guid", "Node_GUID", "source_id", "port_guid")
PORTS = ("port_num", "Port_Number", "port_number")


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head).lstrip()
    return text[:1] in "{[" and '"values"' in text and ('"port_num"' in text or '"Port_Number"' in text)


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """One row per port and time. missing is told of full samples only. Rejects: values that name no port, repeated and
    unreadable readings, counted. Raises Unreadable when no message has values.
    """
    rows = Rows.of("fabric_port", surroundings)
    rejects: list[Reject] = []
    complete, messages = True, 0
    for place, message in documents(data, surroundings, NAME, rejects):
        values = message.get("values") if isinstance(message, dict) else None
        if not isinstance(values, list):
            rejects.append(Reject(rule="message|values", reason=f"message {place}: no list of values", place=place))
            continue
        messages += 1
        complete = complete and message.get("type", "full") == "full"
        sent = microseconds(message.get("timestamp"), surroundings.utc_offset_minutes)
        for at, value in enumerate(values, 1):
            reason = _take(rows, value, sent, at)
            if reason:
                raw = repr(value)[:200].encode(errors="replace")
                rejects.append(Reject(rule="port|absent", reason=f"value {at}: {reason}", place=at, raw=raw))
    if not messages:
        raise Unreadable(f"{NAME}: no message with values")
    return decoded([rows], rejects, complete=complete)


def _take(rows: Rows, value: Any, sent: int | None, at: int) -> str | None:
    """Why a value is not taken; else None."""
    if not isinstance(value, dict):
        return "no object"
    known = next((found for key in GUIDS if isinstance(value.get(key), str) and (found := guid(value[key]))), None)
    port = next((number for key in PORTS if (number := number_of(value.get(key))) is not None), None)
    if known is None or port is None or port != int(port) or not 0 <= port <= 4096:
        return "names no device and port"
    name = value.get("Node_Description") or value.get("node_description")
    # Only a switch has more than one or two ports behind one node GUID; a description with a space is an HCA's.
    device = device_of(name, known, switch=" " not in name.strip()) if isinstance(name, str) else known
    stamp = microseconds(value.get("timestamp"), 0)
    micros = stamp if stamp is not None else sent
    if micros is None:
        micros = since_epoch(rows.surroundings.received_at)
    row = rows.row(device, int(port), time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros))
    for field, reading in value.items():
        if field in FIELDS and reading is not None:
            column, factor = FIELDS[field]
            number = number_of(reading)
            none = column.endswith("_rate") and number is not None and 0 <= number < NONE_OBSERVED
            rows.number(row, column, 0.0 if none else reading, factor=factor, place=at)
    state = value.get("logical_state") or value.get("Logical_State")
    if isinstance(state, str):
        word = LOGICAL_STATES.get(state.strip().lower())
        rows.word(row, "state", word)
        if word is None:
            rows.refuse("state", "type", state, at)
    return None
