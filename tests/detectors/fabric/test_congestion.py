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
