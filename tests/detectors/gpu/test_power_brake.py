import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.power_brake import PowerBrake
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def samples(*reasons):
    return rows(
        Gpu, *({"time": t, "node": "n1", "gpu": 2, "clocks_event_reasons": bits} for t, bits in enumerate(reasons))
    )


def judge(*reasons):
    return run(PowerBrake(), {Gpu: samples(*reasons)}, len(reasons))[0]


@pytest.mark.parametrize("bits", [0x80, 0x80 | 0x8, 0x80 | 0x4])
def test_the_brake_held_for_three_seconds_pages(bits):
    found = judge(0, *[bits] * 4)
    assert said(found, "cause", "entity", "severity") == [(4.0, "gpu_power_brake", "n1/2", "page")]


@pytest.mark.parametrize("bits", [0x4, 0x8, 0x20, 0x40, 0x100])
def test_no_other_bit_is_the_brake(bits):
    assert judge(*[bits] * 30).is_empty()


def test_a_load_step_that_brakes_for_a_moment_is_not_a_fault():
    assert judge(*[0x80] * 3, *[0] * 30).is_empty()


def test_a_flapping_line_is_one_level():
    assert said(judge(*[0x80] * 5, *([0] * 5 + [0x80]) * 5, *[0] * 32), "active") == [(3.0, True), (65.0, False)]


@settings(max_examples=25, deadline=None)
@given(bits=st.lists(st.sampled_from([None, 0, 0x80, 0x80]), min_size=1, max_size=40), cuts=cutting(45))
def test_no_cut_changes_anything(bits, cuts):
    assert_cuts_change_nothing(PowerBrake(clear_seconds=3), {Gpu: samples(*bits)}, 45, cuts)
