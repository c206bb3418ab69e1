import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.hydraulics import RESIDUAL_FLOW_SHARE, loop_flow, pump_powers, speed_after

speed = st.floats(0.2, 1.2)


def test_both_pumps_at_nominal_speed_give_nominal_flow():
    assert loop_flow(np.array([[1.0, 1.0]]))[0] == pytest.approx(1.0, abs=1e-6)


@settings(deadline=None)
@given(speed)
def test_flow_goes_with_speed(share):
    assert loop_flow(np.array([[share, share]]))[0] == pytest.approx(share, abs=1e-6)


@settings(deadline=None)
@given(speed)
def test_power_goes_with_the_cube_of_speed(share):
    liters = np.array([400.0])
    nominal = pump_powers(np.array([[1.0, 1.0]]), liters)
    assert pump_powers(np.array([[share, share]]), liters) == pytest.approx(nominal * share**3)


def test_one_pump_of_two_loses_more_than_30_percent_but_not_half_of_the_flow():
    assert 0.5 < loop_flow(np.array([[1.0, 0.0]]))[0] < 0.7


def test_the_operating_point_lies_on_both_the_pump_curve_and_the_loop_curve():
    # Pump: 1 + 6/4 at no flow, falling with 6 q^2; loop: Q^2. One pump carries the whole Q.
    flow = loop_flow(np.array([[1.0, 0.0]]))[0]
    assert 2.5 - 6 * flow**2 == pytest.approx(flow**2, abs=1e-6)


def test_with_all_pumps_stopped_only_the_residual_flow_is_left():
    assert loop_flow(np.array([[0.0, 0.0]]))[0] == RESIDUAL_FLOW_SHARE


def test_a_stopped_pump_coasts_down_to_a_standstill_within_ten_seconds():
    speeds = np.array([[1.0, 1.0]])
    for _ in range(10):
        speeds = speed_after(speeds, np.zeros((1, 2)))
    assert (speeds == 0).all()
