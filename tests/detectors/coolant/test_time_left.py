from math import exp, inf

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.coolant.time_left import resistance, seconds_until


def left(limit, *, now, inlet=35.0, watts=700.0, ohm=inf, joules=510.0):
    frame = pl.DataFrame({"now": [now], "inlet": [inlet], "watts": [watts], "ohm": [ohm]})
    return frame.select(
        seconds_until(
            limit, celsius=pl.col("now"), inlet_celsius=pl.col("inlet"), power_watts=pl.col("watts"),
            kelvin_per_watt=pl.col("ohm"), joules_per_kelvin=joules,
        )
    ).item()  # fmt: skip


@pytest.mark.parametrize(("now", "limit", "seconds"), [(55.0, 87.0, 23), (65.0, 87.0, 16), (65.0, 95.0, 22)])
def test_without_flow_it_is_what_the_domain_facts_say_of_a_700_watt_plate(now, limit, seconds):
    assert left(limit, now=now) == pytest.approx(seconds, abs=0.5)


def test_with_enough_flow_left_it_never_gets_there():
    assert left(87.0, now=60.0, ohm=0.05) == inf  # 35 + 35 = 70


def test_at_the_limit_no_time_is_left():
    assert left(87.0, now=90.0) == 0.0


@settings(deadline=None, max_examples=30)
@given(now=st.floats(40, 80), ohm=st.floats(0.08, 2.0))
def test_the_plate_is_at_the_limit_after_that_time(now, ohm):
    seconds = left(87.0, now=now, ohm=ohm)
    end = 35 + ohm * 700
    assert end + (now - end) * exp(-seconds / (ohm * 510)) == pytest.approx(87.0, abs=0.05)


def test_resistance_is_nominal_at_nominal_flow_and_grows_as_flow_falls():
    frame = pl.DataFrame({"share": [1.0, 0.6, 0.05, 0.0]})
    ohms = frame.select(
        resistance(pl.col("share"), kelvin_per_watt=0.043, power_watts=700.0, convection_share=0.33)
    ).to_series().to_list()  # fmt: skip
    assert ohms[0] == pytest.approx(0.043)
    assert ohms == sorted(ohms)
    # 60 % flow: 0.0072 / 0.6 + 0.0118 / 0.6^0.8 + 0.0240 K/W, with m cp of 1.05 L/min = 69.8 W/K
    assert ohms[1] == pytest.approx(0.01195 + 0.01778 + 0.02399, abs=1e-4)
