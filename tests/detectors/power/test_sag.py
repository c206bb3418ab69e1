import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.power.sag import PowerSag
from schemas.power import Power
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def meter(ends, share, lasts=5, **more):
    """415 V; `share` of that from second 100 on, for so many seconds."""
    return rows(
        Power,
        *(
            {"time": s, "pdu": "pdu-0", "volts": 415.0 * (share if 100 <= s < 100 + lasts else 1.0),
             "breaker": "closed", **(more if 100 <= s < 100 + lasts else {})}
            for s in range(ends)
        ),
    )  # fmt: skip


def judge(frame, ends=300, detector=None):
    return run(detector or PowerSag(), {Power: frame}, ends)[0]


def test_a_sag_within_the_itic_curve_is_a_ticket_that_ends_after_half_a_minute():
    found = judge(meter(300, 0.82))
    assert said(found, "cause", "kind", "entity", "severity", "active") == [
        (100.0, "power_sag", "pdu", "pdu-0", "ticket", True),
        (135.0, "power_sag", "pdu", "pdu-0", "ticket", False),
    ]


# ITIC: 70 % for 0.5 s, 80 % for 10 s.
@pytest.mark.parametrize(("share", "lasts", "second"), [(0.65, 2, 100.0), (0.75, 20, 111.0), (0.85, 90, 161.0)])
def test_a_sag_beyond_the_itic_curve_is_a_page(share, lasts, second):
    pages = judge(meter(300, share, lasts)).filter(severity="page", active=True)
    assert said(pages) == [(second,)]


def test_the_lowest_half_cycle_tells_of_a_sag_between_samples():
    found = judge(meter(300, 1.0, 1, volts_minimum=340.0))
    assert said(found, "active")[0] == (100.0, True)


def test_ninety_two_percent_is_the_grids_own_business():
    assert judge(meter(300, 0.92, 100)).is_empty()
    assert not judge(meter(300, 0.92, 100), detector=PowerSag(sag_share=0.95)).is_empty()


def test_a_loss_is_not_a_sag():
    assert judge(meter(300, 0.0, 100)).is_empty()
    assert judge(meter(300, 0.45, 100)).is_empty()
    assert judge(meter(300, 0.8, 100, breaker="tripped")).is_empty()


@pytest.mark.parametrize(("percent_an_hour", "hours", "grades"), [(7.0, 3, []), (14.0, 2, ["ticket", "page"])])
def test_a_voltage_that_drifts_by_less_than_a_tenth_an_hour_is_followed(percent_an_hour, hours, grades):
    # A mean over an hour lies behind by what an hour changes.
    drifting = rows(
        Power,
        *(
            {"time": 60 * minute, "pdu": "pdu-0", "volts": 415.0 * (1 - percent_an_hour / 100 * minute / 60)}
            for minute in range(hours * 60)
        ),
    )
    assert judge(drifting, hours * 3600)["severity"].to_list() == grades


@settings(deadline=None, max_examples=20)
@given(cuts=cutting(300), share=st.sampled_from([0.3, 0.65, 0.75, 0.85]), lasts=st.integers(1, 90))
def test_cuts_change_nothing(cuts, share, lasts):
    assert_cuts_change_nothing(PowerSag(), {Power: meter(300, share, lasts)}, 300, cuts)
