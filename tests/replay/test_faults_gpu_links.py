"""What the faults of links, clocks and jobs do to the rows, second by second."""

from datetime import timedelta
from functools import cache

import polars as pl

from replay.scenario import load_scenario
from replay.simulate import labels, simulate, topology_of


@cache
def told(name):
    scenario = load_scenario(name)
    windows = list(simulate(scenario, topology_of(scenario)))
    return {
        table: pl.concat([window.tables[table] for window in windows]) for table in ("gpu", "heartbeat", "job_event")
    }


def of(name, entity, table="gpu"):
    node, slot = entity.split("/")
    return told(name)[table].filter(node=node, gpu=int(slot))


def at(name, second):
    return load_scenario(name).starts_at + timedelta(seconds=second)


def test_a_noisy_nvlink_counts_about_five_crc_errors_a_second_and_its_neighbours_none():
    name = "nvlink_errors"
    grown = of(name, "n00005/3").select(
        pl.col("nvlink_crc_error_total").last() - pl.col("nvlink_crc_error_total").first()
    )
    assert 1350 < grown.item() < 1650  # 300 s at 5 a second, four standard deviations
    others = told(name)["gpu"].filter(pl.col("node") != "n00005")
    assert others.select("node", "gpu", "nvlink_crc_error_total").n_unique() == 56


def test_a_downtrained_link_shows_eight_lanes_from_the_second_it_happens():
    width = of("pcie_downtrain", "n00001/4").filter(pl.col("time") >= at("pcie_downtrain", 180))["pcie_width"]
    assert set(width) == {8}
    assert set(of("pcie_downtrain", "n00001/4").filter(pl.col("time") < at("pcie_downtrain", 180))["pcie_width"]) == {
        16
    }


def test_a_braked_board_sets_its_bit_halves_its_clock_and_slows_the_job():
    name = "power_brake"
    braked = of(name, "n00003/2").filter(pl.col("time") > at(name, 185))
    assert braked.filter(pl.col("clocks_event_reasons").and_(0x80) == 0).is_empty()
    assert braked["sm_clock_megahertz"].max() < 1000
    steps = told(name)["heartbeat"].filter(pl.col("time") > at(name, 240))["step_seconds"]
    assert steps.min() > 7  # 4 s of computing at half the clock


def test_a_clock_lost_without_a_reason_shows_none():
    slow = of("clock_loss", "n00002/7").filter(pl.col("time") > at("clock_loss", 185))
    assert slow.filter(pl.col("clocks_event_reasons").and_(0xFA) != 0).is_empty()


def test_an_uncorrectable_error_counts_once():
    totals = of("uncorrectable_ecc", "n00006/0")["ecc_uncorrectable_total"].unique().sort()
    assert totals.len() == 2
    assert totals[1] - totals[0] == 1


def test_in_a_hang_every_rank_beats_and_no_step_ends():
    name = "job_hang"
    beats = told(name)["heartbeat"].filter(pl.col("time") >= at(name, 250))
    assert beats["step"].n_unique() == 1
    assert beats.height == 350 * 64
    stuck = of(name, "n00007/1").filter(pl.col("time") >= at(name, 250))
    assert set(stuck["utilization_percent"]) == {0.0}


def test_checkpoints_that_fail_are_never_told():
    name = "checkpoint_stale"
    done = told(name)["job_event"].filter(pl.col("kind") == "checkpoint")
    assert done.filter(pl.col("time") >= at(name, 110)).is_empty()
    assert told(name)["heartbeat"]["step"].n_unique() > 60  # the job trains on


def test_the_truth_names_the_gpu_or_the_job():
    wanted = {
        "nvlink_errors": ("gpu_nvlink", ["n00005/3"]), "pcie_downtrain": ("gpu_pcie", ["n00001/4"]),
        "power_brake": ("gpu_power_brake", ["n00003/2"]), "job_hang": ("job_hang", ["train-1"]),
        "repeated_xid": ("gpu_fatal_error", ["n00004/5"]),
    }  # fmt: skip
    for name, truth in wanted.items():
        scenario = load_scenario(name)
        row = labels(scenario, topology_of(scenario)).row(0, named=True)
        assert (row["cause"], row["roots"]) == truth
