"""ibqueryerrors' text to fabric_port: the ports with errors above threshold, and with --data and --report-port more.

Traps (formats.md B2). "port ALL" is the sum over a switch's ports and no port of its own. A counter that is not there
is below its threshold, and so is a node that is not there: null, never 0. Error counters are classic unless they come
with a rounded form in brackets or are over the classic top: those have 64 bits. Data counters are words of 4 bytes.
Lines of the tool's standard error tell of nodes that did not answer: rejects.
"""

import re

from schemas.fabric import CLASSIC_COUNTER_BITS
from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.fabric_identity import device_of
from schemas.formats.fabric_readings import IBA_COUNTERS, Rows, decoded
from schemas.formats.iblinkinfo import LINK, take_link

NAME = "ibqueryerrors"
VERSIONS = "ibqueryerrors, --data, --details, --report-port (infiniband-diags)"
LEAVES = "the sum over all ports of a switch, thresholds, the far end of a link, counters of --details"

NODE = re.compile(r'Errors for (?:(0x[0-9a-fA-F]{1,16}) )?"(.{0,64})"$')
PORT = re.compile(r"GUID (0x[0-9a-fA-F]{1,16}) port (ALL|\d{1,4}):(.*)$")
COUNTER = re.compile(r"\[(\w{2,40}) == ([^\]\s]{1,40})( \([^)\]]{1,30}\))?\]")
FAILED = re.compile(r"bad status|query failed|ibwarn|mad_rpc|recv failed|timed? ?out", re.IGNORECASE)
LOOKS = re.compile(r'^(Errors for (0x\w+ )?"|# ibqueryerrors|## Summary: \d+ nodes checked)', re.MULTILINE)
LINK_INFO = re.compile(r"Link info:\s*(.*)$")


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return LOOKS.search(text) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """One row per port at received_at; none where all are clean. Rejects: lines of no known kind, and each query that
    failed. Raises Unreadable when no line is of this tool.
    """
    lines = payload.text(data, surroundings, NAME).split("\n")
    rows = Rows.of("fabric_port", surroundings)
    rejects: list[Reject] = []
    node: tuple[str, bool] | None = None
    row: dict[str, object] | None = None
    known = False
    for at, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            known = known or "ibqueryerrors" in text or text.startswith("## Summary")
            continue
        named, port, link = NODE.match(text), PORT.match(text), LINK_INFO.match(text)
        if named:
            node, row, known = (named[2], named[1] is not None), None, True
        elif port:
            row, known = _port(rows, port, node, at), True
        elif link:
            _link(rows, row, link[1], at)
        elif FAILED.search(text):
            rejects.append(Reject(rule="query|failed", reason=f"line {at}: {text[:200]}", place=at, raw=line.encode()))
        else:
            reason = f"line {at}: no line as ibqueryerrors prints it"
            rejects.append(Reject(rule="line|unknown", reason=reason, place=at, raw=line.encode()))
    if not known and not any(reject.rule == "query|failed" for reject in rejects):
        raise Unreadable(f"{NAME}: no line of its output in {len(lines)} line(s)")
    return decoded([rows], rejects, complete=False)


def _port(rows: Rows, port: re.Match[str], node: tuple[str, bool] | None, at: int) -> dict[str, object] | None:
    if port[2] == "ALL":
        return None
    description, switch = node or ("", False)
    row = rows.row(device_of(description, port[1], switch=switch), int(port[2]))
    counters = [found for found in COUNTER.finditer(port[3]) if found[1] in IBA_COUNTERS]
    errors = [found for found in counters if IBA_COUNTERS[found[1]][0] in CLASSIC_COUNTER_BITS]
    if errors:
        extended = any(found[3] or _beyond(found) for found in errors)
        rows.word(row, "counter_width", "extended" if extended else "classic")
    for found in counters:
        column, factor = IBA_COUNTERS[found[1]]
        rows.number(row, column, found[2], factor=factor, place=at)
    return row


def _beyond(found: re.Match[str]) -> bool:
    bits = CLASSIC_COUNTER_BITS[IBA_COUNTERS[found[1]][0]]
    return found[2].isdecimal() and int(found[2]) >= 2**bits


def _link(rows: Rows, row: dict[str, object] | None, text: str, at: int) -> None:
    """--report-port's line under a port, as iblinkinfo writes it."""
    found = LINK.search(text)
    if row is not None and found:
        take_link(rows, row, found, at)
