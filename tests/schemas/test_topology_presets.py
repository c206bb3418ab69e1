"""Numbers of the clusters one can build: from the arithmetic of the plans, not from the code."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.topology import Topology
from schemas.topology_parameters import TIA_598_COLOURS, FabricParameters
from schemas.topology_presets import PRESETS, build, parameters_of
from schemas.topology_validation import check


def links_by_tier(topology: Topology) -> dict[str, int]:
    return dict(topology.links.group_by("tier").len().iter_rows())


def switches_by_kind(topology: Topology) -> dict[str, int]:
    kinds = [switch.split("-")[0] for switch in topology.switches]
    return {kind: kinds.count(kind) for kind in ("leaf", "spine", "core")}


def test_the_default_has_24576_gpus_behind_a_non_blocking_radix_64_fabric() -> None:
    topology = build()
    assert topology.nodes.height == 3_072
    assert topology.nodes.height * topology.gpus_per_node == 24_576
    assert switches_by_kind(topology) == {"leaf": 768, "spine": 768, "core": 384}
    assert links_by_tier(topology) == {"node-leaf": 24_576, "leaf-spine": 24_576, "spine-core": 24_576}


def test_three_to_one_between_pods_of_3072_takes_1408_switches_and_57344_links() -> None:
    topology = build(pods=8, superblocks_per_pod=12, spine_oversubscription=3)
    assert switches_by_kind(topology) == {"leaf": 768, "spine": 512, "core": 128}
    assert topology.links.height == 57_344


def test_the_seed_has_the_888_switches_its_own_counts_give() -> None:
    assert switches_by_kind(build("seed")) == {"leaf": 768, "spine": 96, "core": 24}


def test_meta_has_8_pods_of_3072_gpus_in_1536_racks_of_16() -> None:
    nodes = build("meta-roce").nodes
    assert nodes["pod"].value_counts()["count"].to_list() == [384] * 8
    assert nodes["rack"].n_unique() == 1_536


def test_the_reference_cluster_has_192_power_domains_of_128_gpus_and_96_loops() -> None:
    nodes = build().nodes
    assert nodes["pdu"].value_counts()["count"].to_list() == [16] * 192
    assert nodes["cdu"].n_unique() == 96


def test_one_pod_has_1024_gpus_and_no_core() -> None:
    topology = build(pods=1)
    assert topology.nodes.height == 128
    assert switches_by_kind(topology) == {"leaf": 32, "spine": 16, "core": 0}


def test_eight_nodes_can_be_a_cluster() -> None:
    topology = build(pods=1, superblocks_per_pod=1, nodes_per_superblock=8)
    assert topology.nodes["node"].to_list() == [f"n0000{node}" for node in range(8)]
    assert links_by_tier(topology) == {"node-leaf": 64, "leaf-spine": 64}


def test_one_leaf_needs_no_spine() -> None:
    topology = build(pods=1, superblocks_per_pod=1, nodes_per_superblock=2, nodes_per_leaf=2, rails_per_leaf=8)
    assert topology.switches == ("leaf-000",)


def test_names_are_as_documented() -> None:
    topology = build()
    assert topology.nodes.row(12, named=True) == {
        "node": "n00012", "superblock": "sb00", "pod": "pod00", "pdu": "pdu-000", "cdu": "cdu-00", "pdu_b": None,
        "role": "compute", "rack": "r0003",
    }  # fmt: skip
    assert topology.ends("c000099") == ("n00012/hca3", "leaf-003")
    assert {"spine-767", "core-383"} <= set(topology.switches)


def test_a_leaf_serves_one_rail_of_one_superblock() -> None:
    below = build().links.filter(pl.col("b") == "leaf-011")
    assert below["a"].to_list() == [f"n{node:05d}/hca3" for node in range(32, 64)]
    assert below["b_port"].to_list() == list(range(1, 33))


def test_a_rack_switch_takes_all_hcas_of_its_nodes() -> None:
    below = build("meta-roce").links.filter(pl.col("b") == "leaf-001")
    assert below["a"].to_list() == [f"n0000{node}/hca{hca}" for node in (2, 3) for hca in range(8)]


def test_a_core_sees_every_pod() -> None:
    topology = build()
    spines = topology.links.filter(pl.col("tier") == "spine-core").with_columns(
        pod=pl.col("a").str.slice(6).cast(pl.Int64) // 32
    )
    assert spines.group_by("b").agg(pl.col("pod").n_unique())["pod"].unique().to_list() == [24]


def test_spares_are_the_last_nodes_of_pods_in_turn() -> None:
    nodes = build(pods=2, superblocks_per_pod=1, nodes_per_superblock=4, spare_nodes=3).nodes
    assert nodes.filter(pl.col("role") == "spare")["node"].to_list() == ["n00002", "n00003", "n00007"]


def test_cables_carry_lanes_and_the_colours_of_their_star() -> None:
    star = build().links.filter(pl.col("star_group") == "leaf-000/up-0")
    assert star["colour"].to_list() == list(TIA_598_COLOURS)
    assert star["lanes"].unique().to_list() == [4]
    assert build("seed").links.select(pl.col("colour").n_unique(), pl.col("lanes").max()).row(0) == (8, 8)


@pytest.mark.parametrize("preset", PRESETS)
def test_multimode_reach_covers_host_cables_and_500_metres_all(preset: str) -> None:
    """50 m on multimode fibre, 500 m on DR4 single-mode."""
    longest = dict(build(preset).links.group_by("tier").agg(pl.col("length_meters").max()).iter_rows())
    assert 0 < longest["node-leaf"] < 50
    assert longest["node-leaf"] <= longest["spine-core"] < 500


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(ValueError) as unknown:
        parameters_of(nodes_per_pod=4)
    assert "nodes_per_p" in str(unknown.value)
    assert "did you mean" in str(unknown.value)
    with pytest.raises(ValueError, match="preset 'tree' is not known: choose one of seed, ndr-fat-tree, meta-roce"):
        build("tree")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pods": 0}, "pods must be a whole number of at least 1, not 0"),
        ({"pods": 1.5}, "pods must be a whole number"),
        ({"pods": "4"}, "pods must be a whole number"),
        ({"pods": True}, "pods must be a whole number"),
        ({"leaf_ports": None}, "leaf_ports must be a whole number"),
        ({"spine_oversubscription": float("nan")}, "spine_oversubscription must be a number"),
        ({"spine_oversubscription": 0.5}, "spine_oversubscription must be a number of at least 1"),
        ({"pods": 1, "spare_nodes": 129}, "spare_nodes is 129, but there are 128 nodes"),
        ({"rails_per_leaf": 3}, "rails_per_leaf 3 does not divide gpus_per_node 8"),
        ({"pods": 100_000}, "more than 1,048,576 GPUs"),
        ({"colours": ()}, "colours is empty"),
    ],
)
def test_a_number_no_cluster_can_have_is_refused_in_one_line(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        parameters_of(**parameters)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


small = st.builds(
    FabricParameters,
    pods=st.integers(1, 5),
    superblocks_per_pod=st.integers(1, 3),
    nodes_per_superblock=st.integers(1, 12),
    gpus_per_node=st.sampled_from([4, 8]),
    nodes_per_leaf=st.integers(1, 12),
    rails_per_leaf=st.sampled_from([1, 2, 4]),
    leaf_oversubscription=st.sampled_from([1.0, 1.5, 3.0, 7.0]),
    spine_oversubscription=st.sampled_from([1.0, 1.5, 3.0, 7.0]),
)


@settings(max_examples=50, deadline=None)
@given(small)
def test_derived_fabrics_use_every_port_once_and_none_too_many_unless_the_validator_says_so(
    parameters: FabricParameters,
) -> None:
    topology = build(**vars(parameters))
    assert topology.links.height == parameters.links
    assert len(topology.switches) == parameters.switches
    assert not topology.ports.select("device", "port").is_duplicated().any()
    highest = topology.ports.filter(~pl.col("device").str.contains("/"))["port"].to_numpy().max()
    told = any(contradiction.severity == "cannot be cabled" for contradiction in check(parameters))
    assert told == (highest > 64)


@settings(max_examples=30, deadline=None)
@given(small)
def test_every_kind_of_domain_parts_the_nodes(parameters: FabricParameters) -> None:
    topology = build(**vars(parameters))
    for kind in ("pdu", "cdu", "superblock", "pod", "rack"):
        members = [node for (k, _), nodes in topology.nodes_by_domain.items() if k == kind for node in nodes]
        assert sorted(members) == topology.nodes["node"].to_list()
