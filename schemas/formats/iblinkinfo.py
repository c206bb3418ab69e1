"""iblinkinfo's text, by node or one line a link (-l), to fabric_port: state, rate and width of every port.

A link is printed from both of its ends where both are shown, each under its own device. Rates are per lane as they are
signalled (25.78125 Gbps); the table holds the link's quoted data rate (4x: 100). "Could be 4X" or "Could be 25 Gbps"
marks a degraded link: width_lanes and the rate show it.
"""

import re

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.fabric_identity import device_of
from schemas.formats.fabric_readings import LANE_GIGABITS, LOGICAL_STATES, PHYSICAL_STATES, Rows, decoded, number_of

NAME = "iblinkinfo"
VERSIONS = "iblinkinfo, -l (infiniband-diags)"
LEAVES = "lid, the far end (topology comes from ibnetdiscover), what a degraded link could be"

NODE = re.compile(r"(CA|Switch|RT|Router): (?:(0x[0-9a-fA-F]{1,16}) )?(.{0,64}?):$")
LINK = re.compile(
    r"(?P<port>\d{1,4})\s?\[[ \w]{0,8}\]\s*==\(\s*(?:(?P<width>\d{1,2})X\s+(?P<lane>[\d.]{1,10})\s+Gbps)?"
    r"\s*(?P<state>[A-Za-z]{2,12})/\s*(?P<physical>[A-Za-z]{2,32})\s*\)==>"
)
LINE = re.compile(r'^(0x[0-9a-fA-F]{1,16})\s+"(.{0,80}?)"\s+\d{1,5}\s+(?=\d)')


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return LINK.search(text) is not None and "Errors for " not in text


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """One row per port at received_at. Rejects: lines of no known kind, ports before any device. Raises Unreadable when
    no line shows a port.
    """
    lines = payload.text(data, surroundings, NAME).split("\n")
    rows = Rows.of("fabric_port", surroundings)
    rejects: list[Reject] = []
    device: str | None = None
    for at, line in enumerate(lines, 1):
        text = line.strip()
        node, link, alone = NODE.match(text), LINK.search(text), LINE.match(text)
        if node:
            device = device_of(node[3], node[2] or "", switch=node[1] == "Switch")
        elif link and (alone or device):
            # -l names the guid's device by its description, which does not say its kind: spaces are of an HCA.
            own = device_of(alone[2], alone[1], switch=" " not in alone[2].strip()) if alone else device
            take_link(rows, rows.row(own, int(link["port"])), link, at)
        elif text.startswith("0x") and device is None and re.fullmatch(r"0x[0-9a-fA-F]{1,16}:?", text):
            device = device_of("", text.rstrip(":"), switch=False)
        elif text and not re.fullmatch(r"0x[0-9a-fA-F]{1,16}:?", text):
            reason = f"line {at}: no line as iblinkinfo prints it"
            rejects.append(Reject(rule="line|unknown", reason=reason, place=at, raw=line.encode()))
    if not rows.rows:
        raise Unreadable(f"{NAME}: no line shows a port in {len(lines)} line(s)")
    return decoded([rows], rejects)


def take_link(rows: Rows, row: dict[str, object], link: re.Match[str], at: int) -> None:
    """State, rate and width from what stands between ==( and )==>. A dead port has a state only."""
    state = LOGICAL_STATES.get(link["state"].lower())
    physical = PHYSICAL_STATES.get(link["physical"].lower())
    rows.word(row, "state", state)
    rows.word(row, "physical_state", physical)
    for column, word, known in (("state", link["state"], state), ("physical_state", link["physical"], physical)):
        if known is None:
            rows.refuse(column, "type", word, at)
    rows.shown.update(("rate_gigabits_per_second", "width_lanes"))
    if link["width"] is None or state == "down":
        return
    rows.number(row, "width_lanes", link["width"], place=at)
    lane = number_of(link["lane"])
    quoted = None if lane is None else LANE_GIGABITS.get(float(lane))
    if quoted is None:
        rows.refuse("rate_gigabits_per_second", "type", link["lane"], at)
    else:
        rows.number(row, "rate_gigabits_per_second", quoted * int(link["width"]), place=at)
