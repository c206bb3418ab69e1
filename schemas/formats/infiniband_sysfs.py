"""The tree under /sys/class/infiniband as `grep -r .` prints it, `path:value` a line, to fabric_port.

Traps (formats.md B3). A virtual function says "N/A (no PMA)"; error counters are classic, and 255 has been seen on a
live port; port_*_data are words of 4 bytes; the rate of a dead link is that of its last or least speed, so it is null
there. The paths can be relative or below another root; hw_counters differ by driver and are not taken.
"""

import re

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.fabric_identity import interface_of
from schemas.formats.fabric_readings import LOGICAL_STATES, PHYSICAL_STATES, Rows, decoded

NAME = "InfiniBand sysfs"
VERSIONS = "mlx4, mlx5, hfi1 (grep -r . /sys/class/infiniband)"
LEAVES = "hw_counters, unicast and multicast packets, lid, gid, pkeys, firmware and board"

LINE = re.compile(
    r"(?:\S*/)?infiniband/(?P<device>[\w.-]{1,64})/ports/(?P<port>\d{1,4})/(?P<name>[\w/]{1,80})[:=](?P<value>.*)$"
)
BELOW = re.compile(r"(?:\S*/)?(?:class|sys)/infiniband(?:/|$|:)|(?:\S*/)?infiniband/[\w.-]+/")
RATE = re.compile(r"\s*([\d.]{1,12}) Gb/sec(?:\s*\((\d{1,2})X\b.*\))?")
NUMBERED = re.compile(r"\s*\d+: (\w{1,40})")

# https://docs.kernel.org/admin-guide/abi-stable.html: /sys/class/infiniband/<device>/ports/<port-num>/counters/
COUNTERS: dict[str, tuple[str, int]] = {
    "symbol_error": ("symbol_error_total", 1),
    "link_error_recovery": ("link_error_recovery_total", 1),
    "link_downed": ("link_downed_total", 1),
    "port_rcv_errors": ("receive_error_total", 1),
    "port_rcv_remote_physical_errors": ("receive_remote_physical_error_total", 1),
    "port_rcv_switch_relay_errors": ("receive_switch_relay_error_total", 1),
    "port_rcv_constraint_errors": ("receive_constraint_error_total", 1),
    "port_xmit_discards": ("transmit_discard_total", 1),
    "port_xmit_constraint_errors": ("transmit_constraint_error_total", 1),
    "port_xmit_wait": ("transmit_wait_total", 1),
    "local_link_integrity_errors": ("local_link_integrity_error_total", 1),
    "excessive_buffer_overrun_errors": ("excessive_buffer_overrun_total", 1),
    "VL15_dropped": ("vl15_dropped_total", 1),
    "port_xmit_data": ("transmit_bytes_total", 4),
    "port_rcv_data": ("receive_bytes_total", 4),
    "port_xmit_packets": ("transmit_packets_total", 1),
    "port_rcv_packets": ("receive_packets_total", 1),
}


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return any(LINE.match(line) for line in payload.head_text(head).split("\n")[:200])


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """One row per port at received_at. Rejects: lines that are no path and value, "N/A (no PMA)" by counter with its
    count. Raises Unreadable when no line is below a port.
    """
    lines = payload.text(data, surroundings, NAME).split("\n")
    rows = Rows.of("fabric_port", surroundings)
    rejects: list[Reject] = []
    rates: list[tuple[int, dict[str, object], str]] = []
    for at, line in enumerate(lines, 1):
        found = LINE.match(line.rstrip())
        if found is None:
            if line.strip() and not BELOW.match(line):
                reason = f"line {at}: no path below class/infiniband and value"
                rejects.append(Reject(rule="line|path", reason=reason, place=at, raw=line.encode()))
            continue
        place = interface_of(surroundings.node, found["device"])
        device = place[0] if place else f"{surroundings.node}/{found['device']}"[:256]
        row = rows.row(device, int(found["port"]))
        folder, _, name = found["name"].rpartition("/")
        if folder == "counters" and name in COUNTERS:
            rows.word(row, "counter_width", "classic")
            column, factor = COUNTERS[name]
            rows.number(row, column, found["value"], factor=factor, place=at)
        elif found["name"] == "rate":
            rates.append((at, row, found["value"]))
        elif found["name"] in ("state", "phys_state"):
            _state(rows, row, found["name"], found["value"], at)
    if not rows.rows:
        raise Unreadable(f"{NAME}: no line is below a port of class/infiniband in {len(lines)} line(s)")
    for at, row, value in rates:
        _rate(rows, row, value, at)
    return decoded([rows], rejects)


def _state(rows: Rows, row: dict[str, object], name: str, value: str, at: int) -> None:
    column, words = ("state", LOGICAL_STATES) if name == "state" else ("physical_state", PHYSICAL_STATES)
    found = NUMBERED.match(value)
    word = words.get(found[1].lower()) if found else None
    rows.word(row, column, word)
    if word is None:
        rows.refuse(column, "type", value, at)


def _rate(rows: Rows, row: dict[str, object], value: str, at: int) -> None:
    rows.shown.update(("rate_gigabits_per_second", "width_lanes"))
    found = RATE.match(value)
    if found is None:
        rows.refuse("rate_gigabits_per_second", "type", value, at)
    elif row.get("state") not in ("down", "init"):
        rows.number(row, "rate_gigabits_per_second", found[1], place=at)
        if found[2]:
            rows.number(row, "width_lanes", found[2], place=at)
