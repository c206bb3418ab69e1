"""Messages that are written alike are read as each would be alone, whatever is broken in some of them."""

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from schemas.formats.wire import decode_json
from schemas.formats.wire_layout import MESSAGES_MINIMUM, MESSAGES_TOGETHER, lay_out, layout_of
from schemas.tables import TABLE_BY_NAME, Table

GPU, PORT = TABLE_BY_NAME["gpu"], TABLE_BY_NAME["fabric_port"]
NODE: dict[str, Any] = {
    "time": 1_772_442_000_000_000, "node": "n00012", "gpu": [0, 1], "uuid": ["GPU-f5", None],
    "power_watts": [640, 612.5], "memory_used_bytes": [71_572_077_477, None], "row_remap_failure": [False, None],
}  # fmt: skip
ROW: dict[str, Any] = {"time": "2026-07-14T12:00:00Z", "node": "n1", "gpu": 3, "uuid": None, "power_watts": 1e3}
SWITCH: dict[str, Any] = {"time": 1, "device": "leaf-001", "port": [1, 2], "fec_histogram": [[5, 0, 1], None]}
COMPACT = (",", ":")


def written(value: dict[str, Any], separators: tuple[str, str] | None = COMPACT) -> bytes:
    return json.dumps(value, separators=separators).encode()


def alone(messages: list[bytes], table: Table) -> tuple[pl.DataFrame, list[tuple[int, str, str, bytes]]]:
    read = {message: decode_json([message], table) for message in set(messages)}
    frames, rejects = [pl.DataFrame(schema=table.columns)], []
    for index, message in enumerate(messages):
        frame, refused = read[message]
        frames.append(frame.select(table.columns.names()))
        rejects += [(index, reject.rule, reject.reason, reject.raw) for _, reject in refused]
    return pl.concat(frames), rejects


def assert_as_alone(messages: list[bytes], table: Table) -> None:
    frame, refused = decode_json(messages, table)
    rows, rejects = alone(messages, table)
    assert_frame_equal(rows, frame.select(table.columns.names()), check_exact=True)
    assert rejects == [(index, reject.rule, reject.reason, reject.raw) for index, reject in refused]


@pytest.mark.parametrize("separators", [COMPACT, None])
@pytest.mark.parametrize(("value", "table"), [(NODE, GPU), (ROW, GPU), (SWITCH, PORT)])
def test_compact_and_spaced_messages_have_a_layout(
    value: dict[str, Any], table: Table, separators: tuple[str, str] | None
) -> None:
    messages = [written(value, separators)] * (MESSAGES_TOGETHER + 1)
    laid, left = lay_out(messages, list(range(len(messages))), table)
    assert [len(one.indices) for one in laid] == [len(messages)]
    assert left == []
    assert_as_alone(messages[:MESSAGES_MINIMUM], table)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"[1]", b"{}", b'{"time":1', b'{"time":1,"colour":2}', b'{"time":1,"time":2,"node":"a"}',
        b'{"node": "a","time":1}', b'{"time":1,"node":"a\\"b"}',
    ],
)  # fmt: skip
def test_what_is_written_in_its_own_way_has_none(message: bytes) -> None:
    assert layout_of(message, GPU) is None


def test_layouts_alternate_and_rows_keep_the_order_of_messages() -> None:
    first, second = written(NODE), written(ROW)
    messages = [first, b"no JSON", *[first, second, second] * 40, written({**ROW, "colour": 1})]
    assert_as_alone(messages, GPU)


BREAKS = (
    (b"]", b'"]'), (b'["', b"["), (b'"n00012"', b'"n0'), (b",1]", b"]"), (b"[0,1]", b"[]"), (b"640", b"01"),
    (b"640", b"640."), (b"640", b"NaN"), (b"640", b'"640"'), (b"640", b"1e400"), (b"640", b"[640]"), (b"640", b""),
    (b"640", b"640,7"), (b"false", b"0"), (b"612.5", b"612.5,"), (b"[0,1]", b"[0,1.5]"), (b"[0,1]", b"[0,1e0]"),
    (b"71572077477", b"99999999999999999999"), (b'"GPU-f5"', b'"GPU],f5"'), (b'"GPU-f5"', b'"\xff"'), (b"}", b"}}"),
    (b"}", b"}\n"), (b'"GPU-f5"', b'"a\\u0041\\"]"'), (b'"n00012"', b"null"), (b"1772442000000000", b"null"),
    (b"1772442000000000", b'"2026-07-14T12:00:00Z"'), (b"1772442000000000", b"17.5"), (b"1772442000000000", b"-1"),
    (b"[false,null]", b"null"), (b"[0,1]", b"7"),
)  # fmt: skip


@pytest.mark.parametrize("broken", BREAKS)
def test_a_message_broken_in_one_place_costs_what_it_costs_alone(broken: tuple[bytes, bytes]) -> None:
    good = written(NODE)
    bad = good.replace(*broken, 1)
    assert bad != good
    assert_as_alone([*[good] * MESSAGES_MINIMUM, bad, good, bad], GPU)


def test_what_one_message_leaves_open_is_not_closed_by_the_next() -> None:
    good = written(NODE)
    opens, closes = good.replace(b'"GPU-f5",null', b'"GPU'), good.replace(b'"GPU-f5",null', b'f5",null')
    longer, shorter = good.replace(b"[0,1]", b"[0,1,2]"), good.replace(b"[0,1]", b"[0]")
    messages = [*[good] * MESSAGES_MINIMUM, opens, closes, longer, shorter]
    assert_as_alone(messages, GPU)


def test_a_message_of_nothing_but_nulls_is_refused_among_others_too() -> None:
    nothing = written(dict.fromkeys(ROW))
    assert_as_alone([*[written(ROW)] * MESSAGES_MINIMUM, nothing, written({**ROW, "time": None})], GPU)


def test_a_list_of_blanks_alone_in_its_layout_is_read_as_alone() -> None:
    good, blank = b'{"time":1,"node":"n1","gpu":3}', b'{"time":1,"node":"n1","gpu":[ ]}'
    assert_as_alone([blank, *[good] * MESSAGES_MINIMUM], GPU)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([(NODE, GPU), (ROW, GPU), (SWITCH, PORT)]),
    st.lists(
        st.tuples(
            st.integers(0, 33),
            st.integers(0, 150),
            st.integers(0, 12),
            st.text('[]{}",:\\ 01.e-nulltrue\n', max_size=4) | st.just("]}"),
        ),
        max_size=6,
    ),
)
def test_any_damage_to_some_messages_is_read_as_alone(
    of: tuple[dict[str, Any], Table], damage: list[tuple[int, int, int, str]]
) -> None:
    value, table = of
    messages = [written(value)] * 34
    for index, at, size, instead in damage:
        message = messages[index]
        messages[index] = message[:at] + instead.encode() + message[at + size :]
    assert_as_alone(messages, table)
