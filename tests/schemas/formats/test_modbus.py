import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.admission import admit
from schemas.formats import modbus
from schemas.formats.decoded import Decoded, Surroundings, Unreadable
from schemas.formats.json_values import Readings
from schemas.formats.modbus import Register, RegisterMap, decode_registers
from schemas.tables import TABLE_BY_NAME

RECEIVED = datetime(2026, 8, 1, tzinfo=UTC)
SURROUNDINGS = Surroundings(node="cdu-99", received_at=RECEIVED)


def loop(*registers: Register) -> RegisterMap:
    return RegisterMap(table="coolant_loop", source="cdu", registers=registers)


def reading(register: Register, *words: int) -> float | None:
    registers = {register.address + at: word for at, word in enumerate(words)}
    return decode_registers(loop(register), registers, Readings(), 1).get(register.column)


SUPPLY = "supply_celsius"


@pytest.mark.parametrize(
    ("register", "words", "value"),
    [
        (Register(column=SUPPLY, address=1, scale=0.1), (215,), 21.5),
        # the write map of a Chinese CDU (R10601): step 0.1, 3000 stands for 0
        (Register(column=SUPPLY, address=10601, scale=0.1, offset=-300.0), (3250,), 25.0),
        (Register(column=SUPPLY, address=1, encoding="int16", scale=0.1), (0xFF9C,), -10.0),
        # 25.5 as IEEE 754 single: 0x41CC0000
        (Register(column=SUPPLY, address=1, encoding="float32"), (0x41CC, 0x0000), 25.5),
        (Register(column=SUPPLY, address=1, encoding="float32", word_order="little"), (0x0000, 0x41CC), 25.5),
        (Register(column=SUPPLY, address=1, encoding="float32", byte_swap=True), (0xCC41, 0x0000), 25.5),
        (Register(column=SUPPLY, address=1, encoding="int32", scale=0.001), (0xFFFF, 0xFC18), -1.0),
        (Register(column=SUPPLY, address=1, scale=0.1, unit="F"), (770,), 25.0),
    ],
)
def test_registers_in_every_encoding(register: Register, words: tuple[int, ...], value: float) -> None:
    assert reading(register, *words) == pytest.approx(value)


@pytest.mark.parametrize(
    ("register", "words", "rule"),
    [
        (Register(column=SUPPLY, address=1), (0x8000,), "invalid"),
        (Register(column=SUPPLY, address=1), (0xFFFF,), "invalid"),
        (Register(column=SUPPLY, address=1, scale=0.1), (60000,), "range"),
        (Register(column=SUPPLY, address=1, encoding="float32"), (0x7FC0, 0x0000), "type"),  # NaN
        (Register(column=SUPPLY, address=1, encoding="float32"), (0x7F80, 0x0000), "type"),  # infinity
    ],
)
def test_what_is_no_reading_is_null_and_counted(register: Register, words: tuple[int, ...], rule: str) -> None:
    readings = Readings()
    registers = {1 + at: word for at, word in enumerate(words)}
    assert decode_registers(loop(register), registers, readings, 1) == {SUPPLY: None}
    assert [reject.rule for reject in readings.rejects("message")] == [f"{SUPPLY}|{rule}"]


def test_minus_one_is_a_reading_where_the_map_says_so() -> None:
    assert reading(Register(column=SUPPLY, address=1, encoding="int16", invalid=()), 0xFFFF) == -1.0


def test_a_quantity_of_which_a_word_was_not_read_is_not_there() -> None:
    assert decode_registers(loop(Register(column=SUPPLY, address=1, encoding="float32")), {1: 1}, Readings(), 1) == {}


@given(st.integers(-32768, 32767), st.floats(0.001, 1), st.floats(-100, 100))
def test_a_signed_word_comes_back_scaled_or_null(number: int, scale: float, offset: float) -> None:
    register = Register(
        column="supply_pressure_kpa", address=7, encoding="int16", scale=scale, offset=offset, invalid=()
    )
    value, exact = reading(register, number & 0xFFFF), number * scale + offset
    assert value == (pytest.approx(exact) if -100 <= exact <= 5000 else None)


TWO = loop(Register(column=SUPPLY, address=40001, scale=0.1), Register(column="flow_liters_per_minute", address=40002))


def decoded(data: bytes) -> Decoded:
    return modbus.decode(data, SURROUNDINGS, register_map=TWO)


def rows(answer: Decoded) -> list[tuple[Any, ...]]:
    admitted = admit(TABLE_BY_NAME["coolant_loop"], answer.tables["coolant_loop"])
    assert (admitted.quarantined.height, admitted.ignored) == (0, {})
    return admitted.rows.select("time", "cdu", SUPPLY, "flow_liters_per_minute").rows()


def test_messages_of_a_poller() -> None:
    messages = [
        {"unit": "cdu-07", "time": "2026-07-31T12:00:00Z", "registers": {"40001": 215, "40002": "0x03E8"}},
        {"registers": {"40001": 0xFFFF, "9": 1}},
    ]
    answer = decoded("\n".join(map(json.dumps, messages)).encode())
    assert rows(answer) == [
        (datetime(2026, 7, 31, 12, tzinfo=UTC), "cdu-07", 21.5, 1000.0),
        (RECEIVED, "cdu-99", None, None),
    ]
    assert answer.rejects["rule"].to_list() == [f"{SUPPLY}|invalid"]


def test_csv_of_a_poller() -> None:
    noon = "cdu-07,2026-07-31T12:00:00Z"
    text = f"unit,time,address,value\n{noon},40001,215\n{noon},40002,1000\nx,,y,1\n"
    answer = decoded(text.encode())
    assert rows(answer) == [(datetime(2026, 7, 31, 12, tzinfo=UTC), "cdu-07", 21.5, 1000.0)]
    assert answer.rejects.select("rule", "offset").rows() == [("register|type", 4)]


@pytest.mark.parametrize(
    ("message", "rule"),
    [({"registers": {"40001": 70000, "40002": 1}}, "register|type"), ({"registers": {"1": 1}}, "message|registers"),
     ({"unit": "x"}, "message|registers"), ({"time": "soon", "registers": {"40001": 1}}, "time|type")],
)  # fmt: skip
def test_a_bad_message_costs_what_is_bad(message: dict[str, Any], rule: str) -> None:
    assert decoded(json.dumps(message).encode()).rejects["rule"].to_list() == [rule]


@pytest.mark.parametrize("data", [b"a,b\n1,2\n", b"{", b"[]"])
def test_what_is_no_poll_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        decoded(data)
