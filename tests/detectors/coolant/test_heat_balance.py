import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.coolant.heat_balance import HeatBalance
from schemas.coolant import ColdPlate, CoolantLoop
from schemas.gpu import Gpu
from schemas.topology import LINK_COLUMNS, topology_from_frames
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said

TOPOLOGY = topology_from_frames(
    "one loop", pl.DataFrame({"node": ["n1"], "cdu": ["cdu-0"]}), pl.DataFrame(schema=LINK_COLUMNS)
)
ENDS = 900


def loop(
    *,
    meter=1.0,
    kelvin=0.0,
    heat=1.0,
    load=lambda _: 1.0,
    water=None,
    gpus=lambda _: 4,
    plates=True,
    facility=True,
    since=300,
    until=ENDS,
    shows=None,
    ends=ENDS,
    every=10,
):
    """Four GPUs of 700 W on 4 L/min, a row in `every` seconds. From `since` on the flow meter shows `meter` of the
    flow, the return sensor `kelvin` more, and only `heat` of the power is in the water. water: the load whose heat is
    in the water at t; without, that of t. shows: the share of the flow that the meter shows at t.
    """

    def late(t, value, usual):
        return value if since <= t < until else usual

    times = range(0, ends, every)
    watts = {t: 2800.0 * (water or load)(t) * late(t, heat, 1.0) for t in times}
    tables = {
        Gpu: rows(Gpu, *(
            {"time": t, "node": "n1", "gpu": gpu, "power_watts": 700.0 * load(t)}
            for t in times for gpu in range(gpus(t))
        )),
        CoolantLoop: rows(CoolantLoop, *(
            {
                "time": t, "cdu": "cdu-0", "flow_liters_per_minute": 4.0 * (shows(t) if shows else late(t, meter, 1.0)),
                "supply_celsius": 35.0,
                "return_celsius": 35.0 + watts[t] / (66.5 * 4) + late(t, kelvin, 0.0),
                "facility_supply_celsius": 30.0 if facility else None, "facility_return_celsius": 30.0 + watts[t] / 330,
            }
            for t in times
        )),
    }  # fmt: skip
    if plates:
        tables[ColdPlate] = rows(ColdPlate, *(
            {"time": t, "node": "n1", "gpu": gpu, "flow_liters_per_minute": 1.0} for t in times for gpu in range(4)
        ))  # fmt: skip
    return tables


def judge(tables):
    found = run(HeatBalance(), tables, ENDS, topology=TOPOLOGY)[0]
    return found.select("cause", "kind", "entity", "code", "active").rows()


SOURCE = ("telemetry_implausible", "source", "coolant_loop:cdu-0")


def test_a_flow_meter_that_the_plates_contradict_lies():
    assert judge(loop(meter=0.8)) == [(*SOURCE, "flow_meter", True)]


def test_a_temperature_that_the_facility_contradicts_lies():
    assert judge(loop(kelvin=3.0)) == [(*SOURCE, "temperature_sensor", True)]


def test_without_plate_meters_the_facility_still_tells_a_sensor_from_heat():
    assert judge(loop(meter=0.8, plates=False)) == [(*SOURCE, "flow_meter_or_temperature_sensor", True)]


def test_heat_that_neither_water_has_is_really_missing():
    assert judge(loop(heat=0.8)) == [("coolant_heat_unbalanced", "cdu", "cdu-0", "heat_missing", True)]
    assert judge(loop(heat=1.3, facility=False)) == [("coolant_heat_unbalanced", "cdu", "cdu-0", "heat_added", True)]


@pytest.mark.parametrize(("meter", "findings"), [(0.92, 0), (0.88, 1)])
def test_the_threshold_is_ten_percent(meter, findings):
    assert len(judge(loop(meter=meter))) == findings


def test_a_load_that_changes_is_balanced():
    assert judge(loop(load=lambda t: 0.5 if t >= 300 else 1.0)) == []


def test_heat_that_comes_later_than_its_power_is_no_imbalance():
    """A sample in 30 falls into the pause of a checkpoint, and a hang of three minutes takes half of the power. Plates
    and loop give their heat back over a minute.
    """

    def load(t):
        return 0.35 if t % 300 == 90 else 0.45 if 400 <= t < 580 else 1.0

    weights = [0.85**age for age in range(30)]
    later = {t: sum(w * load(t - 10 * age) for age, w in enumerate(weights)) / sum(weights) for t in range(0, ENDS, 10)}
    assert judge(loop(load=load, water=later.__getitem__)) == []


def test_gpus_that_fall_silent_are_no_heat_from_elsewhere():
    assert judge(loop(gpus=lambda t: 2 if t >= 300 else 4)) == []


def test_a_loop_that_was_dark_may_warm_up_before_it_is_judged():
    """No row of a GPU for two minutes, as their power was lost; the water gives heat back with the loop's 60 s."""
    dark = range(300, 420)

    def water(t):
        return 0.0 if t in dark else 1 - 0.9 ** ((t - 420) / 6.3) if t >= 420 else 1.0

    assert judge(loop(gpus=lambda t: 0 if t in dark else 4, water=water)) == []


def judged_at(tables, ends=ENDS):
    return said(run(HeatBalance(), tables, ends, topology=TOPOLOGY)[0], "active")


def test_begins_and_ends_when_its_means_and_waits_say_so():
    # Every 10 s a mean over a minute goes a seventh of the way: 0.107 of 0.2 after 5 samples, at 340 s; back it is
    # below 0.1 after 5, at 540 s. A bucket is judged a second after its beginning.
    assert judged_at(loop(meter=0.8, until=500)) == [(401.0, True), (841.0, False)]


def test_one_sample_in_ten_seconds_is_enough():
    # Half of the flow since 203 s: 0.07 at 210 s, 0.13 at 220 s.
    assert judged_at(loop(meter=0.5, since=203, ends=300, every=1), 300) == [(281.0, True)]


def test_six_samples_in_a_minute_of_steady_state_are_a_normal():
    # Learnt from 60 s on, so known at 120 s; the meter shows 0.3 of the flow since 100 s.
    assert judged_at(loop(meter=0.3, since=100)) == [(181.0, True)]


def test_the_normal_is_that_of_the_first_six_minutes():
    # A fiftieth less in 100 s. Six minutes from 60 s on have 0.964 in their mean, which lies a minute behind; a tenth
    # less than that comes at 722 s, and 60 s later it is said.
    ((second, active),) = judged_at(loop(shows=lambda t: 1 - 2e-4 * t))
    assert active
    assert second == pytest.approx(782, abs=25)


def test_power_that_trembles_by_three_percent_is_steady():
    def load(t):
        return 1.06 if t // 30 % 2 else 1.0

    assert judge(loop(meter=0.8, load=load)) == [(*SOURCE, "flow_meter", True)]


def test_a_load_that_falls_by_a_fifth_is_not_judged_while_the_pipes_are_warm():
    def water(t):
        return 1.0 if t < 420 else 0.8

    assert judge(loop(load=lambda t: 0.8 if t >= 300 else 1.0, water=water)) == []


def test_a_gap_of_forty_seconds_is_no_reason_to_wait():
    # The sample of 340 s stands for 50 s: 0.09, and 0.107 at 350 s.
    assert judged_at(loop(meter=0.8, gpus=lambda t: 0 if 300 <= t < 340 else 4)) == [(411.0, True)]


@settings(deadline=None, max_examples=10)
@given(cuts=cutting(ENDS), meter=st.sampled_from([0.8, 1.0]))
def test_cuts_change_nothing(cuts, meter):
    assert_cuts_change_nothing(HeatBalance(), loop(meter=meter), ENDS, cuts, topology=TOPOLOGY)
