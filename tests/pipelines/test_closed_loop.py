"""The closed loop on a small cluster, and the arithmetic of what a job makes of its time."""

import pytest

from pipelines.capacity import CapacitySettings, Regime, waste
from pipelines.closed_loop import Assumptions, closed_loop
from replay.closed_loop import COUNTS, Missing, Mix, Stop, effective_share, failures
from schemas.topology_presets import build

DAY = 86400.0
SMALL = build("ndr-fat-tree", pods=1, superblocks_per_pod=2, nodes_per_superblock=16, spare_nodes=4)
BUSY = Mix("busy", (11.6 * 96 * 4, 11.6 * 96 * 4), 0.02, "a small cluster as busy as a large one")


def test_the_counts_are_those_of_the_published_table_without_its_unplanned_rest() -> None:
    assert sum(count for _, count in COUNTS) == 419


def test_the_rate_is_scaled_to_the_cluster_and_the_seed_fixes_the_failures() -> None:
    many = [len(failures(BUSY, SMALL, 5, seed)) for seed in range(4)]
    assert sum(many) == pytest.approx(4 * 5 * 4 * 11.6, rel=0.1)  # three standard deviations of 928
    assert failures(BUSY, SMALL, 1, 7) == failures(BUSY, SMALL, 1, 7)
    assert failures(BUSY, SMALL, 1, 7) != failures(BUSY, SMALL, 1, 8)


def test_a_cluster_that_never_fails_loses_only_its_checkpoints() -> None:
    assert effective_share([], [], DAY, 300, 10) == pytest.approx(300 / 310)


def test_stops_roll_backs_and_missing_gpus_are_taken_off_once() -> None:
    # One hour's stop with 100 s since the checkpoint; another inside it adds nothing.
    stops = [Stop(3700, 7300, rolls_back=True), Stop(4000, 5000, rolls_back=False)]
    missing = [Missing(8000, 8000 + DAY / 10, 0.01)]
    trained = DAY - 3600 - 3700 % 300
    assert effective_share(stops, [], DAY, 300, 0) == pytest.approx(trained / DAY)
    assert effective_share(stops, missing, DAY, 300, 0) == pytest.approx(trained / DAY - 0.001)


def test_roll_backs_cost_what_youngs_formula_says() -> None:
    regime = Regime(7448, 10, 180)
    stops = [Stop(at, at + 180, rolls_back=True) for at in [7448 * n + 137 * (n % 11) for n in range(1, 400)]]
    assert 1 - effective_share(stops, [], 7448 * 400, 300, 10) == pytest.approx(waste(300, regime), abs=0.006)


def test_recovery_gains_against_the_same_failures_and_never_loses() -> None:
    for seed in (1,):
        people, rolled, restored = closed_loop(BUSY, SMALL, 0.25, seed, CapacitySettings(), Assumptions())
        assert people.failures == rolled.failures == restored.failures > 5
        assert people.effective < rolled.effective <= restored.effective < 1
        assert people.by_people == people.failures
        assert restored.by_people < people.failures / 2
        assert restored.dollars == pytest.approx(2 * restored.lost_gpu_hours)
