"""Against a real 400-switch fabric (counts by grep) and hand-made corners of the format."""

import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.formats.decoded import Surroundings, Unreadable
from schemas.formats.ibnetdiscover import decode
from schemas.identity import identities_from
from schemas.topology import ALIAS_COLUMNS
from schemas.topology_paths import neighbours, path
from schemas.topology_validation import check

CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus" / "switch"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus at {CORPUS}")

FULL = b"""
vendid=0x2c9
switchguid=0x10(10)
Switch\t40 "S-0000000000000010"\t\t# "MF0;leafA:MQM8700/U1" enhanced port 0 lid 3 lmc 0
[1]\t"H-00000000000000a1"[1](a1) \t\t# "host1 mlx5_0" lid 11 4xHDR
[2]\t"H-00000000000000a2"[1](a2) \t\t# "host1 mlx5_3" lid 12 4xHDR
[3]\t"H-00000000000000b1"[2](b2) \t\t# "host2 HCA-1" lid 13 2xHDR\x20\x20
[4]\t"S-0000000000000020"[7]\t\t# "MF0;dirB:MCS8500/L16/U2" lid 4 4xNDR
[41]\t"H-00000000000000f1"[1](f1) \t\t# "Mellanox Technologies Aggregation Node" lid 14 4xHDR

Ca\t1 "H-00000000000000f1"\t\t# "Mellanox Technologies Aggregation Node"
[1](f1) \t"S-0000000000000010"[41]\t\t# lid 14 lmc 0 "MF0;leafA:MQM8700/U1" lid 3 4xHDR

Ca\t2 "H-00000000000000b1"\t\t# "host2 HCA-1"
[1](b1) \t"S-0000000000000020"[9]\t\t# lid 15 lmc 0 "MF0;dirB:MCS8500/L16/U2" lid 4 4xEDR
[2](b2) \t"S-10"[3]\t\t# lid 13 lmc 0 "MF0;leafA:MQM8700/U1" lid 3 2xHDR
"""


@needs_corpus
def test_a_real_fabric_is_read_whole() -> None:
    payload = (CORPUS / "ibnetdiscover_director.txt").read_bytes()
    fabric = decode(payload)
    switches, adapters, ports = (
        len(re.findall(rule, payload, re.MULTILINE)) for rule in (rb"^Switch", rb"^Ca", rb"^\[\d+\]")
    )
    assert len(fabric.topology.switches) == switches == 400
    assert fabric.topology.links.height == ports / 2
    assert fabric.topology.links.filter(pl.col("tier") == "node-leaf")["a"].n_unique() == adapters == 2_328
    assert fabric.rejects.height == 0
    assert set(fabric.topology.ports_by_switch.values()) == {41}
    assert {contradiction.severity for contradiction in check(fabric.topology)} == {"note"}


@needs_corpus
def test_a_real_host_has_its_adapters_in_order_of_their_bus() -> None:
    """Ports 1 to 8 of the first switch in the file: ibp11s0f0, ibp21s0f0, ibp75s0f0, ..."""
    topology = decode((CORPUS / "ibnetdiscover_director.txt").read_bytes()).topology
    at = topology.ports.filter((pl.col("device") == "sat11-0101-0927-20ib0") & (pl.col("port") <= 8)).sort("port")
    assert at["peer"].to_list() == [f"SAT111092710053/hca{slot}" for slot in range(8)]


@needs_corpus
def test_a_real_port_list_is_read_with_its_dark_ports() -> None:
    fabric = decode((CORPUS / "ibnetdiscover_p.txt").read_bytes())
    assert fabric.topology.links.select("a", "a_port", "b", "b_port").rows() == [
        ("ib-i1l1s01", 1, "ib-i1l2s01", 1),
        ("o0001/hca0", 1, "ib-i1l1s01", 10),
        ("o0002/hca0", 1, "ib-i1l1s01", 11),
        ("p0001/hca0", 1, "ib-i4l1s01", 35),
    ]
    assert fabric.down.rows() == [("ib-i4l1s01", 37), ("ib-i7l2s01", 80)]
    assert fabric.rejects.height == 0


def test_names_ports_rates_and_tiers_are_told() -> None:
    topology = decode(FULL).topology
    links = topology.links.select("a", "a_port", "b", "b_port", "tier", "gbps").sort("a", "a_port")
    assert links.rows() == [
        ("dirB.L16.U2", 7, "leafA", 4, "leaf-spine", 400.0),
        ("host1/hca0", 1, "leafA", 1, "node-leaf", 200.0),
        ("host1/hca3", 1, "leafA", 2, "node-leaf", 200.0),
        ("host2/hca0", 1, "dirB.L16.U2", 9, "node-leaf", 100.0),
        ("host2/hca0", 2, "leafA", 3, "node-leaf", 100.0),
    ]
    assert topology.ports_by_switch == {"leafA": 40}


def test_both_ports_of_an_adapter_belong_to_one_device() -> None:
    assert neighbours(decode(FULL).topology, "host2/hca0") == ("dirB.L16.U2", "leafA")


def test_an_aggregation_node_is_no_host() -> None:
    assert decode(FULL).topology.nodes["node"].to_list() == ["host1", "host2"]


def test_imported_hosts_have_paths() -> None:
    assert path(decode(FULL).topology, "host1/0", "host2/0").devices == ("host1/hca0", "leafA", "host2/hca0")


def test_lost_spaces_change_nothing() -> None:
    squeezed = re.sub(rb"\t+", b"", FULL)
    assert decode(squeezed).topology.links.equals(decode(FULL).topology.links)


def test_a_bad_line_is_rejected_with_its_number_and_the_rest_is_kept() -> None:
    broken = FULL.replace(b'[2]\t"H-00000000000000a2"[1]', b'[2]\t"H-00000000000000a2[1]')
    fabric = decode(broken)
    assert fabric.rejects.select("offset", "reason").rows() == [(6, "not a port line as ibnetdiscover prints it")]
    assert fabric.topology.links.height == decode(FULL).topology.links.height - 1


def test_ports_below_an_unreadable_switch_are_not_given_to_the_one_before() -> None:
    text = FULL + b'\nSwitch\t40 "S-??"\t# "x"\n[9]\t"H-00000000000000c1"[1](c1) # "host3 HCA-1" lid 1 4xHDR\n'
    fabric = decode(text)
    assert fabric.rejects["reason"].to_list() == [
        "not a Switch, Ca or Rt line as ibnetdiscover prints it",
        "a port before any readable Switch or Ca line",
    ]
    assert "host3" not in fabric.topology.node_rows


def test_hosts_without_a_name_of_their_own_are_kept_apart() -> None:
    text = b"".join(
        b'Ca 1 "H-000000000000000%d" # "MT4123 ConnectX6   Mellanox Technologies"\n'
        b'[1](%d) "S-0000000000000010"[%d] # lid 1 lmc 0 "sw" lid 2 4xHDR\n' % (n, n, n)
        for n in (1, 2)
    )
    assert decode(text).topology.nodes["node"].to_list() == ["ca-1", "ca-2"]


def test_two_switches_of_one_name_are_told_apart() -> None:
    text = b'Switch 40 "S-01" # "sw" enhanced\n[1] "S-02"[1] # "sw" lid 2 4xHDR\nSwitch 40 "S-02" # "sw" enhanced\n'
    assert decode(text).topology.switches == ("sw-1", "sw-2")


def test_both_ports_of_an_adapter_in_a_port_list_are_one_device() -> None:
    text = (
        b"CA 1 1 0x00a1 4x HDR - SW 9 3 0x0010 ( 'host1 HCA-1' - 'leafA' )\n"
        b"CA 2 2 0x00a2 4x HDR - SW 8 4 0x0020 ( 'host1 HCA-1' - 'leafB' )\n"
    )
    assert neighbours(decode(text).topology, "host1/hca0") == ("leafA", "leafB")


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "no switch or host found"),
        (b"hello\n", "no switch or host found"),
        (b"Switch\x00", "byte 6 is NUL"),
        (b"#" * 2_000, "2,000 bytes is more than the limit of 1,000"),
    ],
)
def test_what_is_no_fabric_is_refused_in_one_line(payload: bytes, message: str) -> None:
    with pytest.raises(Unreadable) as refused:
        decode(payload, Surroundings(bytes_maximum=1_000))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.integers(0, len(FULL)), st.binary(max_size=8))
def test_damage_is_refused_or_rejected_but_never_breaks(place: int, noise: bytes) -> None:
    damaged = FULL[:place] + noise
    try:
        fabric = decode(damaged)
    except Unreadable:
        return
    assert fabric.topology.links.height <= decode(FULL).topology.links.height + 1


def test_counters_that_name_a_guid_find_the_device_of_the_discovered_fabric() -> None:
    topology = decode(FULL).topology
    identities = identities_from(topology, pl.DataFrame(schema=ALIAS_COLUMNS))
    assert [identities.device(name) for name in ("0x0000000000000010", "0xa2", "0xf1f1")] == [
        ("leafA", True), ("host1/hca3", True), ("0x000000000000f1f1", False),
    ]  # fmt: skip
