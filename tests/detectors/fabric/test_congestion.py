import pytest

from detectors.fabric.congestion import Congestion
from tests.detectors.fabric.fabric_timelines import A, B, judge, port, statements

JAMMED_FROM = 300


def traffic(end=A, *, wait=5_000, jammed_wait=5_000, discards=0, pauses=0, seconds=900, raw=1e-9, errors=0):
    """A sample every 30 s; from JAMMED_FROM on so many ticks, discards and pauses a second, errors a sample."""
    rows = []
    for at in range(0, seconds, 30):
        jam = max(0, at - JAMMED_FROM)
        rows.append(
            {
                **port(at, end, downed=0), "counter_width": "extended",
                "transmit_wait_total": 10**9 + wait * (at - jam) + jammed_wait * jam,
                "transmit_discard_total": 40 + discards * jam, "pause_received_total": 9 + pauses * jam,
                "symbol_error_total": errors * (jam // 30), "raw_bit_error_rate": raw if jam else 1e-9,
            }
        )  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("jam", "code"),
    [({"jammed_wait": 50_000_000}, "credit"), ({"discards": 150}, "discards"), ({"pauses": 5_000}, "pause")],
)
def test_a_port_that_may_not_send_for_a_minute_is_congested(jam, code):
    findings = judge(Congestion(), traffic(**jam))
    # Seen at 330 s, a minute long at 390 s.
    assert statements(findings) == [(390, "c1", True)]
    assert findings.select("cause", "code", "severity").row(0) == ("link_congested", code, "info")


def test_a_burst_shorter_than_a_minute_is_not():
    burst = traffic(jammed_wait=50_000_000, seconds=375)
    after = [
        {**row, "transmit_wait_total": burst[-1]["transmit_wait_total"] + 5_000 * (30 * n + 30)}
        for n, row in enumerate(traffic()[13:])
    ]
    assert judge(Congestion(), burst + after).is_empty()


@pytest.mark.parametrize("damage", [{"errors": 3}, {"raw": 1e-5}])
def test_waiting_on_a_damaged_link_is_a_symptom(damage):
    assert judge(Congestion(), traffic(jammed_wait=50_000_000, **damage)).is_empty()


def test_so_it_is_when_the_receiver_is_the_damaged_one():
    assert judge(Congestion(), traffic(jammed_wait=50_000_000) + traffic(B, raw=1e-5)).is_empty()


def test_and_not_when_the_receiver_is_well():
    rows = traffic(jammed_wait=50_000_000) + traffic(B)
    assert [entity for _, entity, _ in statements(judge(Congestion(), rows))] == ["c1"]


def test_more_waiting_than_ever_may_still_be_little():
    assert judge(Congestion(), traffic(wait=10, jammed_wait=500_000)).is_empty()


def test_a_port_that_always_waits_much_is_not_new():
    assert judge(Congestion(), traffic(wait=40_000_000, jammed_wait=60_000_000)).is_empty()


def test_a_few_discards_are_the_fabrics_daily_life():
    assert judge(Congestion(), traffic(discards=99)).is_empty()


@pytest.mark.parametrize(("jam", "found"), [
    ({"wait": 200_000, "jammed_wait": 2_000_000}, 0), ({"wait": 40_000, "jammed_wait": 2_000_000}, 1),
    ({"pauses": 500}, 0), ({"pauses": 2_000}, 1), ({"jammed_wait": 50_000_000, "raw": 2e-6}, 1),
])  # fmt: skip
def test_the_limits_are_thirty_times_the_usual_a_thousand_pauses_and_the_raw_rate_of_a_good_link(jam, found):
    assert judge(Congestion(), traffic(**jam)).height == found


def waiting(*ticks_a_second):
    """A sample every 30 s, after which the port has waited so many ticks a second."""
    total, rows = 10**9, []
    for number, ticks in enumerate(ticks_a_second):
        total += 30 * ticks
        rows.append({**port(30 * number, A, downed=0), "counter_width": "extended", "transmit_wait_total": total})
    return rows


def test_it_ends_after_a_minute_of_free_passage():
    findings = judge(Congestion(), waiting(*[5_000] * 11, *[50_000_000] * 10, *[5_000] * 5))
    assert statements(findings) == [(390, "c1", True), (690, "c1", False)]


def test_two_samples_are_no_normal():
    assert judge(Congestion(), waiting(*[5_000] * 2, *[50_000_000] * 10)).is_empty()


@pytest.mark.parametrize(("ticks", "found"), [(7_000_000, 0), (15_000_000, 1)])
def test_the_normal_follows_over_an_hour(ticks, found):
    # After hours at 40,000, twenty minutes at 1e6 have moved a mean over an hour by 0.28 of the way, to 310,000.
    steps = waiting(*[40_000] * 300, *[1_000_000] * 40, *[ticks] * 5)
    assert judge(Congestion(), steps).height == found


def test_a_link_that_has_just_retrained_is_not_judged_for_a_minute():
    rows = [{**row, "link_downed_total": int(number >= 11)} for number, row in enumerate(traffic(discards=150))]
    # Trained by 330 s, settled at 420 s, a minute long at 480 s.
    assert statements(judge(Congestion(), rows)) == [(480, "c1", True)]


def test_what_the_receiver_said_counts_for_five_intervals():
    rows = traffic(discards=150) + traffic(B, raw=1e-5, seconds=331)
    # Its last words, of damage, are from 330 s: 150 s later they still count.
    assert statements(judge(Congestion(), rows)) == [(570, "c1", True)]
