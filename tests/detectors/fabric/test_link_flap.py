import pytest

from detectors.fabric.link_flap import AZURE, GCM, GPUD, NVSENTINEL, POLICIES, SONIC, VALIDATION, LinkFlap
from tests.detectors.fabric.fabric_timelines import A, B, judge, port, statements


def counted(totals, end=A, step=30):
    return [port(step * number, end, downed=total) for number, total in enumerate(totals)]


def test_two_outages_in_five_minutes_are_a_flap_of_the_cable():
    findings = judge(LinkFlap(), counted([7, 8, 8, 9]))
    assert statements(findings) == [(90, "c1", True)]
    assert findings.select("code", "severity").row(0) == ("2 in 5 min", "page")


def test_both_ends_seeing_the_same_outages_are_one_finding():
    both = counted([0, 1, 2]) + counted([4, 5, 6], B)
    assert statements(judge(LinkFlap(), both)) == [(60, "c1", True)]


def test_one_outage_seen_by_both_ends_is_one_outage():
    assert judge(LinkFlap(), counted([0, 1, 1]) + counted([4, 5, 5], B)).is_empty()


def test_one_outage_shown_by_state_and_then_by_counter_is_one():
    rows = [port(0, A, "active", 3), port(30, A, "down", 3), port(60, A, "active", 4), port(90, A, "active", 4)]
    assert judge(LinkFlap(), rows).is_empty()


def test_states_alone_tell_outages_when_no_counter_is_reported():
    rows = [port(30 * number, A, state) for number, state in enumerate(["active", "down", "active", "down", "active"])]
    assert statements(judge(LinkFlap(), rows)) == [(90, "c1", True)]


def test_the_first_sample_never_counts():
    assert judge(LinkFlap(), counted([40])).is_empty()


def test_a_counter_that_was_reset_is_not_a_flap():
    assert judge(LinkFlap(), counted([200, 3, 3, 3])).is_empty()


def test_a_saturated_counter_says_nothing():
    # The classic LinkDowned counter has 8 bits and stops at 255.
    assert judge(LinkFlap(), counted([255] * 20)).is_empty()


def test_outages_somewhere_in_a_long_gap_are_not_said_to_be_close():
    assert judge(LinkFlap(), counted([0, 2], step=600)).is_empty()


def test_three_in_two_hours_are_the_patient_policy():
    findings = judge(LinkFlap(), counted([0, 1, 1, 2, 2, 3], step=1200))
    assert statements(findings) == [(6000, "c1", True)]
    assert findings["code"].to_list() == ["3 in 2 h"]


def test_three_in_more_than_three_hours_are_none():
    assert judge(LinkFlap(), counted([0, 1, 1, 2, 2, 3], step=2400)).is_empty()


def test_a_flap_ends_when_its_window_has_passed_on_a_live_link():
    findings = judge(LinkFlap(), counted([0, 1, 2] + [2] * 20))
    # The first outage is dated to the sample before it was seen, second 0: out of a 300 s window after second 300.
    assert statements(findings) == [(60, "c1", True), (330, "c1", False)]


def test_a_port_without_a_cable_speaks_for_itself():
    assert statements(judge(LinkFlap(), counted([0, 1, 2], ("leaf-009", 33)))) == [(60, "leaf-009:33", True)]


def test_gpud_counts_returns_after_25_seconds_down():
    quick = ["active", "down", "active"] * 4
    slow = ["active", "down", "down", "active"] * 4

    def run(states):
        return judge(LinkFlap(policies=(GPUD,)), [port(15 * number, A, state) for number, state in enumerate(states)])

    assert run(quick).is_empty()
    # Returns at samples 3, 7 and 11.
    assert statements(run(slow)) == [(165, "c1", True)]


@pytest.mark.parametrize(
    ("policy", "outages", "hours"), [(SONIC, 3, 2), (NVSENTINEL, 3, 1), (GPUD, 3, 12), (AZURE, 5, 24), (GCM, 1, 24)]
)
def test_policies_are_those_of_the_field(policy, outages, hours):
    assert (policy.outages, policy.window_seconds) == (outages, hours * 3600)
    assert policy in POLICIES


def test_the_strictest_policy_takes_a_single_outage():
    assert statements(judge(LinkFlap(policies=(GCM,)), counted([7, 7, 8]))) == [(60, "c1", True)]


def test_the_validation_policy_takes_one_outage_of_half_a_minute():
    def run(states):
        return judge(LinkFlap(policies=(VALIDATION,)), [port(15 * n, A, state) for n, state in enumerate(states)])

    assert run(["active", "down", "active"]).is_empty()
    assert statements(run(["active", "down", "down", "down", "active"])) == [(60, "c1", True)]
