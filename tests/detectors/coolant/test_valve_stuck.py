import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.coolant.valve_stuck import ValveStuck
from schemas.coolant import ColdPlate
from schemas.gpu import Gpu
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def host(
    own,
    peers=lambda _: 100.0,
    *,
    watts=lambda _: 700.0,
    own_watts=None,
    flow=lambda valve: valve / 100,
    gpus=5,
    every=10,
):
    """GPUs of one host, a row in `every` seconds; valve openings in percent and watts by second, n1/0 being its own."""

    def valve(t, gpu):
        return peers(t) if gpu else own(t)

    times = range(0, 300, every)
    return {
        Gpu: rows(Gpu, *(
            {"time": t, "node": "n1", "gpu": gpu, "power_watts": watts(t) if gpu else (own_watts or watts)(t)}
            for t in times for gpu in range(gpus)
        )),
        ColdPlate: rows(ColdPlate, *(
            {"time": t, "node": "n1", "gpu": gpu, "valve_percent": valve(t, gpu),
             "flow_liters_per_minute": flow(valve(t, gpu))}
            for t in times for gpu in range(gpus)
        )),
    }  # fmt: skip


def judge(tables):
    return run(ValveStuck(), tables, 300)[0]


def test_a_valve_half_closed_under_load_starves_its_plate_and_pages():
    found = judge(host(lambda t: 50.0 if t >= 100 else 100.0))
    assert found.select("cause", "kind", "entity", "severity", "code", "active").rows() == [
        ("valve_stuck", "gpu", "n1/0", "page", "too_far_closed", True)
    ]


def test_a_valve_that_does_not_follow_the_power_when_its_peers_do_is_a_ticket():
    def falls(t):
        return 60.0 if t >= 100 else 100.0

    found = judge(host(lambda _: 100.0, falls, watts=lambda t: 350.0 if t >= 100 else 700.0))
    assert found.select("severity", "code").rows() == [("ticket", "too_far_open")]


def test_a_valve_that_follows_its_own_idle_gpu_is_well():
    idle = host(lambda t: 30.0 if t >= 100 else 100.0, own_watts=lambda t: 92.0 if t >= 100 else 700.0)
    assert judge(idle).is_empty()


@pytest.mark.parametrize(("opening", "findings"), [(86.0, 0), (84.0, 1)])
def test_the_threshold_is_fifteen_points(opening, findings):
    assert judge(host(lambda _: opening)).height == findings


def test_three_gpus_are_too_few_to_compare():
    assert judge(host(lambda _: 50.0, gpus=3)).is_empty()


def test_without_a_reading_nothing_is_said():
    assert judge(host(lambda _: None, flow=lambda _: 0.5)).is_empty()


def test_it_begins_after_half_a_minute_and_ends_a_minute_after_the_valve_moves_again():
    # The bucket of 100 s is judged a second later, when all have had the time to send; one of 103 s waits for 110 s.
    found = judge(host(lambda t: 50.0 if 100 <= t < 200 else 100.0))
    assert said(found, "active") == [(131.0, True), (261.0, False)]
    assert said(judge(host(lambda t: 50.0 if t >= 103 else 100.0, every=1)), "active") == [(141.0, True)]


def test_gpus_whose_power_differs_by_a_tenth_are_compared_and_by_a_half_are_not():
    assert judge(host(lambda _: 50.0, own_watts=lambda _: 630.0)).height == 1
    assert judge(host(lambda _: 65.0, own_watts=lambda _: 350.0)).is_empty()


def test_a_valve_too_far_closed_whose_plate_has_most_of_its_flow_is_a_ticket():
    found = judge(host(lambda _: 50.0, flow=lambda valve: 0.8 if valve < 100 else 1.0))
    assert found.select("severity", "code").rows() == [("ticket", "too_far_closed")]


def test_four_gpus_are_enough_to_compare():
    assert judge(host(lambda _: 50.0, gpus=4))["entity"].to_list() == ["n1/0"]


@settings(deadline=None, max_examples=15)
@given(cuts=cutting(300), opening=st.sampled_from([50.0, 100.0]))
def test_cuts_change_nothing(cuts, opening):
    assert_cuts_change_nothing(ValveStuck(), host(lambda t: opening if 50 <= t < 200 else 100.0), 300, cuts)
