"""Modbus registers to any table, by a map that the settings give: there is no register map two vendors share.

A poller sends what it read, as JSON (`{"unit": "cdu-07", "time": ..., "registers": {"40001": 215, ...}}`, one object,
a list, or one a line) or as CSV with the columns unit, time, address and value. Registers are 16 bits; a quantity is
one or two of them, or four. Which numbers mean "no reading" is said by the map too: 0x8000 and 0xFFFF are usual, but
0xFFFF is also -1.
"""

import csv
import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from schemas.formats import payload
from schemas.formats.decoded import Decoded, Reject, Surroundings, Unreadable, rejects_frame
from schemas.formats.json_values import Readings, documents, microseconds, since_epoch
from schemas.formats.units import conversion
from schemas.tables import TABLE_BY_NAME

NAME = "Modbus registers"
WordOrder = Literal["big", "little"]
Encoding = Literal["uint16", "int16", "uint32", "int32", "float32", "uint64", "int64", "float64"]
WORDS: Mapping[str, tuple[int, str]] = {
    "uint16": (1, ">H"), "int16": (1, ">h"), "uint32": (2, ">I"), "int32": (2, ">i"), "float32": (2, ">f"),
    "uint64": (4, ">Q"), "int64": (4, ">q"), "float64": (4, ">d"),
}  # fmt: skip
REGISTER_MAXIMUM = 0xFFFF
ADDRESS_MAXIMUM = 499_999  # six digits, the first of which says which kind of register


@dataclass(frozen=True, kw_only=True)
class Register:
    """One quantity: reading = number * scale + offset, then from `unit` to the column's own.

    address: as the poller writes it. word_order: big has the high word at the lower address (ABCD), little the low one
    (CDAB). byte_swap: the bytes within each word are turned too (BADC, DCBA). invalid: numbers, as unsigned words put
    together in word order, that say there is no reading.
    """

    column: str
    address: int
    encoding: Encoding = "uint16"
    scale: float = 1.0
    offset: float = 0.0
    unit: str | None = None
    word_order: WordOrder = "big"
    byte_swap: bool = False
    invalid: tuple[int, ...] = (0x8000, 0xFFFF)


@dataclass(frozen=True, kw_only=True)
class RegisterMap:
    """table: whose rows the registers are. source: the column that the poller's unit goes into, such as cdu.
    constants: columns that no register says, such as the pump a unit is.
    """

    table: str
    source: str
    registers: tuple[Register, ...]
    constants: Mapping[str, str | int] | None = None


def decode_registers(
    register_map: RegisterMap, registers: Mapping[int, int], readings: Readings, place: int
) -> dict[str, float | None]:
    """Column -> reading in the table's unit. A column whose registers were not read is not there; one that says
    "invalid", is no number or is out of the column's range is null, and counted in `readings`.
    """
    row: dict[str, float | None] = {}
    for register in register_map.registers:
        count, code = WORDS[register.encoding]
        words = [registers.get(register.address + at) for at in range(count)]
        known = [word for word in words if word is not None]
        if len(known) < count:
            continue
        row[register.column] = _reading(register_map.table, register, known, code, readings, place)
    return row


def decode(data: bytes, surroundings: Surroundings, *, register_map: RegisterMap) -> Decoded:
    """Rows of the map's table, one per message (or unit and time of CSV). Rejects: messages that are none, one by one;
    invalid readings counted by column. Raises Unreadable when no message has registers.
    """
    rejects: list[Reject] = []
    readings = Readings()
    rows: list[dict[str, Any]] = []
    messages = _csv(data, surroundings, rejects) if _is_csv(data) else _json(data, surroundings, rejects)
    for place, unit, stamp, registers in messages:
        time = since_epoch(surroundings.received_at)
        if stamp is not None:
            told = microseconds(stamp, surroundings.utc_offset_minutes)
            if told is None:
                reason = f"message {place}: cannot read time {str(stamp)[:80]!r}"
                rejects.append(Reject(rule="time|type", reason=reason, place=place))
                continue
            time = told
        row: dict[str, Any] = decode_registers(register_map, registers, readings, place)
        if not row:
            reason = f"message {place}: none of the registers that the map names"
            rejects.append(Reject(rule="message|registers", reason=reason, place=place))
            continue
        rows.append({"time": time, register_map.source: unit} | dict(register_map.constants or {}) | row)
    if not rows and not rejects:
        raise Unreadable(f"{NAME}: no message with registers")
    rejects += readings.rejects("message")
    return Decoded(tables=_frame(register_map, rows), rejects=rejects_frame(rejects, register_map.table))


def _reading(  # noqa: PLR0913, PLR0917  a register, what it holds and where that is counted
    table: str, register: Register, words: list[int], code: str, readings: Readings, place: int
) -> float | None:
    ordered = words if register.word_order == "big" else words[::-1]
    raw = b"".join(word.to_bytes(2, "little" if register.byte_swap else "big") for word in ordered)
    if int.from_bytes(raw, "big") in register.invalid:
        readings.lose(register.column, "invalid", f"0x{raw.hex()}", place)
        return None
    number = readings.number(register.column, struct.unpack(code, raw)[0], place)
    if number is None:
        return None
    column = TABLE_BY_NAME[table].schema.columns()[register.column]
    value = number * register.scale + register.offset
    if register.unit is not None:
        found = conversion(register.unit, (column.metadata or {})["unit"])
        if found is None:
            readings.lose(register.column, "unit", register.unit, place)
            return None
        value = found.of(value)
    low, high = getattr(column, "min", None), getattr(column, "max", None)
    if (low is not None and value < low) or (high is not None and value > high):
        readings.lose(register.column, "range", value, place)
        return None
    return value


def _json(
    data: bytes, surroundings: Surroundings, rejects: list[Reject]
) -> Iterator[tuple[int, str, Any, dict[int, int]]]:
    for at, item in documents(data, surroundings, NAME, rejects):
        registers = item.get("registers") if isinstance(item, dict) else None
        if not isinstance(registers, dict):
            rejects.append(Reject(rule="message|registers", reason=f"message {at}: no registers", place=at))
            continue
        unit = item.get("unit")
        unit = surroundings.node if unit is None or isinstance(unit, bool | dict | list) else str(unit)[:200]
        words = {_whole(address, ADDRESS_MAXIMUM): _whole(word) for address, word in registers.items()}
        bad = [address for address, word in words.items() if address is None or word is None]
        if bad:
            reason = f"message {at}: {len(bad)} register(s) whose address or value is no 16-bit number"
            rejects.append(Reject(rule="register|type", reason=reason, place=at))
        good = {address: word for address, word in words.items() if address is not None and word is not None}
        yield at, unit, item.get("time", item.get("timestamp")), good


def _is_csv(data: bytes) -> bool:
    return data.removeprefix(payload.UTF8_MARK).lstrip()[:1] not in {b"{", b"["}


def _csv(
    data: bytes, surroundings: Surroundings, rejects: list[Reject]
) -> Iterator[tuple[int, str, Any, dict[int, int]]]:
    text = payload.text(data, surroundings, NAME)
    reader = csv.reader(io.StringIO(text))
    messages: dict[tuple[str, str], tuple[int, dict[int, int]]] = {}
    try:
        heading = [name.strip().lower() for name in next(reader, [])]
        if not {"address", "value"} <= set(heading):
            raise Unreadable(f"{NAME}: line 1 must name address and value, and may name unit and time")
        for cells in reader:
            if not cells:
                continue
            row = dict(zip(heading, cells, strict=False))
            address, word = _whole(row.get("address", ""), ADDRESS_MAXIMUM), _whole(row.get("value", ""))
            if address is None or word is None:
                reason = f"line {reader.line_num}: address or value is no 16-bit number"
                rejects.append(Reject(rule="register|type", reason=reason, place=reader.line_num))
                continue
            key = (row.get("unit", "") or surroundings.node, row.get("time", ""))
            messages.setdefault(key, (reader.line_num, {}))[1][address] = word
    except csv.Error as error:
        raise Unreadable(f"{NAME}: line {reader.line_num}: {error}") from None
    for (unit, stamp), (line, registers) in messages.items():
        yield line, unit, stamp or None, registers


def _whole(value: Any, maximum: int = REGISTER_MAXIMUM) -> int | None:
    """A word or an address: decimal or 0x hexadecimal text, or a number. -1 is the word 0xFFFF."""
    if isinstance(value, str):
        text = value.strip()
        digits = text.removeprefix("-").lower()
        try:
            value = int(text, 16) if digits.startswith("0x") and len(digits) <= 10 else int(text[:12])
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int) or not -0x8000 <= value <= maximum:
        return None
    return value & REGISTER_MAXIMUM if value < 0 else value


def _frame(register_map: RegisterMap, rows: list[dict[str, Any]]) -> dict[str, pl.DataFrame]:
    if not rows:
        return {}
    table = TABLE_BY_NAME[register_map.table]
    names = [name for name in table.columns if any(name in row for row in rows)]
    for row in rows:
        for name in names:
            if isinstance(row.get(name), float) and table.columns[name] == pl.Int64:
                row[name] = round(row[name])
    schema = {name: table.columns[name] for name in names} | {table.time: pl.Int64()}
    frame = pl.DataFrame(rows, schema=schema, strict=False)
    return {table.name: frame.with_columns(pl.col(table.time).cast(table.columns[table.time]))}
