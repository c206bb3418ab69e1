"""Acceptance of a cable. Limits are TIA-568's 0.75 and 0.3 dB; lengths, dead zones and losses are arithmetic."""

import json
from dataclasses import replace
from math import sqrt
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.fiber.acceptance import Acceptance
from detectors.fiber.limits import GRADES, grade
from detectors.fiber.resolution import Resolution, decide
from detectors.fiber.shot import Shot, shot_of
from detectors.fiber.span import Reels, locate
from schemas.formats import sor
from schemas.formats.decoded import Surroundings
from tests.detectors.fiber.fiber_shots import CONNECTOR, END, SPLICE, behind_reels, shot

CORPUS = Path(__file__).parents[4] / "shared/corpus/otdr"
corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")
RESOLUTION = Resolution()
NEAR, FAR = (0.0, 0.2, -50.0, CONNECTOR), (100.0, 0.25, -51.0, CONNECTOR)
FRONT, FIBER_END = (0.0, 0.0, -45.0, CONNECTOR), (1000.0, 0.0, -40.0, END)


def judged(one: Shot, reels: Reels | None = None, **acceptance):
    judge = Acceptance(**acceptance)
    return judge.judge(locate(one, reels or Reels(), judge.resolution))


def why(one: Shot, reels: Reels | None = None, **acceptance):
    judgement = judged(one, reels, **acceptance)
    return judgement.verdict, [reason.name for reason in judgement.reasons]


def test_connectors_and_splices_within_their_limits_pass():
    assert why(shot(FRONT, (300.0, 0.75, -46.0, CONNECTOR), (600.0, 0.3, None, SPLICE), FIBER_END)) == ("PASS", [])


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ((300.0, 0.76, -50.0, CONNECTOR), "connector_loss"),
        ((300.0, 0.31, None, SPLICE), "splice_loss"),
        ((300.0, 0.2, -44.9, CONNECTOR), "reflectance"),
        ((300.0, 0.2, -44.9, SPLICE), "reflectance"),  # some instruments code no reflection and give its value
    ],
)
def test_what_is_beyond_its_limit_fails(event, reason):
    assert why(shot(FRONT, event, FIBER_END)) == ("FAIL", [reason])


def test_an_event_may_fail_twice():
    assert why(shot(FRONT, (300.0, 1.0, -20.0, CONNECTOR), FIBER_END)) == ("FAIL", ["connector_loss", "reflectance"])


def test_multimode_may_reflect_more_than_single_mode():
    event = (300.0, 0.2, -40.0, CONNECTOR)
    assert why(shot(FRONT, event, FIBER_END, wavelength_nanometers=850.0))[0] == "PASS"
    assert why(shot(FRONT, event, FIBER_END, wavelength_nanometers=1310.0))[0] == "FAIL"


def test_a_stricter_grade_fails_what_another_passes():
    event = (300.0, 0.4, -50.0, CONNECTOR)
    assert {limits.name: why(shot(FRONT, event, FIBER_END), limits=limits)[0] for limits in GRADES} == {
        "tia": "PASS", "reference": "PASS", "strict": "PASS", "b": "FAIL", "c": "PASS", "d": "PASS",
    }  # fmt: skip
    with pytest.raises(ValueError, match="no grade 'e'; known: tia"):
        grade("e")


def test_what_lies_behind_the_end_of_the_fibre_is_never_judged():
    assert why(shot(FRONT, (300.0, 0.2, -50.0, CONNECTOR), FIBER_END, (2000.0, 3.0, -14.0, CONNECTOR))) == ("PASS", [])


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([FRONT, (300.0, 0.2, -50.0, CONNECTOR), (1000.0, 0.0, None, "1O9999LS")], "no_end"),
        ([FRONT], "no_end"),
        ([(0.0, 0.0, -20.0, END)], "no_end"),  # dead acquisition
        ([FRONT, (300.0, 0.2, -46.0, "2F9999LS"), FIBER_END], "saturated"),
        ([FRONT, (300.0, None, None, SPLICE), FIBER_END], "dead_zone"),
        ([(0.0, 0.0, -45.0, CONNECTOR), (30.0, 0.0, -45.0, END)], "nothing_measured"),
    ],
    ids=["trace runs out", "no end", "end at the launch", "saturated", "loss not read", "30 m jumper without reels"],
)
def test_what_a_shot_does_not_tell_is_unresolvable(events, reason):
    assert why(shot(*events)) == ("UNRESOLVABLE", [reason])


def test_a_saturated_reflection_above_the_limit_fails_all_the_same():
    assert why(shot(FRONT, (300.0, 0.2, -30.0, "2F9999LS"), FIBER_END)) == ("FAIL", ["reflectance"])


def test_events_near_the_front_panel_and_before_the_end_are_in_dead_zones():
    # 10 ns are 1.02 m of pulse; with 3 m of recovery a reflection is blind for 4.02 m.
    assert why(shot(FRONT, (3.9, 1.5, -50.0, CONNECTOR), FIBER_END)) == ("UNRESOLVABLE", ["dead_zone"])
    assert why(shot(FRONT, (4.1, 1.5, -50.0, CONNECTOR), FIBER_END)) == ("FAIL", ["connector_loss"])
    assert why(shot(FRONT, (996.1, 1.5, -50.0, CONNECTOR), FIBER_END)) == ("UNRESOLVABLE", ["dead_zone"])


@pytest.mark.parametrize(("second_db", "verdict"), [(0.3, "PASS"), (0.9, "UNRESOLVABLE"), (1.3, "FAIL")])
def test_events_in_one_dead_zone_are_judged_by_their_sum(second_db, verdict):
    # Limits 0.75 each: 0.6 in all is below the least, 1.2 between, 1.6 above both together.
    events = [(300.0, 0.3, -50.0, CONNECTOR), (302.0, second_db, -50.0, CONNECTOR)]
    assert why(shot(FRONT, *events, FIBER_END))[0] == verdict


def test_a_gainer_in_one_direction_is_not_told():
    assert why(shot(FRONT, (300.0, -0.3, None, SPLICE), FIBER_END)) == ("UNRESOLVABLE", ["gainer"])
    assert why(shot(FRONT, (300.0, -0.05, None, SPLICE), FIBER_END)) == ("PASS", [])


def test_the_whole_loss_is_held_against_the_budget():
    # 1000 m at 0.5 dB/km and two connectors of 0.75 dB: 2 dB are allowed.
    events = (FRONT, (300.0, 0.7, -50.0, CONNECTOR), (600.0, 0.7, -50.0, CONNECTOR), FIBER_END)
    assert judged(shot(*events, total_loss_db=1.9)).budget_db == pytest.approx(2.0)
    assert why(shot(*events, total_loss_db=1.9)) == ("PASS", [])
    assert why(shot(*events, total_loss_db=2.1)) == ("FAIL", ["total_loss"])
    assert why(shot(*events, total_loss_db=1.9), budget_db=1.8) == ("FAIL", ["total_loss"])
    assert why(shot(*events), budget_db=1.8) == ("UNRESOLVABLE", ["total_loss"])


def test_without_a_launch_reel_a_short_span_has_no_budget_of_its_own():
    end = (30.0, 0.0, -40.0, END)
    assert judged(shot(FRONT, (15.0, 0.2, -50.0, CONNECTOR), end, total_loss_db=5.0)).budget_db is None


def test_length_and_its_uncertainty():
    # GUM, coverage 2: 1000 m * 1e-3/1.468 / sqrt 3 for the index; 0.08 m and 1.021 m each / sqrt 6 for both ends.
    expected = 2 * sqrt((0.6812 / sqrt(3)) ** 2 + (0.08**2 + 1.0211**2) / 6)
    judgement = judged(shot(FRONT, (300.0, 0.2, -50.0, CONNECTOR), FIBER_END))
    assert judgement.span.length_meters == 1000.0
    assert judgement.length_uncertainty_meters == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("wanted", "tolerance", "verdict"),
    [(1000.0, 5.0, "PASS"), (1010.0, 5.0, "FAIL"), (1004.5, 5.0, "UNRESOLVABLE"), (1000.0, 0.02, "UNRESOLVABLE")],
)
def test_a_length_is_judged_only_as_finely_as_it_is_known(wanted, tolerance, verdict):
    one = shot(FRONT, (300.0, 0.2, -50.0, CONNECTOR), FIBER_END)
    assert why(one, length_meters=wanted, length_tolerance_meters=tolerance)[0] == verdict


def test_a_shorter_pulse_and_finer_sampling_never_make_a_length_less_certain():
    coarse, fine = (shot(FIBER_END, pulse_nanoseconds=pulse) for pulse in (100.0, 3.0))
    uncertainties = [RESOLUTION.length_uncertainty_meters(each, 50.0) for each in (coarse, fine)]
    assert uncertainties[0] > uncertainties[1] > 0.02  # 2 cm are not to be had with any of them


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 10))
def test_a_larger_uncertainty_never_turns_one_verdict_into_the_other(deviation, tolerance, uncertainty):
    sure = decide(deviation, tolerance, 0.0)
    assert decide(deviation, tolerance, uncertainty) in {sure, "UNRESOLVABLE"}


def test_reels_lay_open_the_end_connectors():
    one = behind_reels((0.0, 0.9, -50.0, CONNECTOR), (100.0, 0.2, -30.0, CONNECTOR), launch=150.0, tail=50.0)
    assert why(one, Reels(launch_meters=150.0, tail_meters=50.0)) == ("FAIL", ["connector_loss", "reflectance"])


def test_what_lies_in_the_reels_is_not_of_the_cable():
    one = behind_reels((-80.0, 2.0, -20.0, CONNECTOR), NEAR, FAR, launch=150.0, tail=50.0)
    roles = judged(one, Reels(launch_meters=150.0, tail_meters=50.0)).events["role"].to_list()
    assert roles == ["launch reel", "near end", "far end", "end"]
    assert why(one, Reels(launch_meters=150.0, tail_meters=50.0)) == ("PASS", [])


def test_a_reel_that_is_not_where_it_was_said_to_be_is_unresolvable():
    one = behind_reels(NEAR, FAR, launch=150.0, tail=50.0)
    assert why(one, Reels(launch_meters=120.0)) == ("UNRESOLVABLE", ["reel"])
    assert why(one, Reels(launch_meters=150.0, tail_meters=20.0)) == ("UNRESOLVABLE", ["reel"])


def test_a_reel_shorter_than_a_dead_zone_does_not_help():
    one = behind_reels(NEAR, FAR, launch=3.0, tail=50.0)
    assert why(one, Reels(launch_meters=3.0, tail_meters=50.0)) == ("UNRESOLVABLE", ["dead_zone"])


def test_samples_before_the_pulse_are_no_launch_reel():
    lit = behind_reels(NEAR, FAR, launch=20.0, tail=50.0, cut_off=True)
    assert lit.samples_db is not None
    dark = pl.Series([-23.0] * 250).append(lit.samples_db[250:])  # 20 m of noise instead of backscatter
    assert locate(lit, Reels(), RESOLUTION).near_seen
    assert not locate(replace(lit, samples_db=dark), Reels(), RESOLUTION).near_seen


def test_the_whole_loss_behind_reels_comes_from_the_backscatter():
    # 0.2 + 0.25 dB of connectors and 100 m at 0.35 dB/km.
    span = locate(
        behind_reels(NEAR, FAR, launch=150.0, tail=50.0), Reels(launch_meters=150.0, tail_meters=50.0), RESOLUTION
    )
    assert span.total_loss_db == pytest.approx(0.45 + 0.035, abs=0.005)


@settings(max_examples=40, deadline=None)
@given(
    losses=st.tuples(*[st.floats(0.0, 1.2)] * 3), reflectance=st.floats(-60.0, -30.0),
    launch=st.sampled_from([30.0, 75.0, 500.0]), tail=st.sampled_from([20.0, 50.0, 150.0]), cut_off=st.booleans(),
)  # fmt: skip
def test_another_launch_reel_does_not_change_the_verdict(losses, reflectance, launch, tail, cut_off):
    near, panel, far = losses
    events = (
        (0.0, round(near, 3), -50.0, CONNECTOR), (40.0, round(panel, 3), round(reflectance, 2), CONNECTOR),
        (100.0, round(far, 3), -50.0, CONNECTOR),
    )  # fmt: skip
    reference = judged(behind_reels(*events, launch=100.0, tail=100.0), Reels(launch_meters=100.0, tail_meters=100.0))
    other = judged(
        behind_reels(*events, launch=launch, tail=tail, cut_off=cut_off), Reels(launch_meters=launch, tail_meters=tail)
    )
    # The budget allows 0.75 dB a connector, the sum of three is within 5 mdB of it only by chance.
    assert [(one.name, one.verdict) for one in other.reasons if one.name != "total_loss"] == [
        (one.name, one.verdict) for one in reference.reasons if one.name != "total_loss"
    ]
    assert other.span.total_loss_db == pytest.approx(reference.span.total_loss_db, abs=0.01)
    assert other.span.length_meters == pytest.approx(100.0)


@corpus
@pytest.mark.parametrize(
    "name",
    [
        "M200_Sample_005_S13.sor", "example2-exfo-maxtester730c.sor", "example4-exfo-ftb4ftbx730c-mfdgainer-1310nm.sor",
        "example4-exfo-ftb4ftbx730c-mfdgainer-1550nm.sor",
    ],
)  # fmt: skip
def test_the_loss_from_the_backscatter_is_what_the_instruments_say_of_real_traces(name):
    tables = sor.decode((CORPUS / name).read_bytes(), Surroundings()).tables
    untold = {**tables["otdr_trace"].row(0, named=True), "total_loss_db": None}
    expected = json.loads((CORPUS / "expected.json").read_text())[name]["summary"]["total loss"]
    span = locate(shot_of(untold, tables["otdr_event"]), Reels(), RESOLUTION)
    assert span.total_loss_db == pytest.approx(expected, abs=0.02)


@corpus
def test_real_connectors_are_back_on_the_line_within_the_dead_zone():
    # 100 ns: 10.2 m of pulse; -52 and -58 dB. The line is fitted from 30 m on.
    tables = sor.decode((CORPUS / "M200_Sample_005_S13.sor").read_bytes(), Surroundings()).tables
    one = shot_of(tables["otdr_trace"].row(0, named=True), tables["otdr_event"])
    zone = RESOLUTION.dead_zone_meters(one)
    for at in (395.26, 796.14):
        line = one.level_db(at + zone + 2.5, at + 30, at + 230)
        recovered = one.level_db(at + zone + 2.5, at + zone, at + zone + 5)
        assert line is not None
        assert recovered is not None
        assert abs(recovered - line) < 0.5  # the definition of the attenuation dead zone


def test_a_long_pulse_does_not_make_the_first_splice_the_near_end():
    # 1 us are 102 m; the splice at 80 m is inside it, and the fibre begins at the front panel all the same.
    one = shot(
        (80.0, 0.2, None, SPLICE), (5000.0, 0.1, None, SPLICE), (9000.0, 0.0, -40.0, END), pulse_nanoseconds=1000.0
    )
    assert judged(one).span.length_meters == 9000.0
    assert why(one) == ("UNRESOLVABLE", ["dead_zone"])


@pytest.mark.parametrize(("actual", "stated"), [(151.6, 150.0), (503.4, 500.0)])
def test_a_reel_is_only_about_as_long_as_it_says(actual, stated):
    one = behind_reels(NEAR, FAR, launch=actual, tail=51.0)
    judgement = judged(one, Reels(launch_meters=stated, tail_meters=50.0))
    assert (judgement.verdict, round(judgement.span.length_meters)) == ("PASS", 100)
