import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.coolant.chemistry import CoolantChemistry
from schemas.coolant import CoolantLoop
from tests.detectors.timelines import assert_cuts_change_nothing, cutting, rows, run, said


def loop(ends, *, since=100, until=10**9, **worse):
    """Good coolant (pH 9, 2300 uS/cm, 25 % glycol), from second `since` on with other values."""
    good = {"ph": 9.0, "conductivity_us_per_cm": 2300.0, "glycol_percent": 25.0}
    return rows(
        CoolantLoop,
        *({"time": s, "cdu": "cdu-0", **good, **(worse if since <= s < until else {})} for s in range(ends)),
    )


def judge(frame, ends=300, detector=None):
    return run(detector or CoolantChemistry(), {CoolantLoop: frame}, ends)[0]


# Bands of domain.md 4.6: pH 8.0 to 10.5, conductivity +-20 %, glycol 25 +- 3 %.
@pytest.mark.parametrize(
    ("worse", "code"),
    [
        ({"ph": 7.4}, "acid"), ({"ph": 10.8}, "alkaline"), ({"conductivity_us_per_cm": 2900.0}, "conductivity_off"),
        ({"conductivity_us_per_cm": 1700.0}, "conductivity_off"), ({"glycol_percent": 21.0}, "glycol_off"),
        ({"glycol_percent": 29.0}, "glycol_off"),
    ],
)  # fmt: skip
def test_each_quantity_out_of_its_band_is_a_ticket_that_names_it(worse, code):
    found = judge(loop(300, **worse))
    assert found.select("cause", "kind", "entity", "code", "severity", "active").rows() == [
        ("coolant_chemistry", "cdu", "cdu-0", code, "ticket", True)
    ]


@pytest.mark.parametrize(
    "fine", [{"ph": 8.1}, {"ph": 10.4}, {"conductivity_us_per_cm": 2650.0}, {"glycol_percent": 27.5}]
)
def test_within_the_bands_nothing_is_said(fine):
    assert judge(loop(300, **fine)).is_empty()


def test_another_glycol_is_another_number():
    assert judge(loop(300, glycol_percent=60.0, since=0)).height == 1
    assert judge(loop(300, glycol_percent=60.0, since=0), detector=CoolantChemistry(glycol_percent=60.0)).is_empty()


def test_a_gauge_that_is_cleaned_for_twenty_seconds_is_no_ticket():
    assert judge(loop(300, ph=7.0, until=120)).is_empty()


def test_it_clears_after_five_good_minutes():
    # A mean over 10 s goes 1/11 of the way at each sample: half of it after 8, at 107 s and 207 s.
    found = judge(loop(800, ph=7.0, until=200), 800)
    assert said(found, "active") == [(137.0, True), (507.0, False)]


def test_what_is_not_measured_says_nothing():
    assert judge(loop(300, ph=None)).is_empty()


def test_a_bubble_at_the_electrode_now_and_then_does_not_hide_an_acid():
    frame = loop(300, ph=7.7).with_columns(ph=pl.when(pl.int_range(pl.len()) % 20 == 0).then(9.0).otherwise("ph"))
    assert judge(frame)["code"].to_list() == ["acid"]


@pytest.mark.parametrize(("share_a_day", "days", "codes"), [(0.08, 5, []), (0.2, 3, ["conductivity_off"])])
def test_conductivity_that_creeps_is_seen_when_a_day_changes_it_by_a_fifth(share_a_day, days, codes):
    creeping = rows(
        CoolantLoop,
        *(
            {"time": 1800 * step, "cdu": "cdu-0", "conductivity_us_per_cm": 2300 * (1 + share_a_day * step / 48)}
            for step in range(48 * days)
        ),
    )
    assert judge(creeping, 86_400 * days)["code"].to_list() == codes


@settings(deadline=None, max_examples=20)
@given(cuts=cutting(300), ph=st.sampled_from([7.0, 9.5, None]), until=st.integers(120, 300))
def test_cuts_change_nothing(cuts, ph, until):
    frame = loop(300, ph=ph, until=until, conductivity_us_per_cm=2900.0)
    assert_cuts_change_nothing(CoolantChemistry(), {CoolantLoop: frame}, 300, cuts)
