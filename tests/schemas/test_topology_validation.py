"""The validator against the arithmetic worked out by hand, and against topologies broken on purpose."""

from dataclasses import replace

import polars as pl
import pytest

from schemas.topology import Topology, topology_from_frames
from schemas.topology_contradiction import Contradiction
from schemas.topology_parameters import FabricParameters
from schemas.topology_presets import SEED, build, parameters_of
from schemas.topology_validation import check, island_sizes


def about(found: tuple[Contradiction, ...], what: str) -> Contradiction:
    (one,) = (contradiction for contradiction in found if what in contradiction.what)
    return one


@pytest.mark.parametrize(
    "parameters",
    [{}, {"preset": "meta-roce"}, {"pods": 1}, {"pods": 1, "superblocks_per_pod": 1, "nodes_per_superblock": 8}],
)
def test_sound_clusters_check_clean(parameters: dict[str, object]) -> None:
    assert check(build(**parameters)) == ()  # type: ignore[arg-type]  # parametrised keyword arguments


@pytest.mark.parametrize(
    ("what", "sum_", "severity"),
    [
        ("spines of a pod", "4 spines x 40 ports = 160 < 256 uplinks per pod", "cannot be cabled"),
        ("cores have fewer", "24 cores x 40 ports = 960 < 24 pods x 4 spines x 20 uplinks = 1,920", "cannot be cabled"),
        ("QM8790", "40 ports x 200 Gb/s = 8 Tb/s", "contradicts"),
        ("switches named", "768 leaves + 96 spines + 24 cores = 888 switches, claimed 1,300", "contradicts"),
        ("cables named", "claimed 100,000; non-blocking radix-64 takes 73,728", "contradicts"),
        ("pod's oversubscription", "32 ports down / 8 up of a leaf = 4:1, claimed 3:1", "contradicts"),
        ("GPUs can inject", "= 4.92 Pb/s one way at best, claimed 5.50 Pb/s", "contradicts"),
        ("core cannot carry", "= 0.19 Pb/s one way", "contradicts"),
        ("NVLink bandwidth", "= 1:9, claimed 1:7", "contradicts"),
        ("cable lengths", "= 98 ps", "contradicts"),
        ("OTDR", "= 0.31 m, claimed 0.02 m", "contradicts"),
        ("draw the power", "3,072 nodes x 10.2 kW = 31.3 MW", "contradicts"),
        ("two totals of power", "50 MW / 25 MW = 2 times", "contradicts"),
        ("cascade's GPUs", "3 PDUs x 256 GPUs = 768, claimed 384 = 128 per PDU", "contradicts"),
        ("the total flow does not", "which warms by 49.6 K to 95 C", "contradicts"),
        ("the flow per GPU does not", "which warms by 1.3 K", "contradicts"),
        ("loop's volume", "= 2.0 s, claimed 90 s", "contradicts"),
        ("pumps stop", "= 16 s", "contradicts"),
        ("70 to 100 failures", "24,576 GPUs x 0.1 % = 24.6 a day", "contradicts"),
        ("overhead of checkpoints", "= 12.5 % lost work, claimed 2.1 %", "contradicts"),
        ("prices of a GPU hour", "$1.46", "contradicts"),
        ("prices of a GPU hour", "= 25.6 h) = $297", "contradicts"),
        ("valve control", "1,228,800 messages/s", "note"),
    ],
)
def test_the_seed_is_told_its_contradictions(what: str, sum_: str, severity: str) -> None:
    found = about(check(SEED), what)
    assert sum_ in found.arithmetic
    assert found.severity == severity


def test_needed_coolant_flow_matches_the_heat_balance_within_a_percent() -> None:
    """17.2 MW at 10 K in PG60 takes 29,800 L/min."""
    arithmetic = about(check(SEED), "the total flow does not").arithmetic
    needed = int(arithmetic.split("= ")[1].split(" L/min")[0].replace(",", ""))
    assert needed == pytest.approx(29_800, rel=0.01)


def test_verdicts_follow_the_numbers() -> None:
    """With enough spines, ports and the PDU that the cascade implies, those contradictions go."""
    assert SEED.claims is not None
    better = replace(
        SEED, leaf_ports=64, spine_ports=128, spines_per_pod=8, cores=60, core_ports=64, nodes_per_pdu=16,
        claims=replace(SEED.claims, gpus_per_pdu=128, switches=768 + 192 + 60),
    )  # fmt: skip
    left = {contradiction.what for contradiction in check(better)}
    gone = {contradiction.what for contradiction in check(SEED)} - left
    assert {
        "the spines of a pod have fewer ports than its leaves have uplinks",
        "the cores have fewer ports than the spines have uplinks",
        "the switches named do not add up to the number claimed",
        "the cascade's GPUs do not follow from its PDUs",
    } <= gone
    assert not any(contradiction.severity == "cannot be cabled" for contradiction in check(better))


def test_a_built_topology_is_told_the_same_as_its_parameters() -> None:
    assert set(check(SEED)) < set(check(build("seed")))


def test_leaves_that_share_no_spine_are_noted() -> None:
    found = check(parameters_of(pods=8, superblocks_per_pod=12, spine_oversubscription=3))
    assert about(found, "share a spine").arithmetic == "32 uplinks of a leaf x 2 <= 64 spines per pod"


def test_a_leaf_with_more_below_than_ports_cannot_be_cabled() -> None:
    found = check(FabricParameters(nodes_per_superblock=128, nodes_per_leaf=128, leaf_oversubscription=3))
    assert about(found, "a leaf has too few ports").arithmetic == "128 ports down + 43 up = 171 > 64 ports"


LINKS = [
    {"cable": "c0", "a": "n0/hca0", "a_port": 1, "b": "sw0", "b_port": 1, "length_meters": 5.0},
    {"cable": "c1", "a": "n1/hca0", "a_port": 1, "b": "sw0", "b_port": 2, "length_meters": 5.0},
]
NODES: list[dict[str, str | None]] = [{"node": "n0", "pdu": "p", "cdu": "c"}, {"node": "n1", "pdu": "p", "cdu": "c"}]


def imported(*more_links: dict[str, object], nodes: list[dict[str, str | None]] | None = None) -> Topology:
    return topology_from_frames("imported", pl.DataFrame(nodes or NODES), pl.DataFrame([*LINKS, *more_links]))


def test_a_sound_import_checks_clean() -> None:
    assert check(imported()) == ()


@pytest.mark.parametrize(
    ("link", "what", "example"),
    [
        ({"cable": "c2", "a": "n1/hca1", "a_port": 1, "b": "sw0", "b_port": 2}, "used by two cables", "sw0:2 by c1"),
        ({"cable": "c2", "a": "n2/hca0", "a_port": 1, "b": "sw0", "b_port": 3}, "not listed", "n2/hca0"),
        ({"cable": "c2", "a": "sw0", "a_port": 3, "b": "sw0", "b_port": 4}, "same device", "c2"),
        ({"cable": "c1", "a": "n1/hca1", "a_port": 1, "b": "sw0", "b_port": 3}, "name is used twice", "c1"),
        (
            {"cable": "c2", "a": "n1/hca1", "a_port": 1, "b": "sw0", "b_port": 3, "length_meters": -2.0},
            "length is negative",
            "c2 (-2.0 m)",
        ),
        ({"cable": "c2", "a": "n1/hca1", "a_port": 0, "b": "sw0", "b_port": 3}, "below 1", "n1/hca1:0 by c2"),
        ({"cable": "c2", "a": "sw1", "a_port": 1, "b": "sw2", "b_port": 1}, "not connected", "2 islands of 3 + 2"),
    ],
)
def test_a_bad_link_is_found(link: dict[str, object], what: str, example: str) -> None:
    assert example in about(check(imported(link)), what).arithmetic


def test_nodes_without_power_or_coolant_domain_twice_listed_or_uncabled_are_found() -> None:
    found = check(imported(nodes=[*NODES, NODES[1], {"node": "n7", "pdu": None, "cdu": None}]))
    assert about(found, "listed twice").arithmetic == "2: n1, n1"
    assert about(found, "no pdu").arithmetic == "1: n7"
    assert about(found, "no cdu").arithmetic == "1: n7"
    assert about(found, "a node has no cable").arithmetic == "1: n7"


def test_a_switch_with_fewer_ports_than_cables_is_found() -> None:
    found = check(replace(imported(), ports_by_switch={"sw0": 1, "sw9": 4}))
    assert about(found, "fewer ports than are used").arithmetic == "1: sw0 uses 2 ports, up to number 2, of 1"
    assert about(found, "a switch has no cable").arithmetic == "1: sw9"


def test_an_empty_topology_has_no_islands() -> None:
    empty = topology_from_frames("empty", pl.DataFrame(), pl.DataFrame())
    assert island_sizes(empty) == ()
    assert check(empty) == ()


def test_a_long_chain_is_one_island() -> None:
    rows = [{"cable": f"c{i}", "a": f"sw{i:03d}", "a_port": 2, "b": f"sw{i + 1:03d}", "b_port": 1} for i in range(200)]
    chain = topology_from_frames("chain", pl.DataFrame({"node": []}, schema={"node": pl.String}), pl.DataFrame(rows))
    assert island_sizes(chain) == (201,)
