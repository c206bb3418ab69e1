import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.correctable_errors import CorrectableErrors
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cluster, cutting, rows, run, said

QUICK = CorrectableErrors(errors=10, window_seconds=60)


def counted(totals, gpus=1, spare=0):
    """Row by row the same totals on `gpus` GPUs, 7 on `spare` more."""
    return {
        Gpu: rows(Gpu, *(
            {"time": t, "node": "n1", "gpu": gpu, "ecc_correctable_total": total if gpu < gpus else 7}
            for t, total in enumerate(totals) for gpu in range(gpus + spare)
        ))
    }  # fmt: skip


def judge(tables, ends=200, detector=QUICK, topology=None):
    return run(detector, tables, ends, topology=topology)[0]


def test_a_rate_that_no_peer_has_is_a_suspicion_until_it_stops():
    found = judge(counted(range(5, 20), spare=3))
    assert said(found, "cause", "entity", "severity", "active") == [
        (10.0, "gpu_memory", "n1/0", "info", True), (70.0, "gpu_memory", "n1/0", "info", False),
    ]  # fmt: skip


def test_a_large_total_that_stands_still_is_no_news():
    assert judge(counted([20_000_000] * 50)).is_empty()


def test_a_rate_that_many_gpus_have_is_not_the_gpu():
    assert judge(counted(range(5, 20), gpus=5)).filter("active").is_empty()
    assert judge(counted(range(5, 20), gpus=4)).filter("active").height == 4


def test_a_reset_of_the_counter_is_no_rate():
    assert judge(counted([500, 500, 0, 0])).is_empty()


def at_times(*times_and_totals):
    return {
        Gpu: rows(Gpu, *(
            {"time": t, "node": "n1", "gpu": 0, "ecc_correctable_total": total} for t, total in times_and_totals
        ))
    }  # fmt: skip


@pytest.mark.parametrize(("apart", "last", "actives"), [(1000, 39, []), (1000, 40, [True]), (2000, 40, [])])
def test_a_hundred_and_twenty_in_an_hour_are_the_limit(apart, last, actives):
    totals = at_times((0, 0), (1, 40), (1 + apart, 80), (1 + 2 * apart, 80 + last))
    assert judge(totals, ends=2 + 2 * apart, detector=CorrectableErrors())["active"].to_list() == actives


def test_in_a_large_cluster_a_twentieth_of_the_gpus_may_wear_out_at_once():
    assert judge(counted(range(5, 20), gpus=8), topology=cluster(50)).filter("active").height == 8


@settings(max_examples=25, deadline=None)
@given(totals=st.lists(st.sampled_from([None, 0, 3, 8, 20]), min_size=1, max_size=30), cuts=cutting(100))
def test_cuts_change_nothing(totals, cuts):
    assert_cuts_change_nothing(QUICK, counted(totals, spare=1), 100, cuts)
