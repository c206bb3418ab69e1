import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from schemas.admission import admit
from schemas.columns import UTC_MICROSECONDS
from schemas.formats.decoded import Surroundings, Unreadable
from schemas.formats.wire import decode, decode_json, encode_json
from schemas.tables import TABLE_BY_NAME

GPU = TABLE_BY_NAME["gpu"]
JOB_EVENT = TABLE_BY_NAME["job_event"]
NOON = datetime(2026, 7, 14, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS = int(NOON.timestamp() * 1e6)
GOOD = json.dumps({"time": MICROSECONDS, "node": "n00012", "gpu": 3, "power_watts": 640}).encode()


def message(**columns: object) -> bytes:
    return json.dumps(columns).encode()


def test_a_scalar_message_is_one_row() -> None:
    frame, rejects = decode_json([GOOD], GPU)
    assert rejects == []
    assert frame.select("time", "node", "gpu", "power_watts").row(0) == (NOON, "n00012", 3, 640.0)


def test_lists_are_rows_and_scalars_broadcast() -> None:
    node = message(time="2026-07-14T12:00:00Z", node="n00012", gpu=[0, 1, 2], power_watts=[1, 2.5, None])
    frame, rejects = decode_json([node], GPU)
    assert rejects == []
    assert frame.select("node", "gpu", "power_watts").rows() == [
        ("n00012", 0, 1.0),
        ("n00012", 1, 2.5),
        ("n00012", 2, None),
    ]
    assert frame["time"].to_list() == [NOON] * 3


def test_superblocks_nodes_and_single_gpus_mix_in_one_batch_and_keep_their_order() -> None:
    nodes = message(time=MICROSECONDS, node=["a", "b"], gpu=[0, 0])
    frame, rejects = decode_json([nodes, GOOD, nodes, message(time=[MICROSECONDS], node=["c"], gpu=7)], GPU)
    assert rejects == []
    assert frame["node"].to_list() == ["a", "b", "n00012", "a", "b", "c"]


def test_a_time_may_carry_an_offset() -> None:
    frame, _ = decode_json([message(time="2026-07-14T14:00:00.000001+02:00", node="a", gpu=0)], GPU)
    assert [NOON + timedelta(microseconds=1)] == frame["time"].to_list()


def test_the_frame_has_all_columns_of_the_table() -> None:
    frame, _ = decode_json([GOOD], GPU)
    assert GPU.columns == frame.schema


def test_unknown_columns_come_along_for_the_door_to_count() -> None:
    frame, rejects = decode_json([message(time=MICROSECONDS, node="a", gpu=0, colour="red")], GPU)
    assert rejects == []
    assert admit(GPU, frame).ignored == {"colour": 1}


def test_unknown_columns_are_bounded() -> None:
    flood = [message(time=MICROSECONDS, node="a", gpu=0, **{f"x{i}_{j}": 1 for j in range(10)}) for i in range(50)]
    frame, _ = decode_json(flood, GPU)
    assert frame.width <= len(GPU.columns) + 64
    assert frame.height == 50


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (b"", "message|json"),
        (b'{"time":', "message|json"),
        (b'{"time":NaN,"node":"a","gpu":0}', "message|json"),
        (b'{"time":1,"node":"a","gpu":0,"power_watts":Infinity}', "message|json"),
        (b'{"time":1,"node":"\xff\xfe","gpu":0}', "message|json"),
        (b'{"x":' + b"[" * 100_000, "message|json"),
        (b'{"time":1,"node":"a","gpu":0,"power_watts":1e400}', "message|json"),
        (b"[1,2]", "message|object"),
        (b"null", "message|object"),
        (b"{}", "message|object"),
        (message(time=1, node="a", gpu=[0, 1], power_watts=[1]), "message|lengths"),
        (message(time="yesterday", node="a", gpu=0), "time|type"),
        (message(time="2026-07-14T12:00:00", node="a", gpu=0), "time|type"),
        (message(time=2**63 - 1, node="a", gpu=0), "time|type"),
        (message(time=1.5, node="a", gpu=0), "time|type"),
        (message(time=1, node=5, gpu=0), "node|type"),
        (message(time=1, node="a", gpu=10**30), "gpu|type"),
        (b'{"time":1,"node":"a","gpu":' + b"9" * 6000 + b"}", "message|json"),
        (message(time=1, node="a", gpu=True), "gpu|type"),
        (message(time=1, node="a", gpu=[[1]]), "gpu|type"),
        (message(time=1, node="a", gpu=0, power_watts="ERR!"), "power_watts|type"),
        (message(time=1, node="a", gpu=0, row_remap_failure=1), "row_remap_failure|type"),
    ],
)
def test_a_bad_message_costs_only_itself(bad: bytes, rule: str) -> None:
    frame, rejects = decode_json([GOOD, bad, GOOD], GPU)
    assert frame["node"].to_list() == ["n00012", "n00012"]
    assert [(1, rule)] == [(index, reject.rule) for index, reject in rejects]
    assert rejects[0][1].raw == bad
    assert "\n" not in rejects[0][1].reason


def test_a_bad_value_costs_only_its_row() -> None:
    frame, rejects = decode_json([message(time=MICROSECONDS, node="a", gpu=[0, 1], power_watts=[1, "ERR!"])], GPU)
    assert frame["gpu"].to_list() == [0]
    assert [reject.rule for _, reject in rejects] == ["power_watts|type"]


def test_an_oversized_message_is_refused_whole() -> None:
    _, rejects = decode_json([GOOD], GPU, bytes_maximum=10)
    assert [reject.rule for _, reject in rejects] == ["message|size"]


def test_a_key_that_looks_like_our_own_bookkeeping_is_only_unknown() -> None:
    frame, rejects = decode_json([message(time=MICROSECONDS, node="a", gpu=0, __message=7)], GPU)
    assert (frame.height, rejects) == (1, [])


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (["n1/0", "n1/1"], [["n1/0", "n1/1"]]),
        ([], [[]]),
        (None, [None]),
        ([["n1/0"], None], [["n1/0"], None]),
    ],
)
def test_a_list_column_holds_one_rows_value_or_one_list_per_row(members: object, expected: list[object]) -> None:
    frame, rejects = decode_json([message(time=MICROSECONDS, job="j", kind="start", members=members)], JOB_EVENT)
    assert rejects == []
    assert expected == frame["members"].to_list()


@pytest.mark.parametrize("members", ["n1/0", [1, 2], [[["n1/0"]]]])
def test_a_list_column_of_another_kind_is_a_reject(members: object) -> None:
    frame, rejects = decode_json([message(time=MICROSECONDS, job="j", kind="start", members=members)], JOB_EVENT)
    assert (frame.height, [reject.rule for _, reject in rejects]) == (0, ["members|type"])


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "time": st.integers(0, 7_258_118_400_000_000).map(lambda since: EPOCH + timedelta(microseconds=since)),
            "node": st.sampled_from(["n00001", "n00002", 'quote"d', "ünï"]),
            "gpu": st.integers(0, 63),
            "uuid": st.none() | st.text(max_size=8),
            "power_watts": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "memory_used_bytes": st.none() | st.integers(-(2**63), 2**63 - 1),
            "row_remap_failure": st.none() | st.booleans(),
        }
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.sampled_from([(), ("time", "node"), ("node",)]))
def test_what_is_encoded_is_decoded(rows: list[dict[str, object]], group_by: tuple[str, ...]) -> None:
    frame = pl.DataFrame(
        rows,
        schema={
            name: GPU.columns[name]
            for name in ("time", "node", "gpu", "uuid", "power_watts", "memory_used_bytes", "row_remap_failure")
        },
    )
    decoded, rejects = decode_json(encode_json(frame, GPU, group_by), GPU)
    assert rejects == []
    wanted = frame.with_columns(
        pl.lit(None, dtype).alias(name) for name, dtype in GPU.columns.items() if name not in frame.columns
    )
    assert_frame_equal(wanted.select(*GPU.columns), decoded, check_row_order=False, check_exact=True)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.none() | st.lists(st.text(max_size=5), max_size=4), min_size=1, max_size=5),
    st.sampled_from([(), ("job",)]),
)
def test_list_columns_survive_the_round_trip(members: list[list[str] | None], group_by: tuple[str, ...]) -> None:
    frame = pl.DataFrame(
        {"time": [NOON] * len(members), "job": "j", "kind": "start", "members": members},
        schema_overrides={"time": UTC_MICROSECONDS, "members": pl.List(pl.String)},
    )
    decoded, rejects = decode_json(encode_json(frame, JOB_EVENT, group_by), JOB_EVENT)
    assert rejects == []
    assert members == decoded["members"].to_list()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.binary(max_size=40)
        | st.dictionaries(st.sampled_from([*GPU.columns, "extra"]), JSON, max_size=5).map(
            lambda tree: json.dumps(tree).encode()
        ),
        max_size=5,
    )
)
def test_no_message_makes_it_fail(messages: list[bytes]) -> None:
    frame, rejects = decode_json([GOOD, *messages], GPU)
    assert frame.height >= 1
    assert all(0 <= index <= len(messages) for index, _ in rejects)
    admit(GPU, frame)


def test_a_file_of_messages_names_the_line_of_a_bad_one() -> None:
    decoded = decode(GOOD + b"\n\n{oops\n" + GOOD + b"\n", Surroundings(), table=GPU)
    assert decoded.tables["gpu"].height == 2
    assert decoded.rejects["offset"].to_list() == [3]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"hello", b"\x00\x01\x02"])
def test_a_file_that_is_no_json_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable, match="wire JSON"):
        decode(data, Surroundings(), table=GPU)
