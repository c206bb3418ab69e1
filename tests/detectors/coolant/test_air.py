import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.coolant.air import CoolantAir
from schemas.coolant import CoolantLoop
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def loop(ends=300, *, flow_noise=lambda _: 0.004, head_noise=lambda _: 0.004, level=lambda _: 1.0):
    """100 L/min against 150 kPa, each with its gaussian noise as a share by second, times a level."""
    drawn = random.Random(3)
    return {
        CoolantLoop: rows(CoolantLoop, *(
            {
                "time": t, "cdu": "cdu-0", "return_pressure_kpa": 150.0,
                "flow_liters_per_minute": 100 * level(t) * (1 + flow_noise(t) * drawn.gauss(0, 1)),
                "supply_pressure_kpa": 150 + 150 * level(t) ** 2 * (1 + head_noise(t) * drawn.gauss(0, 1)),
            }
            for t in range(ends)
        ))
    }  # fmt: skip


def judge(tables):
    return run(CoolantAir(), tables, 300)[0]


def air(t):
    return 0.04 if t >= 150 else 0.004


def test_flow_and_pressure_that_begin_to_tremble_are_air():
    found = judge(loop(flow_noise=air, head_noise=air))
    assert found.select("cause", "kind", "entity", "severity", "active").rows() == [
        ("coolant_air", "cdu", "cdu-0", "ticket", True)
    ]


def test_one_of_the_two_alone_is_a_bad_gauge():
    assert judge(loop(flow_noise=air)).is_empty()
    assert judge(loop(head_noise=air)).is_empty()


@pytest.mark.parametrize(
    "level",
    [lambda t: 0.05 if t >= 150 else 1.0, lambda t: max(0.3, 1 - max(0, t - 150) / 20), lambda t: 1 + 0.2 * (t > 150)],
    ids=["a pump that stops", "one that coasts down", "one that starts"],
)
def test_a_step_or_ramp_is_no_tremor(level):
    assert judge(loop(level=level)).is_empty()


def test_gauges_that_were_always_noisy_are_not_air():
    assert judge(loop(flow_noise=lambda _: 0.03, head_noise=lambda _: 0.03)).is_empty()


def trembling(share, ends, every=1):
    """Flow and head up and down by `share` (by second) at each sample, whose noise is twice that."""
    return {
        CoolantLoop: rows(CoolantLoop, *(
            {
                "time": t, "cdu": "cdu-0", "return_pressure_kpa": 150.0,
                "flow_liters_per_minute": 100 * (1 + share(t) * (-1) ** (t // every)),
                "supply_pressure_kpa": 150 + 150 * (1 + share(t) * (-1) ** (t // every)),
            }
            for t in range(0, ends, every)
        ))
    }  # fmt: skip


def test_it_begins_and_ends_when_its_means_and_waits_say_so():
    # A mean over 20 s goes 1/21 of the way at each sample. From 0.004^2 = 1.6e-5 it passes 0.015^2 = 2.2e-4 on its way
    # to 0.04^2 = 1.6e-3 with the fifth (the first three products are 0.9e-4, 8.8e-4 and 1.6e-3), and on its way back
    # after ln(1.48e-3 / 2.1e-4) * 20.5 = 40 samples more than two.
    found = run(CoolantAir(), trembling(lambda t: 0.02 if 150 <= t < 300 else 0.002, 500), 500)[0]
    (begins, active), (ends, _) = said(found, "active")
    assert (begins, active) == (154.0 + 15, True)
    assert ends == pytest.approx(342 + 120, abs=3)


def test_four_times_almost_nothing_is_the_gauges():
    assert run(CoolantAir(), trembling(lambda t: 0.004 if t >= 150 else 0.001, 300), 300)[0].is_empty()


def test_what_trembles_in_the_first_minute_has_no_normal_yet():
    assert run(CoolantAir(), trembling(lambda t: 0.02 if t >= 40 else 0.002, 200), 200)[0].is_empty()


@pytest.mark.parametrize(("variance", "found"), [(18e-4, 0), (27e-4, 1)])
def test_the_normal_follows_over_a_day(variance, found):
    # After days at 1e-4, six hours at 8e-4 move a mean over a day by 0.22 of the way, to 2.5e-4; nine times are 23e-4.
    def share(t):
        return (1e-4 if t < 345_600 else 8e-4 if t < 367_200 else variance) ** 0.5 / 2

    assert run(CoolantAir(), trembling(share, 371_000, 600), 371_000)[0].height == found


@settings(deadline=None, max_examples=10)
@given(cuts=cutting(200), worse=st.sampled_from([0.004, 0.05]))
def test_cuts_change_nothing(cuts, worse):
    noise = lambda t: worse if t >= 100 else 0.004  # noqa: E731  # shorter than a name for it
    assert_cuts_change_nothing(CoolantAir(), loop(200, flow_noise=noise, head_noise=noise), 200, cuts)
