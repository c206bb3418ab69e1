"""ibswinfo's text: recognised, and told. Temperature, fans and power supplies of an unmanaged switch fit no table, so
no row is made; what it says goes to quarantine in one line, and each fault it reports in one of its own, so that doctor
shows it.
"""

import re

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.fabric_identity import guid
from schemas.formats.fabric_readings import number_of

NAME = "ibswinfo"
VERSIONS = "ibswinfo"
LEAVES = "all of it: temperature, fans and power supplies of a switch fit no table"

PAIR = re.compile(r"^(\S.{0,40}?|\s{2,8}\S.{0,40}?)\s*\| ?(.{0,120})$")
STATUS = re.compile(r"(status|DC power)$")
MEASURED = re.compile(r"\((C|rpm|W)\)$")


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    text = payload.head_text(head)
    return re.search(r"^part number +\| ", text, re.MULTILINE) is not None and "firmware version" in text


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """No rows. Raises Unreadable when no line is a name and a value."""
    lines = payload.text(data, surroundings, NAME).split("\n")
    pairs = [(at, found) for at, line in enumerate(lines, 1) if (found := PAIR.match(line.rstrip()))]
    if not pairs:
        raise Unreadable(f"{NAME}: no line is a name and a value")
    values = {found[1].strip(): found[2].strip() for _, found in pairs}
    device = guid(values.get("GUID", "")) or surroundings.node
    measured = [f"{name} {value}" for name, value in values.items() if MEASURED.search(name) and number_of(value)]
    told = f"{device}: {len(pairs)} value(s) fit no table and are not kept: {', '.join(measured[:4])}"
    rejects = [Reject(rule="ibswinfo|no_table", reason=told, raw=data)]
    part = ""
    for at, found in pairs:
        name, value = found[1].strip(), found[2].strip()
        part = name.split(" ")[0] if name.startswith("PSU") else part if found[1].startswith(" ") else ""
        whole = f"{part} {name}".strip() if not name.startswith("PSU") else name
        if STATUS.search(name) and value != "OK":
            reason = f"line {at}: {device}: {whole} is {value or 'not told'}"
            rejects.append(Reject(rule="ibswinfo|fault", reason=reason, place=at, raw=lines[at - 1].encode()))
        elif MEASURED.search(name) and number_of(value) is None:
            reason = f"line {at}: {device}: {whole} is no number: {value!r}"
            rejects.append(Reject(rule="ibswinfo|value", reason=reason, place=at, raw=lines[at - 1].encode()))
    return Decoded(rejects=rejects_frame(rejects))
