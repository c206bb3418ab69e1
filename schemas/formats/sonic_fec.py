"""SONiC's `show interfaces counters fec-stats`, a table in text, to fabric_port.

Traps (formats.md B7). Counts have thousands separators, cells that are not there say N/A, columns differ by release (so
the header names them), and a port that is down shows rates of 0.00e+00 that say nothing: null. The switch is the host
the text was taken on, or the one its prompt names.
"""

import re

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable
from schemas.formats.fabric_identity import interface_of
from schemas.formats.fabric_readings import Rows, decoded, number_of

NAME = "SONiC FEC statistics"
VERSIONS = "show interfaces counters fec-stats, with and without FEC_PRE_BER_MAX"
LEAVES = "FEC_PRE_BER_MAX (a peak since an unknown time)"

PROMPT = re.compile(r"\w+@([\w.-]{1,64}):\S*[$#] ")
COLUMNS = {
    "FEC_CORR": "fec_corrected_total",
    "FEC_UNCORR": "fec_uncorrected_total",
    "FEC_SYMBOL_ERR": "fec_symbol_error_total",
    "FEC_PRE_BER": "raw_bit_error_rate",
    "FEC_POST_BER": "effective_bit_error_rate",
}
STATES = {"U": "active", "D": "down", "X": "down"}  # up, down, switched off


def looks_like(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    return re.search(r"^\s*IFACE\s.*\bFEC_CORR\b", payload.head_text(head), re.MULTILINE) is not None


def decode(data: bytes, surroundings: Surroundings) -> Decoded:
    """One row per port at received_at. Rejects: lines that are no row of the table. Raises Unreadable without its
    header.
    """
    lines = payload.text(data, surroundings, NAME).split("\n")
    rows = Rows.of("fabric_port", surroundings)
    rejects: list[Reject] = []
    header: list[str] | None = None
    switch = surroundings.node
    for at, line in enumerate(lines, 1):
        words = line.split()
        prompt = PROMPT.match(line)
        if prompt and surroundings.node == "unknown":
            switch = prompt[1]
        if words[:1] == ["IFACE"] and "FEC_CORR" in words:
            header = words
        elif header is None or not words or set(line) <= set("- \r") or prompt:
            continue
        elif not _take(rows, header, words, switch, at):
            reason = f"line {at}: no row of an interface with {len(header)} columns"
            rejects.append(Reject(rule="line|row", reason=reason, place=at, raw=line.encode()))
    if header is None:
        raise Unreadable(f"{NAME}: no header with IFACE and FEC_CORR in {len(lines)} line(s)")
    return decoded([rows], rejects)


def _take(rows: Rows, header: list[str], words: list[str], switch: str, at: int) -> bool:
    place = interface_of(switch, words[0])
    if len(words) != len(header) or place is None:
        return False
    row = rows.row(*place)
    cells = dict(zip(header, words, strict=True))
    if "STATE" in cells:
        rows.word(row, "state", STATES.get(cells["STATE"]))
        if cells["STATE"] not in STATES:
            rows.refuse("state", "type", cells["STATE"], at)
    for name, column in COLUMNS.items():
        if name in cells:
            if column.endswith("_rate") and row.get("state") == "down" and number_of(cells[name]) == 0:
                rows.shown.add(column)
                rows.refuse(column, "dark", cells[name], at)
            else:
                rows.number(row, column, cells[name], place=at)
    return True
