"""A host's log: what the kernel log says of GPUs, and what the network daemon says of RDMA links, to fabric_port.

`ib6: lost carrier` is a link that went down, `ib6: Gained carrier` one that came back. A loss says that there was a
carrier until then: where the log does not show it, a row just before says active, so that six losses in a row are six
outages and not one; a gain without a loss between says nothing new. Lines of one stamp keep their order by a
microsecond each, since a syslog's stamps are whole seconds. Interfaces that are no RDMA ones are left to others.
"""

import re
from datetime import datetime, timedelta

from schemas.formats import kernel_log, payload
from schemas.formats.decoded import Decoded, Surroundings
from schemas.formats.fabric_identity import interface_of
from schemas.formats.fabric_readings import Rows, decoded
from schemas.formats.kernel_log_time import boot_moments, read_stamp, seconds_since_boot

NAME = kernel_log.NAME
VERSIONS = "five stamps of the kernel log; systemd-networkd's carrier lines"
LEAVES = "everything else; a carrier of an interface that is not RDMA"

CARRIER = re.compile(rb"\b((?:ib|mlx\d_)\d{1,3}): (lost|gained) carrier\s*$", re.IGNORECASE)
BEFORE = timedelta(microseconds=1)
looks_like = kernel_log.looks_like


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """gpu_event as kernel_log reads it, and fabric_port rows of state alone. Raises Unreadable as kernel_log does."""
    events = kernel_log.decode(data, surroundings)
    if b"arrier" not in data:
        return events
    lines = payload.bounded(data, surroundings, NAME).split(b"\n")
    told = [(raw, found) for raw in lines if (found := CARRIER.search(raw))]
    if not told:
        return events
    stamps = [read_stamp(raw[: found.start()].decode("utf-8", errors="replace")) for raw, found in told]
    boots = boot_moments([stamp.seconds for stamp in stamps], seconds_since_boot(lines), surroundings.received_at)
    rows = Rows.of("fabric_port", surroundings)
    newest: dict[tuple[str, int], tuple[datetime, str]] = {}
    for (_, found), stamp, boot in zip(told, stamps, boots, strict=True):
        place = interface_of(stamp.host or surroundings.node, found[1].decode().lower())
        if place is None:
            continue
        last, state = newest.get(place, (None, ""))
        moment = stamp.time(surroundings, boot)
        down = found[2].lower() == b"lost"
        if not down and state == "active":
            continue
        if down and state != "active":
            before = moment - BEFORE if last is None or moment - BEFORE > last else last + BEFORE
            rows.word(rows.row(*place, time=before), "state", "active")
            last = before
        if last is not None and moment <= last:
            moment = last + BEFORE
        rows.word(rows.row(*place, time=moment), "state", "down" if down else "active")
        newest[place] = (moment, "down" if down else "active")
    links = decoded([rows], [], complete=False)
    return Decoded(tables={**events.tables, **links.tables}, rejects=events.rejects, missing=events.missing)
