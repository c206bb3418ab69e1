import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.formats.decoded import Unreadable
from schemas.formats.topology_csv import (
    decode_aliases,
    decode_links,
    decode_nodes,
    decode_topology,
    encode_aliases,
    encode_links,
    encode_nodes,
)
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS
from schemas.topology_presets import build


@pytest.mark.parametrize("preset", ["seed", "ndr-fat-tree", "meta-roce"])
def test_a_preset_survives_the_way_out_and_back(preset: str) -> None:
    topology = build(preset)
    again = decode_topology(preset, encode_nodes(topology.nodes), encode_links(topology.links))
    assert again.nodes.equals(topology.nodes)
    assert again.links.equals(topology.links)


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Z")), min_size=1, max_size=20)


@given(st.lists(st.tuples(names, st.none() | names), min_size=1, max_size=5))
def test_any_name_survives_quotes_and_commas(rows: list[tuple[str, str | None]]) -> None:
    nodes = pl.DataFrame(rows, schema={"node": pl.String, "rack": pl.String}, orient="row")
    full = nodes.select(nodes[c] if c in nodes.columns else pl.lit(None, d).alias(c) for c, d in NODE_COLUMNS.items())
    assert decode_nodes(encode_nodes(full)).equals(full)


def test_optional_columns_become_null_and_unknown_ones_are_left_out() -> None:
    nodes = decode_nodes("\ufeffnode, pdu ,serial\nn1,p1,X\nn2,,Y\n")
    assert nodes.schema == NODE_COLUMNS
    assert nodes.select("node", "pdu", "rack").rows() == [("n1", "p1", None), ("n2", None, None)]
    assert decode_links("cable,a,b\nc1,n1/hca0,sw\n").schema == LINK_COLUMNS


def test_files_saved_on_other_systems_are_read() -> None:
    assert decode_nodes(b'node,pdu\r\n"n1","p,1"\r\n')["pdu"].to_list() == ["p,1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cable,a\nc1,n1/hca0\n", "links.csv: column b is missing; it has cable, a"),
        ("cable,a,b,a_port\nc1,x,y,1\nc2,x,y,one\n", "links.csv line 3: a_port is 'one', but should be a whole number"),
        ("cable,a,b,a_port\nc1,x,y,1.5\n", "links.csv line 2: a_port is '1.5', but should be a whole number"),
        ("cable,a,b,length_meters\nc1,x,y,nan\n", "links.csv line 2: length_meters is 'nan', but should be a number"),
        ("cable,a,b\nc1,,y\n", "links.csv line 2: a is empty, but should be a name, and must be there"),
        ("cable,a,b,tier\nc1,x,y,top\n", "links.csv line 2: tier is 'top', but should be one of node-leaf"),
        ("cable,a,b\n" + "c" * 300 + ",x,y\n", "but should be at most 256 characters"),
        ("", "links.csv: empty"),
        ("cable,a,b\nc1,x,y,z\n", "links.csv: not CSV"),
        (b"cable,a,b\nc1,x\0,y\n", "links.csv: byte 14 is NUL"),
        (b"cable,a,b\nc1,\xff,y\n", "links.csv: byte 13 is not UTF-8"),
        ("cable,a,b,b\nc1,x,y,z\n", "links.csv: column b is there twice"),
    ],
)
def test_bad_text_is_refused_in_one_line(text: str | bytes, message: str) -> None:
    with pytest.raises(Unreadable) as refused:
        decode_links(text)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(Unreadable, match=r"nodes\.csv line 2: role is 'boss', but should be compute or spare"):
        decode_nodes("node,role\nn1,boss\n")


def test_aliases_survive_the_way_out_and_back_in_one_spelling() -> None:
    text = "kind,alias,entity\nguid,H-0002C903006E29B0,n1/hca0\ncdu,BMC7/1,cdu-07\n"
    aliases = decode_topology("t", "node\nn1\n", "cable,a,b\nc1,n1/hca0,sw\n", text).aliases
    assert aliases.rows() == [("guid", "0x0002c903006e29b0", "n1/hca0"), ("cdu", "bmc7/1", "cdu-07")]
    assert decode_aliases(encode_aliases(aliases)).equals(aliases)


def test_an_alias_that_is_none_is_refused() -> None:
    with pytest.raises(Unreadable, match=r"aliases.csv: 'xyz' is no guid"):
        decode_aliases("kind,alias,entity\nguid,xyz,n1/hca0\n")
