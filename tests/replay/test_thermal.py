import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.thermal import (
    clock_share_after,
    outlet_rise,
    plate_conductance,
    temperature_after,
)

watts = st.floats(50.0, 1000.0)
liters_per_minute = st.floats(0.05, 5.0)


def test_without_flow_a_plate_at_700_watts_warms_by_1_4_kelvin_a_second():
    # 0.6 kg of copper (385 J/kg K) and 60 mL of coolant (1.015 kg/L, 3930 J/kg K) are 470 J/K; with the board 510.
    conductance = plate_conductance(np.array([0.0]), np.array([0.024]))
    temperature = np.array([65.0])
    after = temperature_after(temperature, np.array([700.0]), conductance * (temperature - 35.0))
    assert after[0] - temperature[0] == pytest.approx(1.4, abs=0.05)


def test_without_flow_a_gpu_goes_from_65_to_87_celsius_in_16_seconds():
    temperature, seconds = np.array([65.0]), 0
    while temperature[0] < 87.0:
        temperature = temperature_after(temperature, np.array([700.0]), np.zeros(1))
        seconds += 1
    assert seconds == pytest.approx(16, abs=1)


def test_one_and_a_half_liters_per_minute_carry_a_kilowatt_at_ten_kelvin():
    # Open Compute: 1.5 L/min per kW at 10 K for PG25.
    assert outlet_rise(np.array([1000.0]), np.array([1.5]))[0] == pytest.approx(10.0, rel=0.01)


@settings(deadline=None)
@given(watts, liters_per_minute)
def test_what_the_coolant_gains_is_what_the_plate_gives(heat, flow):
    rise = outlet_rise(np.array([heat]), np.array([flow]))[0]
    assert 1.015 * flow / 60 * 3930 * rise == pytest.approx(heat)


@settings(deadline=None)
@given(liters_per_minute, st.floats(0.01, 0.05))
def test_the_outlet_never_gets_hotter_than_the_gpu(flow, resistance):
    heat = plate_conductance(np.array([flow]), np.array([resistance])) * 50.0
    assert 0 < outlet_rise(heat, np.array([flow]))[0] <= 50.0


@settings(deadline=None)
@given(liters_per_minute, st.floats(1.01, 3.0))
def test_more_flow_cools_better(flow, more):
    resistance = np.array([0.024])
    assert plate_conductance(np.array([flow * more]), resistance) > plate_conductance(np.array([flow]), resistance)


def test_a_gpu_below_its_limit_keeps_its_clock():
    share, hardware = clock_share_after(np.array([1.0]), np.array([86.9]))
    assert (share[0], hardware[0]) == (1.0, False)


def test_two_kelvin_above_its_limit_hardware_takes_half_the_clock_at_once():
    share, hardware = clock_share_after(np.array([1.0]), np.array([89.0]))
    assert (share[0], hardware[0]) == (0.5, True)
