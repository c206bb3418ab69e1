"""Sections `mapping` and `modbus` of the settings, and the formats of files and topics that they make.

[mapping.chiller]
table = "coolant_loop"
columns = { "Time" = "time", "T supply" = "supply_celsius", "Flow" = "flow_liters_per_minute" }
units = { supply_celsius = "F", flow_liters_per_minute = "gal/min" }
constants = { cdu = "cdu-07" }

[modbus.cdu]
table = "coolant_loop"
source = "cdu"
registers = [{ column = "supply_celsius", address = 10601, scale = 0.1, offset = -300.0 }]
"""

import difflib
from collections.abc import Mapping
from functools import partial
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.topics import Format
from schemas.formats import mapped_table, modbus
from schemas.formats.mapped_table import ColumnMapping
from schemas.formats.modbus import WORDS, Encoding, Register, RegisterMap
from schemas.formats.units import UNITS, conversion
from schemas.tables import TABLE_BY_NAME, Table

TOPIC_MARK = "mapping:"
"""In `topics`, what stands before the name of a mapping or of a register map: topic = "mapping:NAME"."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MappingSettings(_Section):
    """columns: theirs = ours. constants: ours = one value for all rows. units: ours = the unit they write. scale: ours
    = factor, taken before the unit. time_format: iso, unix_s, unix_ms, unix_us, unix_ns or a strptime pattern.
    separator: of CSV.
    """

    table: str
    columns: dict[str, str] = Field(min_length=1)
    constants: dict[str, str | int | float | bool] = Field(default_factory=dict)
    units: dict[str, str] = Field(default_factory=dict)
    scale: dict[str, float] = Field(default_factory=dict)
    time_format: str = "iso"
    separator: str = Field(default=",", min_length=1, max_length=1)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        table = _table(self.table)
        given = [*self.columns.values(), *self.constants]
        for column in (*given, *self.units, *self.scale):
            _column(table, column)
        twice = next((column for column in given if given.count(column) > 1), None)
        if twice is not None:
            raise ValueError(f"column {twice} of {self.table} is given twice")
        absent = [column for column in table.key if column not in given and not _nullable(table, column)]
        if absent:
            raise ValueError(f"nothing is mapped to {absent[0]}, which names the entity of a row of {self.table}")
        for column, unit in self.units.items():
            _unit(table, column, unit)
        return self

    def mapping(self) -> ColumnMapping:
        return ColumnMapping(**self.model_dump())


class RegisterSettings(_Section):
    """As schemas.formats.modbus.Register: reading = number * scale + offset, in `unit`."""

    column: str
    address: int = Field(ge=0, le=modbus.ADDRESS_MAXIMUM)
    encoding: Encoding = "uint16"
    scale: float = 1.0
    offset: float = 0.0
    unit: str | None = None
    word_order: modbus.WordOrder = "big"
    byte_swap: bool = False
    invalid: list[int] | None = Field(default=None, description="default: 0x8000 and 0xFFFF of 16 bits, and alike")


class ModbusSettings(_Section):
    """source: the column that the poller's unit goes into. constants: columns that no register says."""

    table: str
    source: str
    registers: list[RegisterSettings] = Field(min_length=1, max_length=10_000)
    constants: dict[str, str | int] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        table = _table(self.table)
        for column in (self.source, *self.constants):
            _column(table, column)
        for register in self.registers:
            _column(table, register.column)
            if not table.columns[register.column].is_numeric():
                raise ValueError(f"column {register.column} of {self.table} is no number")
            if register.unit is not None:
                _unit(table, register.column, register.unit)
        absent = [column for column in table.key if column not in (self.source, *self.constants)]
        if absent:
            raise ValueError(f"nothing is mapped to {absent[0]}, which names the entity of a row of {self.table}")
        return self

    def register_map(self) -> RegisterMap:
        registers = tuple(
            Register(**(register.model_dump() | {"invalid": _invalid(register)})) for register in self.registers
        )
        return RegisterMap(table=self.table, source=self.source, registers=registers, constants=self.constants)


def mapped_format(
    name: str, mappings: Mapping[str, MappingSettings], register_maps: Mapping[str, ModbusSettings]
) -> Format:
    """The format of this name. Raises ValueError, in one line, when neither section has it."""
    if name in mappings:
        mapping = mappings[name].mapping()
        return Format(f"{TOPIC_MARK}{name}", partial(mapped_table.decode, mapping=mapping), _never)
    if name in register_maps:
        register_map = register_maps[name].register_map()
        return Format(f"{TOPIC_MARK}{name}", partial(modbus.decode, register_map=register_map), _never)
    known = [*mappings, *register_maps]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"
    raise ValueError(f"no mapping.{name} and no modbus.{name} in the settings; {hint}")


def _never(head: bytes, name: str) -> bool:  # noqa: ARG001  every format answers to the same question
    """A mapping is chosen by a person, never by content."""
    return False


def _invalid(register: RegisterSettings) -> tuple[int, ...]:
    if register.invalid is not None:
        return tuple(register.invalid)
    bits = 16 * WORDS[register.encoding][0]
    return (1 << (bits - 1), (1 << bits) - 1)


def _table(name: str) -> Table:
    if name not in TABLE_BY_NAME:
        raise ValueError(f"no table {name!r}; tables: {', '.join(TABLE_BY_NAME)}")
    return TABLE_BY_NAME[name]


def _column(table: Table, name: str) -> None:
    if name not in table.columns:
        close = difflib.get_close_matches(name, list(table.columns), n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"columns: {', '.join(table.columns)}"
        raise ValueError(f"{table.name} has no column {name!r}; {hint}")


def _nullable(table: Table, name: str) -> bool:
    return table.schema.columns()[name].nullable


def _unit(table: Table, column: str, unit: str) -> None:
    wanted = (table.schema.columns()[column].metadata or {}).get("unit", "")
    if conversion(unit, wanted) is None:
        known = ", ".join(UNITS.get(wanted, {})) or "no other"
        raise ValueError(f"{unit!r} is no unit of {column} ({wanted}); known: {known}")
