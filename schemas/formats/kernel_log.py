"""Kernel logs to gpu_event: NVRM Xid, NVSwitch SXid, and GPUs that fell off the bus without an Xid (formats.md A4).

Everything else in a kernel log is no event. A line that says Xid and cannot be read is a reject, never dropped.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

import polars as pl

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, rejects_frame
from schemas.formats.gpu_readings import pci_address
from schemas.formats.kernel_log_time import Stamp, boot_moments, read_stamp, seconds_since_boot
from schemas.tables import TABLE_BY_NAME

NAME = "kernel log"
OFF_BUS_CODE = 79
CODE_MAXIMUM = 2**31
MESSAGE_CHARACTERS_MAXIMUM = 4096
SAME_LOSS = timedelta(seconds=60)

WORTH_READING = re.compile(rb"NVRM:|SXid")
MESSAGE = re.compile(r"NVRM:|nvidia-nvswitch\d+:")
_DEVICE = r"(?:PCI:)?[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f])?"
XID = re.compile(rf"NVRM:\s+Xid\s*(?:\(({_DEVICE})[^)]*\))?\s*:\s*(\d{{1,10}})\b")
SXID = re.compile(rf"(nvidia-nvswitch\d+):\s+SXid\s*\(({_DEVICE})\):\s*(\d{{1,10}}),\s*(.*)")
SXID_DETAIL = re.compile(r"Severity \d|Data \{")
RECOVERY = re.compile(r"recovery action changed from .*?\bto\s+(?:0x[0-9a-fA-F]+\s*)?\(([^)]+)\)")
LOST_GPU = re.compile(rf"NVRM:\s+(?:The NVIDIA )?GPU (?:at )?({_DEVICE})")
OFF_BUS = "fallen off the bus"


@dataclass(slots=True)
class _Event:
    """An event under way: SXid follow-up lines are added to its message. seconds: since boot; time: of other stamps.

    Kept flat: in a storm Python's garbage collector looks at every object that holds others, again and again.
    """

    seconds: float | None
    time: datetime
    host: str | None
    kind: str
    message: str
    code: int | None = None
    pci: str | None = None
    recovery_action: str | None = None


def looks_like(head: bytes, name: str) -> bool:
    """Kernel lines of the driver in the head, or the name of a log and stamps of one."""
    if WORTH_READING.search(head):
        return True
    if not name.lower().endswith((".log", ".dmesg", "dmesg", "kern.log", "messages", "syslog", ".kmsg")):
        return False
    lines = [line for line in payload.head_text(head).splitlines()[:20] if line.strip()]
    stamped = sum(read_stamp(line).style not in ("none", "iso") for line in lines)
    return bool(lines) and stamped * 2 > len(lines)


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """gpu_event rows in the order of the log; `gpu` is null, since a kernel log knows PCI addresses only.

    Time. dmesg -T and syslog stamps are local, so utc_offset_minutes is taken off; a year that is not there is the
    one that puts the line no later than a day after received_at. Seconds since boot have no zero point of their own:
    the last line is taken as written at received_at and the differences are kept. A line without any stamp gets
    received_at. node: the host in the line when there is one. Raises Unreadable for an empty or oversized payload.
    """
    lines = payload.bounded(data, surroundings, NAME).split(b"\n")
    events: list[_Event] = []
    rejects: list[Reject] = []
    lost: dict[str | None, str] = {}  # host -> PCI address of "The NVIDIA GPU ...", whose verdict is on a later line
    head, stamp, time = "", read_stamp(""), surroundings.received_at
    for number, raw in enumerate(lines, 1):
        if b"NVRM:" not in raw and b"SXid" not in raw:
            continue
        line = raw.decode("utf-8", errors="replace").replace("\0", "").rstrip()
        start = _message_at(line)
        if start < 0:
            continue
        message = line[start:]
        if line[:start] != head:  # in a storm many lines share one stamp
            head = line[:start]
            stamp = read_stamp(head)
            if stamp.seconds is None:
                time = stamp.time(surroundings, surroundings.received_at)
        reason = _take(stamp, time, message, events, lost)
        if reason:
            rejects.append(Reject(rule="xid|line", reason=f"line {number}: {reason}", place=number, raw=raw))
    if lines and not events:
        return Decoded(rejects=rejects_frame(rejects, "gpu_event"))
    frame = _frame(events, seconds_since_boot(lines), surroundings)
    return Decoded(tables={"gpu_event": frame}, rejects=rejects_frame(rejects, "gpu_event"))


def _message_at(line: str) -> int:
    """Where the driver's message begins; -1 where there is none."""
    plain = line.find("NVRM:")
    if "nvidia-nvswitch" not in line:
        return plain
    found = MESSAGE.search(line)
    return -1 if found is None else found.start()


@lru_cache(maxsize=4096)
def _pci(text: str) -> str | None:
    """A log names the same few devices again and again."""
    return pci_address(text)


@lru_cache(maxsize=4096)
def _xid(text: str) -> tuple[str | None, int] | None:
    """PCI address and code at the beginning of a message."""
    found = XID.match(text)
    return None if found is None else (_pci(found[1]) if found[1] else None, int(found[2]))


def _take(stamp: Stamp, time: datetime, message: str, events: list[_Event], lost: dict[str | None, str]) -> str | None:
    """Add what the line says to the events; the reason when it says something that cannot be read."""
    if message.startswith("nvidia-nvswitch"):
        return _take_sxid(stamp, time, message, events)
    xid = _xid(message.partition(",")[0]) or _xid(message)
    if xid:
        pci, code = xid
        if code > CODE_MAXIMUM:
            return f"Xid {code} is no code"
        recovery = RECOVERY.search(message) if "recovery action" in message else None
        asked = recovery.group(1).strip() if recovery else None
        events.append(_Event(stamp.seconds, time, stamp.host, "xid", message, code, pci, asked))
        return None
    if re.match(r"NVRM:\s+Xid\b", message):
        return "says Xid in a way that cannot be read"
    named = LOST_GPU.match(message)
    if named:
        lost[stamp.host] = named.group(1)
    if OFF_BUS in message:
        address = lost.pop(stamp.host, None)
        pci = _pci(address) if address else None
        events.append(_Event(stamp.seconds, time, stamp.host, "fallen_off_bus", message, OFF_BUS_CODE, pci))
    return None


def _take_sxid(stamp: Stamp, time: datetime, message: str, events: list[_Event]) -> str | None:
    """One event from three lines: the two that follow (severity, data) are joined to the first one's message."""
    sxid = SXID.match(message)
    if sxid is None:
        return "says SXid in a way that cannot be read" if "SXid" in message else None
    _, device, code, rest = sxid.groups()
    if int(code) > CODE_MAXIMUM:
        return f"SXid {code} is no code"
    pci = _pci(device)
    if SXID_DETAIL.match(rest):
        for event in reversed(events[-64:]):
            if (event.kind, event.code, event.pci, event.host) == ("sxid", int(code), pci, stamp.host):
                event.message = f"{event.message}; {rest}"
                return None
        return f"details of SXid {code} without its first line"
    events.append(_Event(stamp.seconds, time, stamp.host, "sxid", message, int(code), pci))
    return None


def _frame(events: list[_Event], last_seconds: float | None, surroundings: Surroundings) -> pl.DataFrame:
    boots = boot_moments([event.seconds for event in events], last_seconds, surroundings.received_at)
    # without a zone, as Polars takes those in whole
    plain = {boot: boot.replace(tzinfo=None) for boot in set(boots)}
    times = [
        event.time.replace(tzinfo=None) if event.seconds is None else plain[boot] + timedelta(seconds=event.seconds)
        for event, boot in zip(events, boots, strict=True)
    ]
    keep = _told_once(events, times)
    told = [events[at] for at in keep]
    return pl.DataFrame(
        [
            pl.Series("time", [times[at] for at in keep], dtype=pl.Datetime("us")).dt.replace_time_zone("UTC"),
            pl.Series("node", [event.host or surroundings.node for event in told], dtype=pl.String),
            pl.Series("gpu", [None] * len(told), dtype=pl.Int64),
            pl.Series("pci", [event.pci for event in told], dtype=pl.String),
            pl.Series("kind", [event.kind for event in told], dtype=pl.String),
            pl.Series("code", [event.code for event in told], dtype=pl.Int64),
            pl.Series("recovery_action", [event.recovery_action for event in told], dtype=pl.String),
            pl.Series("message", [event.message[:MESSAGE_CHARACTERS_MAXIMUM] for event in told], dtype=pl.String),
        ]
    ).cast(TABLE_BY_NAME["gpu_event"].columns)


def _told_once(events: list[_Event], times: list[datetime]) -> list[int]:
    """Places of the events, without a fallen_off_bus that only repeats in words the Xid 79 of the same device."""
    told: dict[tuple[str | None, str | None], datetime] = {}
    keep = []
    for at, (event, time) in enumerate(zip(events, times, strict=True)):
        if event.code == OFF_BUS_CODE:
            device = (event.host, event.pci)
            if event.kind == "xid":
                told[device] = time
            elif event.kind == "fallen_off_bus" and device in told and abs(time - told[device]) <= SAME_LOSS:
                continue
        keep.append(at)
    return keep
