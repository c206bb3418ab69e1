from datetime import UTC, datetime
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from schemas.identity import Identities, alias_table, canonical_alias, guid_of, resolve
from schemas.tables import TABLE_BY_NAME

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALIASES = alias_table([
    ("host", "dgx-7.example.com", "n00012"),
    ("device", "mf0;rack7", "leaf-017"),
    ("guid", "0x2c903006e29b0", "n00012/hca3"),
    ("uuid", "GPU-11112222-0000", "n00012/5"),
    ("pci", "n0* 0000:9b:00", "*/6"),
    ("pci", "n00013 0000:9b:00", "n00013/2"),
])  # fmt: skip
IDENTITIES = Identities(
    ALIASES, frozenset({"n00012", "n00013"}), frozenset({"leaf-017", "n00012/hca3"}), ("cluster.example.com",)
)


def rows(table: str, *values: dict) -> pl.DataFrame:
    filled = [{"time": NOON, **value} for value in values]
    return pl.DataFrame(filled, schema=TABLE_BY_NAME[table].columns, orient="row")


def resolved(table: str, *values: dict, column: str) -> list:
    return resolve({table: rows(table, *values)}, IDENTITIES).tables[table][column].to_list()


@pytest.mark.parametrize(
    "text",
    ["0x2c903006e29b0", "0x0002c903006e29b0", "0002C903006E29B0", "H-0002c903006e29b0", "0002:c903:006e:29b0"],
)
def test_a_guid_with_and_without_zeros_is_one(text: str) -> None:
    assert guid_of(text) == "0x0002c903006e29b0"


@pytest.mark.parametrize("text", ["leaf-017", "cafe", "n00012/hca3", "", "0x", "0x" + "1" * 17])
def test_a_name_is_no_guid(text: str) -> None:
    assert guid_of(text) is None


@pytest.mark.parametrize(
    "text", ["n1 0000:9b:00", "n1 00000000:9B:00.0", "n1 0000:9B:00", "n1 PCI:0000:9b:00", "n1 0000:9b:00.0"]
)
def test_a_pci_address_in_five_spellings_is_one(text: str) -> None:
    assert canonical_alias("pci", text) == "n1 0000:9b:00"


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("n00012", "n00012"), ("N00012", "n00012"), ("n00012 ", "n00012"), ("n00012.cluster.example.com", "n00012"),
        ("n00012.local", "n00012"), ("DGX-7.example.com.", "n00012"), ("n99.cluster.example.com", "n99"),
        ("elsewhere", "elsewhere"), ("10.1.2.3", "10.1.2.3"),
    ],
)  # fmt: skip
def test_a_host_has_one_name(name: str, node: str) -> None:
    assert resolved("heartbeat", {"node": name, "gpu": 0, "job": "j", "rank": 0}, column="node") == [node]


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("leaf-017", "leaf-017"), ("MF0;rack7", "leaf-017"), ("leaf-017.cluster.example.com", "leaf-017"),
        ("0x0002c903006e29b0", "n00012/hca3"), ("n00012.cluster.example.com/hca3", "n00012/hca3"),
        ("0xabcdef", "0x0000000000abcdef"), ("leaf-999", "leaf-999"),
    ],
)  # fmt: skip
def test_a_device_has_one_name(name: str, device: str) -> None:
    assert resolved("fabric_port", {"device": name, "port": 1}, column="device") == [device]


def event(node: str, pci: str | None, **more) -> dict:
    return {"node": node, "pci": pci, "kind": "xid", "code": 79, **more}


def test_an_event_with_an_address_gets_its_slot() -> None:
    given = [event("n00012", "00000000:9B:00.0"), event("n00013", "0000:9b:00"), event("n00012", "0000:9b:00", gpu=1)]
    assert resolved("gpu_event", *given, column="gpu") == [6, 2, 1]
    assert resolved("gpu_event", *given, column="pci") == ["0000:9b:00"] * 3


def test_the_address_of_a_switch_is_no_gpus() -> None:
    assert resolved("gpu_event", event("n00012", "0000:9b:00", kind="sxid"), column="gpu") == [None]


def test_a_uuid_tells_where_a_row_of_an_unknown_host_belongs_and_a_known_host_is_believed() -> None:
    frame = resolve(
        {"gpu": rows("gpu", {"node": "pod-xyz", "gpu": 0, "uuid": "GPU-11112222-0000"},
                     {"node": "n00013", "gpu": 0, "uuid": "GPU-11112222-0000"})},
        IDENTITIES,
    ).tables["gpu"]  # fmt: skip
    assert frame.select("node", "gpu").rows() == [("n00012", 5), ("n00013", 0)]


def test_what_cannot_be_resolved_is_kept_and_counted() -> None:
    answer = resolve(
        {"gpu_event": rows("gpu_event", event("x", "0000:01:00"), event("x", "0000:01:00")),
         "fabric_port": rows("fabric_port", {"device": "leaf-999", "port": 1}, {"device": "leaf-017", "port": 1})},
        IDENTITIES,
    )  # fmt: skip
    assert answer.tables["gpu_event"]["node"].to_list() == ["x", "x"]
    assert answer.unresolved.rows() == [
        ("gpu_event", "host", "x", 2), ("gpu_event", "pci", "x 0000:01:00", 2), ("fabric_port", "device", "leaf-999", 1)
    ]  # fmt: skip


def test_without_a_topology_no_name_is_unknown() -> None:
    assert resolve({"heartbeat": rows("heartbeat", {"node": "x"})}, Identities()).unresolved.is_empty()


def test_rows_that_carry_two_names_of_one_thing_are_learned_once() -> None:
    tables = {
        "gpu": rows("gpu", {"node": "n00013", "gpu": 1, "uuid": "GPU-ABCD1234"}),
        "gpu_event": rows("gpu_event", event("n00013", "0000:1b:00", gpu=1)),
    }
    first = resolve(tables, IDENTITIES)
    assert first.learned.rows() == [
        ("uuid", "gpu-abcd1234", "n00013/1"), ("pci", "n00013 0000:1b:00", "n00013/1")
    ]  # fmt: skip
    assert resolve(tables, IDENTITIES, first.learned).learned.is_empty()


def test_what_was_learned_is_not_applied_before_a_stream_begins_again() -> None:
    tables = {"gpu_event": rows("gpu_event", event("n00013", "0000:1b:00", gpu=1), event("n00013", "0000:1b:00"))}
    assert resolve(tables, IDENTITIES).tables["gpu_event"]["gpu"].to_list() == [1, None]


@pytest.mark.parametrize(("kind", "alias"), [("pci", "n1 bus 7"), ("guid", "leaf"), ("host", " "), ("mac", "x")])
def test_a_name_that_is_none_of_its_kind_is_refused(kind: str, alias: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        canonical_alias(kind, alias)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["n00012", "N00013.local", "x", "dgx-7.example.com"]),
            st.sampled_from([None, "0000:9b:00", "00000000:9B:00.0", "0000:01:00"]), st.sampled_from([None, 0, 1]),
        ),
        max_size=12,
    ),
    st.lists(st.integers(0, 12), max_size=3),
)  # fmt: skip
def test_any_cut_gives_the_same_names(values: list, cuts: list[int]) -> None:
    frame = rows("gpu_event", *(event(node, pci, gpu=gpu) for node, pci, gpu in values))
    bounds = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    parts = [resolve({"gpu_event": frame[a:b]}, IDENTITIES).tables["gpu_event"] for a, b in pairwise(bounds)]
    assert_frame_equal(pl.concat(parts), resolve({"gpu_event": frame}, IDENTITIES).tables["gpu_event"])


FACILITY = Identities(
    alias_table([("cdu", "bmc7/1", "cdu-07"), ("pdu", "Rack PDU 3", "pdu-003")]),
    facility={"cdu": frozenset({"cdu-07", "cdu-08"}), "pdu": frozenset({"pdu-003"})},
)


@pytest.mark.parametrize(
    ("kind", "name", "entity"),
    [("cdu", "bmc7/1", "cdu-07"), ("cdu", "bmc8/1", "bmc8/1"), ("cdu", "bmc8/cdu-08", "cdu-08"),
     ("cdu", "cdu-08", "cdu-08"), ("pdu", "host/rack pdu 3", "pdu-003")],
)  # fmt: skip
def test_a_facility_id_is_known_by_the_topology_or_an_alias_with_or_without_its_controller(kind, name, entity) -> None:
    assert FACILITY.facility_of(kind, name)[0] == entity


def test_a_facility_id_that_nobody_knows_is_kept_and_counted() -> None:
    given = rows("coolant_pump", {"cdu": "bmc8/1", "pump": "1"}, {"cdu": "bmc7/1", "pump": "1"})
    answer = resolve({"coolant_pump": given}, FACILITY)
    assert answer.tables["coolant_pump"]["cdu"].to_list() == ["bmc8/1", "cdu-07"]
    assert answer.unresolved.rows() == [("coolant_pump", "cdu", "bmc8/1", 1)]


def test_parts_of_a_loop_go_by_its_name() -> None:
    assert FACILITY.device("bmc7/1") == ("cdu-07", True)


def test_sensors_of_a_server_go_by_the_name_of_its_node() -> None:
    names = [{"device": name, "sensor": "fan 1"} for name in ("N00012.local", "0x2c903006e29b0", "leaf-017")]
    assert resolved("hardware_sensor", *names, column="device") == ["n00012", "n00012/hca3", "leaf-017"]
