from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.pcie_link import PcieLink
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

QUICK = PcieLink(sustained_seconds=3, clear_seconds=3)


def samples(*links, gpu=2, busy=99):
    return [
        {"time": time, "node": "n1", "gpu": gpu, "pcie_generation": generation, "pcie_width": width,
         "utilization_percent": busy}
        for time, (generation, width) in enumerate(links)
    ]  # fmt: skip


def judge(*given_rows, ends=100, detector=QUICK):
    return run(detector, {Gpu: rows(Gpu, *given_rows)}, ends)[0]


FULL, HALF, SLOW = (5, 16), (5, 8), (4, 16)


def test_fewer_lanes_than_before_are_a_ticket():
    found = judge(*samples(FULL, FULL, *[HALF] * 8))
    assert said(found, "cause", "entity", "severity") == [(5.0, "gpu_pcie", "n1/2", "ticket")]
    assert found["score"].item() == 2.0


def test_a_lower_generation_under_load_too():
    assert said(judge(*samples(FULL, *[SLOW] * 8)), "active") == [(4.0, True)]


def test_fewer_lanes_than_the_other_gpus_of_the_host_from_the_beginning():
    peers = [sample for gpu in range(2) for sample in samples(*[FULL] * 8, gpu=gpu)]
    assert said(judge(*samples(*[HALF] * 8), *peers), "entity") == [(3.0, "n1/2")]


def test_one_fast_gpu_does_not_make_the_others_slow():
    peers = [sample for gpu in range(2) for sample in samples(*[HALF] * 8, gpu=gpu)]
    assert judge(*samples(*[FULL] * 8), *peers).is_empty()


def test_an_idle_gpu_may_slow_its_link():
    assert judge(*samples(FULL), *samples(*[(1, 16)] * 9, busy=0)[1:]).is_empty()


def test_a_short_retraining_is_nothing():
    assert judge(*samples(FULL, HALF, HALF, *[FULL] * 5)).is_empty()


def test_it_ends_at_full_speed():
    assert said(judge(*samples(FULL, *[HALF] * 5, *[FULL] * 9)), "active") == [(4.0, True), (9.0, False)]


def test_it_begins_after_five_seconds_and_ends_after_a_minute():
    found = judge(*samples(FULL, *[HALF] * 40, *[FULL] * 70), ends=120, detector=PcieLink())
    assert said(found, "active") == [(6.0, True), (101.0, False)]


def test_a_gpu_that_works_a_third_of_the_time_may_slow_its_link():
    assert judge(*samples(FULL, busy=30), *samples(*[SLOW] * 9, busy=30)[1:]).is_empty()


LINKS = st.lists(st.sampled_from([FULL, HALF, SLOW, (None, 16)]), min_size=1, max_size=25)


@settings(max_examples=40, deadline=None)
@given(one=LINKS, other=LINKS, third=LINKS, cuts=cutting(30))
def test_no_cut_changes_anything(one, other, third, cuts):
    given_rows = [*samples(*one, gpu=0), *samples(*other, gpu=1), *samples(*third, gpu=3)]
    assert_cuts_change_nothing(QUICK, {Gpu: rows(Gpu, *given_rows)}, 30, cuts)
