import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.pcie_replays import PcieReplays
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def samples(*totals, generation=5, width=16):
    link = {"node": "n1", "gpu": 2, "pcie_generation": generation, "pcie_width": width}
    return rows(Gpu, *({"time": time, **link, "pcie_replay_total": total} for time, total in enumerate(totals)))


def judge(*totals, ends=200, **link):
    return run(PcieReplays(), {Gpu: samples(*totals, **link)}, ends)[0]


# DCGM: more than ceil(GT/s / 1000 * 60 * lanes) in a minute, i.e. 31 (Gen5 x16) and 16 (Gen4 x16).
@pytest.mark.parametrize(("generation", "limit"), [(5, 31), (4, 16)])
def test_the_limit_is_that_of_the_link(generation, limit):
    assert judge(150, 150 + limit - 1, generation=generation).is_empty()
    found = judge(150, 150 + limit + 1, generation=generation)
    assert said(found, "cause", "severity", "active")[0] == (1.0, "gpu_pcie", "ticket", True)


def test_a_high_total_alone_is_nothing():
    assert judge(150_000, 150_000, 150_001).is_empty()


def test_a_slow_trickle_is_nothing():
    assert judge(*(second // 4 for second in range(180))).is_empty()


def test_it_ends_when_a_minute_has_less_than_half():
    assert said(judge(0, 40), "active") == [(1.0, True), (61.0, False)]


@settings(max_examples=40, deadline=None)
@given(totals=st.lists(st.sampled_from([None, 0, 10, 20, 50]), min_size=1, max_size=60), cuts=cutting(150))
def test_no_cut_changes_anything(totals, cuts):
    assert_cuts_change_nothing(PcieReplays(window_seconds=20), {Gpu: samples(*totals)}, 150, cuts)
