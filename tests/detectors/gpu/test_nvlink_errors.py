import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.nvlink_errors import NvlinkErrors
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def samples(*totals):
    names = ("nvlink_crc_error_total", "nvlink_replay_total", "nvlink_recovery_total")
    given_rows = ({"time": t, "node": "n1", "gpu": 2, **dict(zip(names, each, strict=True))} for t, each in
                  enumerate(totals))  # fmt: skip
    return rows(Gpu, *given_rows)


def judge(*totals, ends=1000):
    return run(NvlinkErrors(), {Gpu: samples(*totals)}, ends)[0]


def test_ten_crc_errors_in_five_minutes_page():
    found = judge((7, 0, 0), (9, 0, 0), (16, 0, 0), (17, 0, 0))
    assert said(found, "cause", "severity", "active") == [
        (3.0, "gpu_nvlink", "page", True), (303.0, "gpu_nvlink", "page", False),
    ]  # fmt: skip


def test_nine_do_not():
    assert judge((7, 0, 0), (16, 0, 0)).is_empty()


@pytest.mark.parametrize("worse", [(7, 2, 0), (7, 0, 1)])
def test_one_recovery_or_two_replays_are_enough(worse):
    found = judge((7, 0, 0), worse)
    assert said(found, "active", "score")[0] == (1.0, True, 10.0)


def test_one_replay_is_not():
    assert judge((7, 0, 0), (7, 1, 0)).is_empty()


def test_onset_is_the_first_error_of_the_window():
    assert judge((7, 0, 0), (9, 0, 0), (16, 0, 0), (17, 0, 0))["first_bad_at"][0].second == 1


TOTALS = st.lists(
    st.tuples(st.sampled_from([None, 0, 4, 9, 12]), st.sampled_from([0, 1, 2]), st.sampled_from([None, 0, 1])),
    min_size=1, max_size=40,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(totals=TOTALS, cuts=cutting(80))
def test_no_cut_changes_anything(totals, cuts):
    assert_cuts_change_nothing(NvlinkErrors(window_seconds=15), {Gpu: samples(*totals)}, 80, cuts)
