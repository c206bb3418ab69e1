import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.gpu.thermal_resistance import ThermalResistance
from schemas.coolant import ColdPlate
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

INLET, NOMINAL = 35.0, 0.04  # 28 K at 700 W
QUICK = ThermalResistance(sustained_seconds=30, clear_seconds=60)


def host(resistance, *, seconds=600, watts=lambda _: 700.0, flow=lambda _: 1.05, bits=lambda _: 0, everyone=False):
    """Five GPUs of one host at one row in ten seconds; the resistance of n1/0 by second, of all with `everyone`."""
    return {
        Gpu: rows(Gpu, *(
            {
                "time": t, "node": "n1", "gpu": gpu, "power_watts": watts(t), "clocks_event_reasons": bits(t),
                "temperature_celsius": INLET + watts(t) * (resistance(t) if everyone or not gpu else NOMINAL),
            }
            for t in range(0, seconds, 10) for gpu in range(5)
        )),
        ColdPlate: rows(ColdPlate, *(
            {
                "time": t, "node": "n1", "gpu": gpu, "inlet_celsius": INLET,
                "flow_liters_per_minute": 1.05 if gpu else flow(t),
            }
            for t in range(0, seconds, 10) for gpu in range(5)
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


@settings(deadline=None, max_examples=15)
@given(cuts=cutting(300), share=st.sampled_from([1.0, 1.2]))
def test_cuts_change_nothing(cuts, share):
    assert_cuts_change_nothing(QUICK, host(step(share * NOMINAL, 100), seconds=300), 300, cuts)
