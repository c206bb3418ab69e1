import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.thermal_throttle import ThermalThrottle
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def samples(*reasons, margin=20.0):
    return rows(
        Gpu,
        *(
            {"time": t, "node": "n1", "gpu": 2, "clocks_event_reasons": bits, "thermal_margin_celsius": margin}
            for t, bits in enumerate(reasons)
        ),
    )


def judge(frame):
    return run(ThermalThrottle(), {Gpu: frame}, frame.height)[0]


@pytest.mark.parametrize("bits", [0x20, 0x40, 0x20 | 0x4, 0x40 | 0x8 | 0x80])
def test_thermal_bits_held_for_five_seconds_page(bits):
    found = judge(samples(*[0x4] * 3, *[bits] * 6))
    assert said(found, "cause", "entity", "severity", "active") == [(8.0, "gpu_thermal_throttle", "n1/2", "page", True)]


@pytest.mark.parametrize("bits", [0x0, 0x1, 0x2, 0x4, 0x10, 0x80, 0x100, 0x1 | 0x4 | 0x80])
def test_other_bits_are_never_heat(bits):
    assert judge(samples(*[bits] * 60, margin=-8.0)).is_empty()


@pytest.mark.parametrize(("margin", "findings"), [(3.0, 1), (3.5, 0), (None, 0)])
def test_hardware_slowdown_is_heat_only_near_the_limit(margin, findings):
    assert judge(samples(*[0x8] * 20, margin=margin)).height == findings


def test_a_margin_below_zero_alone_is_an_unsupported_reading():
    assert judge(samples(*[0] * 60, margin=-40.0)).is_empty()


def test_a_touch_of_the_limit_is_not_a_throttle():
    assert judge(samples(*[0x40] * 5, *[0] * 10, *[0x40] * 5, 0)).is_empty()


def test_onset_is_the_first_throttled_sample():
    found = judge(samples(*[0] * 10, *[0x20] * 10))
    assert found.select((found["first_bad_at"] - found["time"]).dt.total_seconds()).item() == -5


def test_it_ends_after_thirty_good_seconds():
    found = judge(samples(*[0x20] * 10, *[0] * 10, 0x20, *[0] * 40))
    assert said(found, "active") == [(5.0, True), (51.0, False)]


def test_samples_without_reasons_say_nothing():
    assert said(judge(samples(0x20, None, None, None, None, 0x20)), "active") == [(5.0, True)]


def test_healthy_gpus_need_no_state():
    assert run(ThermalThrottle(), {Gpu: samples(*[0x4] * 60)}, 60)[1].is_empty()


@settings(max_examples=25, deadline=None)
@given(bits=st.lists(st.sampled_from([None, 0, 0x4, 0x8, 0x20, 0x20, 0x40]), min_size=1, max_size=40), cuts=cutting(45))
def test_no_cut_changes_anything(bits, cuts):
    detector = ThermalThrottle(sustained_seconds=2, clear_seconds=3)
    assert_cuts_change_nothing(detector, {Gpu: samples(*bits, margin=1.0)}, 45, cuts)


def host(*, clock, core, seconds=10, peers=4):
    """GPU n1/0 beside peers at 1755 MHz and 62 C, all without reasons."""
    own = {"sm_clock_megahertz": clock, "temperature_celsius": core}
    well = {"sm_clock_megahertz": 1755.0, "temperature_celsius": 62.0}
    return rows(
        Gpu,
        *(
            {"time": t, "node": "n1", "gpu": gpu, **(well if gpu else own)}
            for t in range(seconds) for gpu in range(peers + 1)
        ),
    )  # fmt: skip


def test_without_reasons_a_gpu_that_is_both_hot_and_slow_throttles():
    frame = host(clock=1200.0, core=88.0)
    found = run(ThermalThrottle(), {Gpu: frame}, 10)[0]
    assert said(found, "entity", "code", "active") == [(5.0, "n1/0", "hot_and_slow", True)]


@pytest.mark.parametrize(
    "frame",
    [host(clock=1200.0, core=66.0), host(clock=1740.0, core=88.0), host(clock=1200.0, core=88.0, peers=2)],
    ids=["slow and cool", "hot and fast", "too few peers"],
)
def test_without_reasons_less_than_that_is_no_throttle(frame):
    assert run(ThermalThrottle(), {Gpu: frame}, 10)[0].is_empty()


def test_four_gpus_of_a_host_are_enough():
    found = run(ThermalThrottle(), {Gpu: host(clock=1200.0, core=88.0, peers=3)}, 10)[0]
    assert said(found, "entity", "active") == [(5.0, "n1/0", True)]
