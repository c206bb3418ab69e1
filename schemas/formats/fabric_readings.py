"""What the fabric's sources share: how a number is written, which words are no readings, and rows under way."""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime

import dataframely as dy
import polars as pl

from schemas.formats.decoded import Decoded, Reject, Surroundings, rejects_frame
from schemas.tables import TABLE_BY_NAME, Table

_BLANK = re.compile(
    r"|\[?n/?a\]?|n/a \(no pma\)|none|null|unknown|unspecified|nan|-+|<min|\[?not supported\]?|err!?|error|"
    r"\[unknown error\]",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"[+-]?\d{1,40}")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,4})?")
_HEX = re.compile(r"0x[0-9a-f]{1,16}", re.IGNORECASE)
_INT64_MAXIMUM = 2**63 - 1
NUMBER_MAXIMUM = 1e40
"""Beyond every unit; a JSON integer can have thousands of digits, which no float takes."""

DARK_DBM = -40.0
"""What modules and tools write for no light at all: 0.0001 mW, the least step of their register."""

# IBA PortCounters and PortRcvErrorDetails, as perfquery and ibqueryerrors write them: column and factor. Data counters
# are in words of 4 bytes (IBA volume 1, 16.1.3.5).
IBA_COUNTERS: dict[str, tuple[str, int]] = {
    "PortXmitData": ("transmit_bytes_total", 4),
    "PortRcvData": ("receive_bytes_total", 4),
    "PortXmitPkts": ("transmit_packets_total", 1),
    "PortRcvPkts": ("receive_packets_total", 1),
    "SymbolErrorCounter": ("symbol_error_total", 1),
    "LinkErrorRecoveryCounter": ("link_error_recovery_total", 1),
    "LinkDownedCounter": ("link_downed_total", 1),
    "PortRcvErrors": ("receive_error_total", 1),
    "PortRcvRemotePhysicalErrors": ("receive_remote_physical_error_total", 1),
    "PortRcvSwitchRelayErrors": ("receive_switch_relay_error_total", 1),
    "PortXmitDiscards": ("transmit_discard_total", 1),
    "PortXmitConstraintErrors": ("transmit_constraint_error_total", 1),
    "PortRcvConstraintErrors": ("receive_constraint_error_total", 1),
    "LocalLinkIntegrityErrors": ("local_link_integrity_error_total", 1),
    "ExcessiveBufferOverrunErrors": ("excessive_buffer_overrun_total", 1),
    "VL15Dropped": ("vl15_dropped_total", 1),
    "PortXmitWait": ("transmit_wait_total", 1),
    "PortLocalPhysicalErrors": ("receive_local_physical_error_total", 1),
    "PortMalformedPktErrors": ("receive_malformed_total", 1),
    "PortBufferOverrunErrors": ("receive_buffer_overrun_total", 1),
}

LOGICAL_STATES = {
    "active": "active", "active_defer": "active", "armed": "armed", "init": "init", "initialize": "init",
    "down": "down", "up": "active",
}  # fmt: skip
PHYSICAL_STATES = {
    "linkup": "link_up", "polling": "polling", "disabled": "disabled", "sleep": "sleep", "phytest": "test",
    "portconfigurationtraining": "training", "linkerrorrecovery": "error_recovery",
}  # fmt: skip

# Signalling rate of a lane -> data rate as it is quoted (SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR), Gb/s.
LANE_GIGABITS = {
    2.5: 2.5, 5.0: 5.0, 10.0: 10.0, 10.3125: 10.0, 14.0625: 14.0, 25.78125: 25.0, 26.5625: 25.0, 53.125: 50.0,
    106.25: 100.0, 212.5: 200.0,
}  # fmt: skip


_REFUSALS = {
    "blank": "not reported",
    "type": "no number or known word",
    "range": "outside the column's range",
    "repeated": "of a port and time that stand above",
    "unsupported": "that the port does not have",
    "dark": "of a link without light",
    "unnamed": "of no port that a name gives",
}


def number_of(raw: object) -> int | float | None:
    """A number as tools write it: 56,104 and 1.18e-12 and 0x1f alike. None for what is no finite number."""
    if isinstance(raw, bool) or raw is None:
        return None
    if isinstance(raw, int | float):
        return raw if isinstance(raw, int) or math.isfinite(raw) else None
    text = str(raw).strip()
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if _WHOLE.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _DECIMAL.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else None
    return None


def is_blank(raw: object) -> bool:
    """Whether a source says in words that it has no reading."""
    return raw is None or (isinstance(raw, str) and _BLANK.fullmatch(raw.strip()) is not None)


@dataclass
class _Refused:
    """Readings of one kind that could not be taken."""

    reason: str
    place: int | None
    raw: str
    count: int = 0


@dataclass
class Rows:
    """Rows of one table while a payload is read, by time and key; and what could not be taken, counted by kind.

    The first reading of a column of a row holds: one that stands again is a repetition, counted.
    """

    table: Table
    surroundings: Surroundings
    rows: dict[tuple[object, ...], dict[str, object]] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    refused: dict[str, _Refused] = field(default_factory=dict)
    columns: dict[str, dy.Column] = field(default_factory=dict)

    @classmethod
    def of(cls, table: str, surroundings: Surroundings) -> "Rows":
        known = TABLE_BY_NAME[table]
        return cls(known, surroundings, columns=known.schema.columns())

    def row(self, *key: object, time: datetime | None = None) -> dict[str, object]:
        """The row of this key (in the order of the table's key) and time, received_at where the source says none."""
        moment = time or self.surroundings.received_at
        whole = (moment, *key)
        if whole not in self.rows:
            self.rows[whole] = {self.table.time: moment, **dict(zip(self.table.key, key, strict=True))}
        return self.rows[whole]

    def word(self, row: dict[str, object], column: str, value: object) -> None:
        """A word, flag or list that is right as it is; None says only that the source has the column."""
        self.shown.add(column)
        if value is not None:
            row.setdefault(column, value)

    def number(
        self, row: dict[str, object], column: str, raw: object, *, factor: float = 1, place: int | None = None
    ) -> None:
        """A reading in the table's unit after `factor`. Blank, no number, not whole, out of range: null, counted."""
        self.shown.add(column)
        value = number_of(raw)
        if value is None:
            self.refuse(column, "blank" if is_blank(raw) else "type", raw, place)
            return
        if abs(value) > NUMBER_MAXIMUM:
            self.refuse(column, "range", raw, place)
            return
        scaled = value * factor
        wanted = self.columns[column]
        if wanted.dtype == pl.Int64:
            if scaled != int(scaled):
                self.refuse(column, "type", raw, place)
                return
            scaled = int(scaled)
            if abs(scaled) > _INT64_MAXIMUM:
                self.refuse(column, "range", raw, place)
                return
        minimum, maximum = getattr(wanted, "min", None), getattr(wanted, "max", None)
        if (minimum is not None and scaled < minimum) or (maximum is not None and scaled > maximum):
            self.refuse(column, "range", raw, place)
        elif column in row:
            self.refuse(column, "repeated", raw, place)
        else:
            row[column] = scaled if wanted.dtype == pl.Int64 else float(scaled)

    def refuse(self, column: str, kind: str, raw: object, place: int | None = None) -> None:
        """Count a reading that is not taken, of a kind in _REFUSALS; the first one is shown."""
        refused = self.refused.setdefault(f"{column}|{kind}", _Refused(_REFUSALS[kind], place, str(raw)[:200]))
        refused.count += 1

    def frame(self) -> pl.DataFrame:
        """Key, and the columns that the source has."""
        keys = (self.table.time, *self.table.key)
        schema = {name: dtype for name, dtype in self.table.columns.items() if name in keys or name in self.shown}
        return pl.DataFrame(list(self.rows.values()), schema=schema, orient="row")

    def rejects(self) -> list[Reject]:
        return [
            Reject(
                rule=rule,
                reason=f"{rule.partition('|')[0]}: {one.count} reading(s) {one.reason}, first {one.raw!r}",
                place=one.place,
                raw=one.raw.encode(),
            )
            for rule, one in self.refused.items()
        ]

    def missing(self) -> tuple[str, ...]:
        """Columns that this source does not show."""
        keys = (self.table.time, *self.table.key)
        return tuple(name for name in self.table.columns if name not in keys and name not in self.shown)


def decoded(parts: list[Rows], rejects: list[Reject], *, complete: bool = True) -> Decoded:
    """What was read, as one answer. complete: False for a source that leaves out what has not changed or is healthy,
    so that a column it does not show is not one it cannot show.
    """
    filled = [part for part in parts if part.rows]
    frames = [rejects_frame(part.rejects(), part.table.name) for part in parts]
    name = parts[0].table.name if len(parts) == 1 else None
    return Decoded(
        tables={part.table.name: part.frame() for part in filled},
        rejects=pl.concat([rejects_frame(rejects, name), *frames]),
        missing=tuple(column for part in filled for column in part.missing()) if complete else (),
    )
