"""gNMI updates as a collector writes them in JSON, to fabric_port and optic: events (name, timestamp, tags, values) and
notifications (source, timestamp, updates of Path and values).

Traps (formats.md B7). Times are nanoseconds, also as text; numbers are texts, with "NA" among them; paths carry origin
and module prefixes, are split in prefix and path, and a value can be a tree of its own. An update carries what changed
or was asked for: a leaf that is not there is null, never 0.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.fabric_identity import interface_of
from schemas.formats.fabric_readings import LOGICAL_STATES, Rows, decoded
from schemas.formats.json_values import documents, microseconds, since_epoch
from schemas.formats.optic_lanes import receive_power, transmit_power

NAME = "gNMI JSON"
VERSIONS = "event and notification form; OpenConfig interfaces and transceivers, SR Linux statistics"
LEAVES = "every other path; averages, minima and maxima beside an instant value; deletes"

DEPTH_MAXIMUM = 16
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The end of a path without prefixes and keys -> column of fabric_port.
PORT_LEAVES = {
    "counters/in-octets": "receive_bytes_total",
    "counters/out-octets": "transmit_bytes_total",
    "counters/in-pkts": "receive_packets_total",
    "counters/out-pkts": "transmit_packets_total",
    "counters/in-errors": "receive_error_total",
    "counters/out-discards": "transmit_discard_total",
    "counters/in-mac-pause-frames": "pause_received_total",
    "counters/out-mac-pause-frames": "pause_sent_total",
    "statistics/in-octets": "receive_bytes_total",
    "statistics/out-octets": "transmit_bytes_total",
    "statistics/in-error-packets": "receive_error_total",
    "statistics/out-discarded-packets": "transmit_discard_total",
    "transceiver/state/fec-uncorrectable-blocks": "fec_uncorrected_total",
    "state/fec-uncorrectable-blocks": "fec_uncorrected_total",
    "pre-fec-ber/instant": "raw_bit_error_rate",
    "post-fec-ber/instant": "effective_bit_error_rate",
}
STATE_LEAVES = ("state/oper-status", "interface/oper-state")
LANE_LEAVES = {
    "input-power/instant": "receive_power_dbm",
    "output-power/instant": "transmit_power_dbm",
    "laser-bias-current/instant": "bias_milliamps",
}
MODULE_LEAVES = {
    "supply-voltage/instant": "supply_volts",
    "laser-temperature/instant": "module_temperature_celsius",
}
LEAF_NAMES = frozenset({*PORT_LEAVES, *STATE_LEAVES, *LANE_LEAVES, *MODULE_LEAVES})
NAMES = ("interface_name", "interface-name", "component_name", "component-name", "if_name", "name")
CHANNELS = ("channel_index", "channel-index", "index", "channel")
KEYED = re.compile(r"\[(?:[\w-]{1,40}:)?([\w-]{1,40})=([^\]]{0,128})\]")


@dataclass(frozen=True)
class _Leaf:
    """One value of an update. path: plain, without keys and prefixes; the keys are among the tags."""

    device: str
    moment: datetime
    tags: dict[str, Any]
    path: str
    value: Any
    place: int


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head).lstrip()
    event = '"tags"' in text and '"values"' in text and '"timestamp"' in text and '"source"' in text
    return text[:1] in "{[" and (event or ('"updates"' in text and '"Path"' in text))


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """Rows at the time of their update. Rejects: updates of known leaves that name no interface, readings that are
    none, counted. Raises Unreadable when no document is an event or a notification.
    """
    ports, lanes = Rows.of("fabric_port", surroundings), Rows.of("optic", surroundings)
    rejects: list[Reject] = []
    found = False
    for place, message in documents(data, surroundings, NAME, rejects):
        if not isinstance(message, dict):
            continue
        for tags, stamp, values in _updates(message):
            found = True
            micros = microseconds(stamp)
            moment = EPOCH + timedelta(microseconds=since_epoch(surroundings.received_at) if micros is None else micros)
            source = str(tags.get("source") or surroundings.node)
            device = re.sub(r"^\[?(.*?)\]?(?::\d{1,5})?$", r"\1", source)[:128] or surroundings.node
            for path, value in values:
                leaf = _Leaf(device, moment, tags | _keys(path), _plain(path), value, place)
                _take(ports, lanes, leaf)
    if not found and not any(True for _ in rejects):
        raise Unreadable(f"{NAME}: no document is an event or a notification")
    return decoded([ports, lanes], rejects, complete=False)


def _updates(message: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any, list[tuple[str, Any]]]]:
    """(tags, timestamp, [(path, value)]) of an event or of each update of a notification."""
    tags, values = message.get("tags"), message.get("values")
    if isinstance(values, dict):
        yield (tags if isinstance(tags, dict) else {}), message.get("timestamp"), list(_leaves("", values, 0))
    updates = message.get("updates")
    if isinstance(updates, list):
        prefix = str(message.get("prefix") or "")
        for update in updates:
            inner = update.get("values") if isinstance(update, dict) else None
            if isinstance(inner, dict):
                # Keys stand in Path, leaf names in values, where a tree can follow.
                whole = f"{prefix}/{update.get('Path', '')}"
                own = {"source": message.get("source")} | _keys(whole)
                told = [(path if "/" in path else f"{whole}/{path}", value) for path, value in _leaves("", inner, 0)]
                yield own, message.get("timestamp"), told


def _leaves(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and depth < DEPTH_MAXIMUM:
        for name, inner in value.items():
            yield from _leaves(f"{path}/{name}" if path else str(name), inner, depth + 1)
    else:
        yield path, value


def _keys(path: str) -> dict[str, Any]:
    """[name=Ethernet48] and [index=0] of a path, as tags; the interface's own name is not hidden by a later one."""
    keys: dict[str, Any] = {}
    for name, value in KEYED.findall(path):
        keys.setdefault(name, value)
    return keys


def _plain(path: str) -> str:
    """Without keys and module prefixes: openconfig-interfaces:interfaces/interface[name=x]/state is interfaces/..."""
    bare = KEYED.sub("", path)
    return "/".join(part.rpartition(":")[2] for part in bare.split("/") if part)


def _take(ports: Rows, lanes: Rows, leaf: _Leaf) -> None:
    parts = leaf.path.split("/")
    ends = ("/".join(parts[-2:]), "/".join(parts[-3:]))
    known = next((end for end in ends if end in LEAF_NAMES), None)
    if known is None:
        return
    name = next((str(leaf.tags[key]) for key in NAMES if leaf.tags.get(key)), "")
    interface = re.sub(r"^transceiver-?|-?transceiver$", "", name, flags=re.IGNORECASE)
    where = interface_of(leaf.device, interface)
    if where is None:
        told = f"{name} {leaf.path}"[:200]
        ports.refuse("port", "unnamed", told, leaf.place)
    elif known in STATE_LEAVES:
        row = ports.row(*where, time=leaf.moment)
        word = LOGICAL_STATES.get(str(leaf.value).rpartition(":")[2].lower())
        ports.word(row, "state", word)
        if word is None:
            ports.refuse("state", "type", leaf.value, leaf.place)
    elif known in PORT_LEAVES:
        ports.number(ports.row(*where, time=leaf.moment), PORT_LEAVES[known], leaf.value, place=leaf.place)
    else:
        _take_lane(lanes, where, known, leaf)


def _take_lane(lanes: Rows, where: tuple[str, int], known: str, leaf: _Leaf) -> None:
    channel = next((str(leaf.tags[key]) for key in CHANNELS if leaf.tags.get(key) is not None), "0")
    if re.fullmatch(r"[0-9]{1,2}", channel) is None or int(channel) > 16:
        lanes.refuse("lane", "unnamed", channel, leaf.place)
        return
    row = lanes.row(*where, int(channel), time=leaf.moment)
    column = LANE_LEAVES.get(known) or MODULE_LEAVES[known]
    if column == "receive_power_dbm":
        receive_power(lanes, row, leaf.value, place=leaf.place)
    elif column == "transmit_power_dbm":
        transmit_power(lanes, row, leaf.value, place=leaf.place)
    else:
        lanes.number(row, column, leaf.value, place=leaf.place)
