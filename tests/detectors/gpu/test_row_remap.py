from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.row_remap import RowRemapFailure
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

FLAGS = st.sampled_from([None, False, True])


def samples(*flags):
    return rows(
        Gpu,
        *(
            {"time": t, "node": "n1", "gpu": 2, "row_remap_pending": pending, "row_remap_failure": failure}
            for t, (pending, failure) in enumerate(flags)
        ),
    )


def judge(*flags):
    return run(RowRemapFailure(), {Gpu: samples(*flags)}, len(flags))[0]


def test_a_failed_remap_pages_for_replacement():
    found = judge((False, False), (False, True))
    assert said(found, "cause", "code", "severity", "action") == [
        (1.0, "gpu_memory", "row_remap_failure", "page", "rma")
    ]


def test_a_pending_remap_is_a_ticket_for_a_reset():
    found = judge((False, False), (True, False))
    assert said(found, "code", "severity", "action") == [(1.0, "row_remap_pending", "ticket", "reset_gpu")]


def test_a_failure_makes_a_pending_remap_worse_and_outlasts_it():
    found = judge((True, False), (True, True), (False, True), (False, False))
    assert said(found, "code", "severity", "active") == [
        (0.0, "row_remap_pending", "ticket", True), (1.0, "row_remap_failure", "page", True),
        (3.0, "row_remap_failure", "page", False),
    ]  # fmt: skip


def test_a_missing_flag_says_nothing():
    assert said(judge((None, True), (None, None), (None, None)), "active") == [(0.0, True)]


@settings(max_examples=25, deadline=None)
@given(flags=st.lists(st.tuples(FLAGS, FLAGS), min_size=1, max_size=30), cuts=cutting(35))
def test_no_cut_changes_anything(flags, cuts):
    assert_cuts_change_nothing(RowRemapFailure(), {Gpu: samples(*flags)}, 35, cuts)
