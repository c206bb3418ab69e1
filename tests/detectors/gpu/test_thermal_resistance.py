import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.thermal_resistance import ThermalResistance
from schemas.coolant import ColdPlate
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

INLET, NOMINAL = 35.0, 0.04  # 28 K at 700 W
DEFAULT = ThermalResistance()
QUICK = ThermalResistance(sustained_seconds=30, clear_seconds=60)


def host(
    resistance, *, seconds=600, watts=lambda _: 700.0, flow=lambda _: 1.05, bits=lambda _: 0, everyone=False, gpus=5,
    every=10,
):  # fmt: skip
    """GPUs of one host at one row in `every` seconds; the resistance of n1/0 by second, of all with `everyone`."""
    return {
        Gpu: rows(Gpu, *(
            {
                "time": t, "node": "n1", "gpu": gpu, "power_watts": watts(t), "clocks_event_reasons": bits(t),
                "temperature_celsius": INLET + watts(t) * (resistance(t) if everyone or not gpu else NOMINAL),
            }
            for t in range(0, seconds, every) for gpu in range(gpus)
        )),
        ColdPlate: rows(ColdPlate, *(
            {
                "time": t, "node": "n1", "gpu": gpu, "inlet_celsius": INLET,
                "flow_liters_per_minute": 1.05 if gpu else flow(t),
            }
            for t in range(0, seconds, every) for gpu in range(gpus)
        )),
    }  # fmt: skip


def step(to, at=200):
    return lambda second: to if second >= at else NOMINAL


def judge(tables, detector=QUICK, ends=600):
    return run(detector, tables, ends)[0]


def test_a_resistance_that_grows_by_a_fifth_at_the_same_load_is_a_clogged_plate():
    found = judge(host(step(1.2 * NOMINAL)))
    assert found.select("cause", "kind", "entity", "severity", "code", "active").rows() == [
        ("cold_plate_clogged", "gpu", "n1/0", "ticket", "resistance", True)
    ]


def test_with_less_flow_it_is_the_plate_and_not_the_paste():
    found = judge(host(step(1.2 * NOMINAL), flow=lambda t: 0.8 if t >= 200 else 1.05))
    assert found["code"].to_list() == ["resistance_and_flow"]


@pytest.mark.parametrize(("share", "findings"), [(1.08, 0), (1.14, 1)])
def test_the_threshold_is_ten_percent(share, findings):
    assert judge(host(step(share * NOMINAL))).height == findings


def test_more_power_is_more_heat_and_no_fault():
    assert judge(host(step(NOMINAL), watts=lambda t: 700.0 if t >= 200 else 350.0)).is_empty()


def test_a_gpu_whose_power_has_just_fallen_is_warm_and_not_clogged():
    """Half the power from 200 s on; its plate of 510 J/K behind 0.04 K/W follows with a time constant of 20 s."""
    tables = host(step(NOMINAL))
    since = (pl.col("time") - pl.col("time").min()).dt.total_seconds() - 200
    alone, share = (since >= 0) & (pl.col("gpu") == 0), 0.5 + 0.5 * (-since / (510 * NOMINAL)).exp()
    tables[Gpu] = tables[Gpu].with_columns(
        power_watts=pl.when(alone).then(350.0).otherwise("power_watts"),
        temperature_celsius=pl.when(alone).then(INLET + 28 * share).otherwise("temperature_celsius"),
    )
    assert judge(tables).is_empty()


def test_what_moves_all_gpus_of_a_host_is_not_the_plate():
    assert judge(host(step(1.2 * NOMINAL), everyone=True)).is_empty()


def test_a_gpu_that_heat_slows_has_a_detector_of_its_own():
    assert judge(host(step(1.2 * NOMINAL), bits=lambda t: 0x20 if t >= 200 else 0)).is_empty()


def test_a_plate_bad_from_the_first_day_is_found_by_its_peers():
    assert said(judge(host(lambda _: 1.6 * NOMINAL)), "entity", "active") == [(81.0, "n1/0", True)]
    assert judge(host(lambda _: 1.4 * NOMINAL)).is_empty()


def test_a_plate_that_is_cleaned_is_good_again():
    found = judge(host(lambda t: 1.3 * NOMINAL if 200 <= t < 400 else NOMINAL))
    assert found["active"].to_list() == [True, False]


def test_a_learnt_normal_does_not_follow_a_drift_of_weeks():
    found = judge(host(lambda t: NOMINAL * (1 + 0.3 * t / 3600), seconds=3600), ends=3600)
    assert found["active"].to_list() == [True]


def test_begins_and_ends_when_its_means_and_waits_say_so():
    # Every 10 s a mean over half a minute goes a quarter of the way: of 0.3, 0.13 after 2 samples, at 210 s; back it is
    # below 0.1 after 4, at 430 s. A bucket is judged a second after its beginning.
    found = judge(host(lambda t: 1.3 * NOMINAL if 200 <= t < 400 else NOMINAL, seconds=1100, gpus=1), DEFAULT, 1100)
    assert said(found, "active") == [(271.0, True), (1031.0, False)]


def test_one_sample_in_ten_seconds_is_enough():
    found = judge(host(step(1.3 * NOMINAL, 203), seconds=300, gpus=1, every=1), DEFAULT, 300)
    assert said(found, "active") == [(281.0, True)]


def test_three_gpus_of_a_host_tell_nothing_of_what_all_have_in_common_and_four_do():
    assert judge(host(step(1.3 * NOMINAL), everyone=True, gpus=3))["entity"].n_unique() == 3
    assert judge(host(step(1.3 * NOMINAL), everyone=True, gpus=4)).is_empty()


def test_six_kelvin_over_the_inlet_drown_in_whole_degrees():
    assert judge(host(step(1.3 * NOMINAL), watts=lambda _: 150.0)).is_empty()


def test_the_normal_is_that_of_the_first_hour_under_load():
    # 0.08 an hour: the mean of the first hour is 1.04, and a tenth more than that comes at 1.8 h = 6,480 s; the mean
    # lies half a minute behind, and a minute later it is said.
    found = judge(host(lambda t: NOMINAL * (1 + 0.08 * t / 3600), seconds=9000, gpus=1), DEFAULT, 9000)
    assert said(found)[0][0] == pytest.approx(6570, abs=60)


@pytest.mark.parametrize(("hours", "found"), [(6, 0), (24, 1)])
def test_the_normal_follows_a_cleaned_plate_over_a_day(hours, found):
    # 0.3 less for a quarter of a day moves a mean over a day by 0.07, for a day by 0.19.
    until = 6000 + 3600 * hours
    tables = host(lambda t: 0.7 * NOMINAL if 6000 <= t < until else NOMINAL, seconds=until + 6000, gpus=1, every=600)
    assert judge(tables, DEFAULT, until + 6000).height == found


def test_a_gpu_whose_power_has_just_risen_is_still_cool():
    tables = host(step(NOMINAL), gpus=1)
    since = (pl.col("time") - pl.col("time").min()).dt.total_seconds() - 200
    share = pl.when(since < 0).then(0.5).otherwise(1 - 0.5 * (-since / (510 * NOMINAL)).exp())
    tables[Gpu] = tables[Gpu].with_columns(
        power_watts=pl.when(since < 0).then(350.0).otherwise(700.0), temperature_celsius=INLET + 28 * share
    )
    assert judge(tables, DEFAULT).is_empty()


@settings(deadline=None, max_examples=15)
@given(cuts=cutting(300), share=st.sampled_from([1.0, 1.2]))
def test_cuts_change_nothing(cuts, share):
    assert_cuts_change_nothing(QUICK, host(step(share * NOMINAL, 100), seconds=300), 300, cuts)
