import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.topology import Topology, topology_from_frames
from schemas.topology_paths import (
    bisection_gbps,
    hca_of_gpu,
    neighbours,
    oversubscription_by_tier,
    path,
)
from schemas.topology_presets import build
from schemas.topology_tiers import switch_levels, tiered

CLUSTER = build(pods=3, superblocks_per_pod=2, nodes_per_superblock=4)
GPUS = st.tuples(st.integers(0, 23), st.integers(0, 7)).map(lambda gpu: f"n{gpu[0]:05d}/{gpu[1]}")


@pytest.mark.parametrize(
    ("gpu", "hops", "why"),
    [
        ("n00000/5", 0, "same node: NVLink"),
        ("n00003/3", 2, "same rail, same superblock: one leaf"),
        ("n00003/4", 4, "other rail: leaf, spine, leaf"),
        ("n00004/3", 4, "other superblock of the pod"),
        ("n00008/3", 6, "other pod: over a core"),
    ],
)
def test_hops_grow_with_distance(gpu: str, hops: int, why: str) -> None:
    assert path(CLUSTER, "n00000/3", gpu).hops == hops, why


def test_a_path_names_devices_and_cables_from_end_to_end() -> None:
    found = path(CLUSTER, "n00000/3", "n00001/3")
    assert found.devices == ("n00000/hca3", "leaf-003", "n00001/hca3")
    assert [CLUSTER.ends(cable) for cable in found.cables] == [("n00000/hca3", "leaf-003"), ("n00001/hca3", "leaf-003")]


@settings(max_examples=80, deadline=None)
@given(GPUS, GPUS)
def test_the_way_back_is_the_way_there_and_every_step_is_a_cable(gpu_a: str, gpu_b: str) -> None:
    there = path(CLUSTER, gpu_a, gpu_b)
    back = path(CLUSTER, gpu_b, gpu_a)
    assert back.devices == there.devices[::-1]
    assert there.hops in (0, 2, 4, 6)
    for cable, step in zip(there.cables, zip(there.devices, there.devices[1:], strict=False), strict=True):
        assert set(CLUSTER.ends(cable)) == set(step)


def test_any_two_gpus_of_the_reference_cluster_are_at_most_six_cables_apart() -> None:
    assert path(build(), "n00000/0", "n03071/7").hops == 6


def test_neighbours_are_what_cables_lead_to() -> None:
    assert neighbours(CLUSTER, "n00000/hca3") == ("leaf-003",)
    assert neighbours(CLUSTER, "n00000") == tuple(f"leaf-00{rail}" for rail in range(8))
    assert neighbours(CLUSTER, "n00000/3") == ("n00000/hca3",)
    assert neighbours(CLUSTER, "leaf-003")[:4] == tuple(f"n0000{node}/hca3" for node in range(4))


@pytest.mark.parametrize("device", ["n99999", "n00000/8", "n00000/x", "leaf-999", "", "n00000/-1"])
def test_an_unknown_device_is_named(device: str) -> None:
    with pytest.raises(ValueError) as unknown:
        neighbours(CLUSTER, device)
    assert f"{device!r} is not in topology ndr-fat-tree" in str(unknown.value)


def test_gpus_share_the_hcas_of_a_node_that_has_fewer() -> None:
    links = pl.DataFrame({"cable": ["a", "b"], "a": ["n0/hca0", "n0/hca1"], "b": ["sw", "sw"]})
    topology = topology_from_frames("two-hcas", pl.DataFrame({"node": ["n0"]}), links)
    assert [hca_of_gpu(topology, f"n0/{slot}") for slot in (0, 1, 3, 4, 7)] == [
        "n0/hca0", "n0/hca1", "n0/hca0", "n0/hca1", "n0/hca1",
    ]  # fmt: skip


def test_two_islands_have_no_path() -> None:
    links = pl.DataFrame({"cable": ["a", "b"], "a": ["n0/hca0", "n1/hca0"], "b": ["sw0", "sw1"]})
    topology = topology_from_frames("apart", pl.DataFrame({"node": ["n0", "n1"]}), links)
    with pytest.raises(ValueError, match="no cables join n0/0 and n1/0"):
        path(topology, "n0/0", "n1/0")


@pytest.mark.parametrize(
    ("preset", "gbps"),
    [("ndr-fat-tree", 24_576 * 400 / 2), ("seed", 960 * 400 / 2)],
)
def test_bisection_is_what_the_narrowest_tier_carries(preset: str, gbps: float) -> None:
    """4.92 Pb/s for the non-blocking fabric; 960 core ports give 0.19 Pb/s."""
    assert bisection_gbps(build(preset)) == pytest.approx(gbps)


def test_bisection_is_unknown_without_rates() -> None:
    bare = topology_from_frames("bare", CLUSTER.nodes, CLUSTER.links.drop("gbps"))
    assert bisection_gbps(bare) is None


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (build(), {"leaf": 1.0, "spine": 1.0}),
        (build(pods=8, superblocks_per_pod=12, spine_oversubscription=3), {"leaf": 1.0, "spine": 3.0}),
        (build(pods=1), {"leaf": 1.0}),
        (build("meta-roce"), {"leaf": 1.0, "spine": 7.0}),
        (build("seed"), {"leaf": 4.0, "spine": 6_144 / 1_920}),
    ],
)
def test_oversubscription_is_as_planned(topology: Topology, expected: dict[str, float]) -> None:
    assert oversubscription_by_tier(topology) == pytest.approx(expected, rel=0.01)


def test_tiers_can_be_told_from_the_cabling_alone() -> None:
    shuffled = CLUSTER.links.sample(fraction=1, shuffle=True, seed=7)
    turned = shuffled.rename({"a": "b", "b": "a", "a_port": "b_port", "b_port": "a_port"}).drop("tier")
    again = tiered(turned.select("cable", "a", "a_port", "b", "b_port")).sort("cable")
    assert again.select("cable", "a", "a_port", "b", "b_port", "tier").equals(
        CLUSTER.links.select("cable", "a", "a_port", "b", "b_port", "tier")
    )


def test_a_management_host_does_not_make_a_spine_a_leaf() -> None:
    more = pl.DataFrame({"a": ["ufm/hca0"], "b": ["spine-000"]})
    levels = switch_levels(pl.concat([build(pods=2).links.select("a", "b"), more]))
    assert levels["spine-000"] == 2
