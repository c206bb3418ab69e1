import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.clock_loss import ClockLoss
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

QUICK = ClockLoss(sustained_seconds=3, clear_seconds=3)


def samples(clock, *, seconds=15, reasons=0x4, busy=99, gpus=8):
    """clock: (gpu, second) -> megahertz; reasons and busy are those of GPU 0."""
    return [
        {
            "time": second, "node": "n1", "gpu": gpu, "sm_clock_megahertz": clock(gpu, second),
            "clocks_event_reasons": reasons if gpu == 0 else 0x4, "utilization_percent": busy if gpu == 0 else 99,
        }
        for second in range(seconds)
        for gpu in range(gpus)
    ]  # fmt: skip


def slow(share, begins=4, ends=1000):
    return lambda gpu, second: 1750 * (share if gpu == 0 and begins <= second < ends else 1.0)


def judge(*given_rows, detector=QUICK):
    return run(detector, {Gpu: rows(Gpu, *given_rows)}, 100)[0]


def test_a_clock_below_its_peers_is_a_ticket():
    found = judge(*samples(slow(0.8)))
    assert said(found, "cause", "entity", "severity") == [(7.0, "gpu_straggler", "n1/0", "ticket")]
    assert found["score"].item() == pytest.approx(1.25)
    assert found["threshold"].item() == pytest.approx(1 / 0.9)


def test_boards_differ_by_some_percent():
    assert judge(*samples(slow(0.93))).is_empty()


@pytest.mark.parametrize("reasons", [0x2, 0x8 | 0x4, 0x20, 0x40, 0x80])
def test_a_reason_excuses(reasons):
    assert judge(*samples(slow(0.5), reasons=reasons)).is_empty()


@pytest.mark.parametrize("reasons", [0x0, 0x1, 0x4, None])
def test_idle_and_power_cap_are_no_reasons(reasons):
    assert judge(*samples(slow(0.5), reasons=reasons)).height == 1


def test_an_idle_gpu_may_be_slow():
    assert judge(*samples(slow(0.2), busy=10)).is_empty()


def test_a_host_that_is_slow_as_a_whole_has_no_odd_one():
    assert judge(*samples(lambda _gpu, second: 1750 if second < 4 else 900)).is_empty()


def test_three_gpus_are_no_peers():
    assert judge(*samples(slow(0.5), gpus=3)).is_empty()


def test_a_dip_is_nothing():
    assert judge(*samples(slow(0.5, ends=6))).is_empty()


def test_it_ends_at_full_clock():
    assert said(judge(*samples(slow(0.5, ends=9))), "active") == [(7.0, True), (12.0, False)]


def test_it_begins_after_twenty_seconds_and_ends_after_thirty():
    found = judge(*samples(slow(0.5, ends=30), seconds=70), detector=ClockLoss())
    assert said(found, "active") == [(24.0, True), (60.0, False)]


def test_a_gpu_that_works_half_of_the_time_may_be_slow():
    assert judge(*samples(slow(0.5), busy=60)).is_empty()


def test_four_gpus_are_peers():
    assert judge(*samples(slow(0.5), gpus=4))["entity"].to_list() == ["n1/0"]


@settings(max_examples=30, deadline=None)
@given(
    clocks=st.lists(st.sampled_from([None, 1000.0, 1750.0]), min_size=20, max_size=20),
    reasons=st.sampled_from([None, 0x4, 0x8]), cuts=cutting(25),
)  # fmt: skip
def test_no_cut_changes_anything(clocks, reasons, cuts):
    given_rows = samples(
        lambda gpu, second: clocks[second] if gpu == 0 else 1750.0, seconds=20, reasons=reasons, gpus=5
    )
    assert_cuts_change_nothing(QUICK, {Gpu: rows(Gpu, *given_rows)}, 25, cuts)
