from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.memory_errors import MemoryErrors
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def samples(*totals, gpu=2):
    return rows(
        Gpu,
        *(
            {"time": time, "node": "n1", "gpu": gpu, "ecc_uncorrectable_total": total}
            for time, total in enumerate(totals)
        ),
    )


def judge(*totals, ends=100, detector=MemoryErrors(hold_seconds=30)):  # noqa: B008  # frozen
    return run(detector, {Gpu: samples(*totals)}, ends)[0]


def test_one_new_error_pages_for_a_reset_until_the_hold_is_over():
    found = judge(4, 4, 5, 5)
    assert said(found, "cause", "entity", "severity", "action", "active") == [
        (2.0, "gpu_memory", "n1/2", "page", "reset_gpu", True), (32.0, "gpu_memory", "n1/2", "page", None, False),
    ]  # fmt: skip


def test_errors_of_long_ago_are_no_news():
    assert judge(4, 4, 4).is_empty()


def test_a_reset_of_the_counter_is_no_error():
    assert judge(4, 4, 0, 0).is_empty()


def test_an_error_after_a_reset_is_one():
    assert said(judge(4, 0, 1), "active") == [(2.0, True), (32.0, False)]


def test_errors_keep_the_level():
    assert said(judge(4, 5, *[5] * 19, 6), "active") == [(1.0, True), (51.0, False)]


def test_the_hold_is_an_hour():
    assert said(judge(4, 5, ends=4000, detector=MemoryErrors()), "active") == [(1.0, True), (3601.0, False)]


TOTALS = st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=1, max_size=40)


@settings(max_examples=40, deadline=None)
@given(totals=TOTALS, cuts=cutting(80))
def test_no_cut_changes_anything(totals, cuts):
    assert_cuts_change_nothing(MemoryErrors(hold_seconds=12), {Gpu: samples(*totals)}, 80, cuts)
