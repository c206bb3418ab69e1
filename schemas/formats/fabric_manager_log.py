"""NVIDIA fabric manager's log to gpu_event: the NVSwitch errors in it, which are SXids (formats.md A4, A6).

`detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33`. The
number is the SXid of the kernel log, where the same error is logged too when that log is kept. All other lines
(multicast teams, start and stop) are no events of a device.
"""

import re
from datetime import UTC, datetime, timedelta

import polars as pl

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.gpu_readings import pci_address
from schemas.tables import TABLE_BY_NAME

NAME = "fabric manager log"
VERSIONS = "570 and earlier log lines"
LEAVES = "lines that are no NVSwitch error (errors among them counted), physical id and port but in the message"
LINE = re.compile(r"^\[([A-Z][a-z]{2} \d{2} \d{4} \d{2}:\d{2}:\d{2})\] \[([A-Z]+)\] \[tid \d+\] (.*)$")
LOOKS = re.compile(LINE.pattern, re.MULTILINE)
ERROR = re.compile(
    r"detected NVSwitch (?P<gravity>fatal|non-fatal) error (?P<code>\d{1,10}) on (?:fid|NodeId) \d+ "
    r"on NVSwitch pci bus id (?P<pci>\S+)"
)
SAYS_ERROR = "NVSwitch fatal error", "NVSwitch non-fatal error"
CODE_MAXIMUM = 2**31
MESSAGE_CHARACTERS_MAXIMUM = 4096


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return LOOKS.search(payload.head_text(head)) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """gpu_event rows of kind sxid, in the order of the log. Times are local, so utc_offset_minutes is taken off.

    Rejects: lines that name an NVSwitch error and cannot be read, one by one; other lines of level ERROR or worse, one
    for all with their count. Raises Unreadable when no line is one of this log.
    """
    events: list[dict[str, object]] = []
    rejects: list[Reject] = []
    lines = others = 0
    first_other = ""
    for number, text in enumerate(payload.text(data, surroundings, NAME).split("\n"), 1):
        line = LINE.match(text.rstrip("\r"))
        if line is None:
            continue
        lines += 1
        stamp, level, message = line.groups()
        error = ERROR.search(message)
        time = _time(stamp, surroundings)
        if error is not None and time is not None and int(error["code"]) <= CODE_MAXIMUM:
            events.append(
                {"time": time, "node": surroundings.node, "pci": pci_address(error["pci"]), "kind": "sxid",
                 "code": int(error["code"]), "message": message[:MESSAGE_CHARACTERS_MAXIMUM]}
            )  # fmt: skip
        elif error is not None or any(words in message for words in SAYS_ERROR):
            reason = f"line {number}: names an NVSwitch error in a way that cannot be read"
            rejects.append(Reject(rule="sxid|line", reason=reason, place=number, raw=text.encode(errors="replace")))
        elif level in {"ERROR", "CRITICAL", "FATAL"}:
            others += 1
            first_other = first_other or f"{message[:120]!r} on line {number}"
    if not lines:
        raise Unreadable(f"{NAME}: no line begins with [Mon DD YYYY HH:MM:SS] [LEVEL] [tid N]")
    if others:
        reason = f"{others} line(s) of level ERROR are no error of a switch, first {first_other}"
        rejects.append(Reject(rule="line|left", reason=reason))
    if not events:
        return Decoded(rejects=rejects_frame(rejects, "gpu_event"))
    frame = pl.DataFrame(events, schema=dict(TABLE_BY_NAME["gpu_event"].columns))
    return Decoded(tables={"gpu_event": frame}, rejects=rejects_frame(rejects, "gpu_event"))


def _time(stamp: str, surroundings: Surroundings) -> datetime | None:
    try:
        local = datetime.strptime(stamp, "%b %d %Y %H:%M:%S").replace(tzinfo=UTC)
        return local - timedelta(minutes=surroundings.utc_offset_minutes)
    except (ValueError, OverflowError):
        return None
