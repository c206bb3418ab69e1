"""perfquery's text, with and without -x and with -E, to fabric_port.

Traps (formats.md B1). Data counters are words of 4 bytes. Without -x the error counters are classic and stop at 15,
255, 65535; with -x they have 64 bits, but only on a port whose CapMask2 has bit 1 (additional extended port counters):
on any other perfquery prints a 0 that nobody counted, which is null here. "port 255" is the sum of all ports. An empty
file is a query that timed out. The header can be wrapped, and knows no name: the device is the GUID or HCA that the
file's name or the message's key gives, else lid-N.
"""

import re

from schemas.fabric import CLASSIC_COUNTER_BITS
from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.fabric_identity import place_of
from schemas.formats.fabric_readings import IBA_COUNTERS, Rows, decoded, number_of

NAME = "perfquery"
VERSIONS = "perfquery, -x, -E (infiniband-diags)"
LEAVES = "unicast and multicast packets, QP1Dropped, PortDLIDMappingErrors, PortVLMappingErrors, PortLoopingErrors"
ALL_PORTS = 255
ADDITIONAL_EXTENDED = 2  # bit 1 of CapMask2: IsAdditionalPortCountersExtendedSupported

HEADER = re.compile(
    r"# (?P<set>[A-Za-z ]{1,40}?) ?counters: (?P<whose>.{1,80}?) port (?P<port>\d{1,4})"
    r"(?: \(CapMask: 0x[0-9A-Fa-f]{1,4}(?: CapMask2: 0x(?P<mask2>[0-9A-Fa-f]{1,8}))?\))?$"
)
WRAPPED = re.compile(r"^(#.*CapMask2?:)[ \t]*\r?\n[ \t]*(0x[0-9A-Fa-f]{1,8}\b.*\))", re.MULTILINE)
COUNTER = re.compile(r"(\w{2,40}):\.*(.{0,40})$")
LID = re.compile(r"Lid (\d{1,5})$")
GUID = re.compile(r"GUID (0x[0-9a-fA-F]{1,16})$")


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return re.search(r"^# [A-Za-z ]{1,40}? ?counters: .{1,80} port \d", text, re.MULTILINE) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """One row per port at received_at. Rejects: lines that are no counter, sums over all ports and counters that the
    device does not have. Raises Unreadable for an empty file (a query without an answer, not zeros).
    """
    if not data.strip():
        raise Unreadable(f"{NAME}: empty payload: the query had no answer; nothing is known of the port")
    lines = WRAPPED.sub(r"\1 \2", payload.text(data, surroundings, NAME)).split("\n")
    headers = [HEADER.match(line.strip()) for line in lines]
    whose = {header["whose"] for header in headers if header}
    if not whose:
        raise Unreadable(f"{NAME}: no line names a set of counters and a port")
    rows = Rows.of("fabric_port", surroundings)
    rejects: list[Reject] = []
    section: re.Match[str] | None = None
    row: dict[str, object] | None = None
    for at, (line, header) in enumerate(zip(lines, headers, strict=True), 1):
        text = line.strip()
        if header:
            section, row = header, _row(rows, header, _device(header["whose"], surroundings, alone=len(whose) == 1))
            if row is None:
                reason = f"line {at}: the sum of all ports, not a port"
                rejects.append(Reject(rule="port|aggregate", reason=reason, place=at, raw=line.encode()))
            continue
        found = COUNTER.match(text)
        if not text or (found and (row is None or section is None) and section is not None):
            continue
        if found is None or row is None or section is None:
            reason = f"line {at}: no counter as perfquery prints it"
            rejects.append(Reject(rule="line|counter", reason=reason, place=at, raw=line.encode()))
        elif found[1] in IBA_COUNTERS:
            _take(rows, row, section, found, at)
    return decoded([rows], rejects)


def _device(whose: str, surroundings: Surroundings, *, alone: bool) -> str:
    """A name's GUID holds for all sections only when they are of one device."""
    own = GUID.search(whose)
    if own:
        return f"0x{int(own[1], 16):016x}"
    device, _ = place_of(surroundings.node)
    lid = LID.search(whose)
    if alone and (device.startswith("0x") or "/hca" in device or lid is None):
        return device
    return f"lid-{int(lid[1])}" if lid else "-".join(whose.split())


def _row(rows: Rows, header: re.Match[str], device: str) -> dict[str, object] | None:
    port = int(header["port"])
    if port == ALL_PORTS:
        return None
    row = rows.row(device, port)
    if header["set"] in ("Port", "Port extended"):
        rows.word(row, "counter_width", "classic" if header["set"] == "Port" else "extended")
    return row


def _take(rows: Rows, row: dict[str, object], section: re.Match[str], found: re.Match[str], at: int) -> None:
    column, factor = IBA_COUNTERS[found[1]]
    error = column in CLASSIC_COUNTER_BITS
    lacks = section["mask2"] is not None and not int(section["mask2"], 16) & ADDITIONAL_EXTENDED
    if section["set"] == "Port extended" and error and lacks and number_of(found[2]) == 0:
        rows.refuse("counter", "unsupported", f"{found[1]} 0, CapMask2 0x{section['mask2']}", at)
        return
    rows.number(row, column, found[2], factor=factor, place=at)
