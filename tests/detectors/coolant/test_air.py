import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.coolant.air import CoolantAir
from schemas.coolant import CoolantLoop
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run


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


@settings(deadline=None, max_examples=10)
@given(cuts=cutting(200), worse=st.sampled_from([0.004, 0.05]))
def test_cuts_change_nothing(cuts, worse):
    noise = lambda t: worse if t >= 100 else 0.004  # noqa: E731  # shorter than a name for it
    assert_cuts_change_nothing(CoolantAir(), loop(200, flow_noise=noise, head_noise=noise), 200, cuts)
