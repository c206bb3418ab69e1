import pytest

from detectors.fabric.link_down import LinkDown
from schemas.fabric import FabricPort
from schemas.job import Maintenance
from tests.detectors.fabric.fabric_timelines import TOPOLOGY, A, B, at, judge, maintenance, port, statements, table_of
from tests.detectors.timelines import run


def both(states_a, states_b, step=10):
    """A sample of each end every step, b five seconds after a; None: the end is silent."""
    rows = [port(step * number, A, state) for number, state in enumerate(states_a) if state]
    return rows + [port(step * number + 5, B, state) for number, state in enumerate(states_b) if state]


def test_down_at_both_ends_for_25_seconds():
    findings = judge(LinkDown(), both(["active"] * 3 + ["down"] * 4, ["active"] * 3 + ["down"] * 4))
    assert statements(findings) == [(55, "c1", True)]
    assert findings["first_bad_at"].to_list() == [at(30)]
    assert findings["code"].to_list() == ["both_ends_known"]


def test_a_short_outage_is_not_down():
    short = ["active"] * 3 + ["down"] * 2 + ["active"] * 3
    assert judge(LinkDown(), both(short, short)).is_empty()


def test_an_end_that_says_active_contradicts():
    assert judge(LinkDown(), both(["active"] * 3 + ["down"] * 9, ["active"] * 12)).is_empty()


def test_a_far_end_that_fell_silent_contradicts_nothing():
    findings = judge(LinkDown(), both(["active"] * 3 + ["down"] * 4, ["active"] * 3 + [None] * 4))
    assert statements(findings) == [(60, "c1", True)]


def test_a_far_end_that_never_spoke_contradicts_nothing():
    findings = judge(LinkDown(), both(["active"] * 3 + ["down"] * 4, []))
    assert statements(findings) == [(60, "c1", True)]
    assert findings["code"].to_list() == ["one_end_known"]


def test_an_active_far_end_is_believed_for_four_intervals():
    # b says active once more after a went down (at 35), then nothing: 4 x 30 s later, at 155, it contradicts no more.
    findings = judge(LinkDown(), both(["active"] * 3 + ["down"] * 20, ["active"] * 4))
    assert statements(findings) == [(160, "c1", True)]


def test_ends_with_the_first_sample_at_which_no_end_is_down():
    states = ["active"] * 2 + ["down"] * 5 + ["active"] * 2
    assert statements(judge(LinkDown(), both(states, states))) == [(45, "c1", True), (75, "c1", False)]


def test_an_empty_port_is_down_for_ever_and_no_failure():
    assert judge(LinkDown(), [port(10 * number, ("leaf-009", 40), "down") for number in range(20)]).is_empty()


def test_a_port_without_a_cable_that_was_active_is_a_failure():
    rows = [port(10 * number, ("leaf-009", 40), "down" if number else "active") for number in range(6)]
    assert statements(judge(LinkDown(), rows)) == [(40, "leaf-009:40", True)]


@pytest.mark.parametrize(
    ("kind", "entity"), [("switch", "leaf-000"), ("switch", "spine-000"), ("cable", "c1"), ("link", "c1")]
)
def test_what_goes_down_in_maintenance_was_meant_to(kind, entity):
    down = ["active"] * 3 + ["down"] * 6 + ["active"] * 3
    assert judge(LinkDown(), both(down, down), [maintenance(kind, entity, 25, 95)]).is_empty()


def test_maintenance_told_in_an_earlier_batch_is_remembered():
    down = ["active"] * 3 + ["down"] * 6
    tables = {FabricPort: table_of(FabricPort, both(down, down))}
    assert run(LinkDown(), tables, 100, (25,), TOPOLOGY)[0].height == 1
    plan = table_of(Maintenance, [maintenance("cable", "c1", 20, 600)])
    assert run(LinkDown(), {**tables, Maintenance: plan}, 100, (25,), TOPOLOGY)[0].is_empty()


def test_what_stays_down_after_its_maintenance_is_a_failure():
    down = ["active"] * 3 + ["down"] * 12
    findings = judge(LinkDown(), both(down, down), [maintenance("cable", "c1", 25, 60)])
    # Bad counts from the first sample 25 s after the window: 85 s, and is a failure 25 s later.
    assert statements(findings) == [(110, "c1", True)]


def test_maintenance_elsewhere_excuses_nothing():
    down = ["active"] * 3 + ["down"] * 4
    assert statements(judge(LinkDown(), both(down, down), [maintenance("cable", "c2", 0, 900)])) == [(55, "c1", True)]


def test_one_end_down_for_four_minutes_is_a_failure_of_one_direction():
    # a is down from 30 s on; b goes on saying active. Four minutes later the first sample says so.
    findings = judge(LinkDown(), both(["active"] * 3 + ["down"] * 30, ["active"] * 33))
    assert [(entity, active) for _, entity, active in statements(findings)] == [("c1", True)]
    assert 270 <= statements(findings)[0][0] < 280
    assert findings["code"].to_list() == ["one_end_only"]
    assert findings["first_bad_at"].to_list() == [at(30)]
