"""Two shots of one fibre from both ends. The truth is made here: one-way readings are it plus and minus an offset."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.fiber.acceptance import Acceptance
from detectors.fiber.bidirectional import average
from detectors.fiber.resolution import Resolution
from detectors.fiber.span import Reels, Span, locate
from tests.detectors.fiber.fiber_shots import CONNECTOR, END, SPLICE, behind_reels, shot

RESOLUTION = Resolution()
LENGTH = 1000.0
FRONT = (0.0, 0.0, -45.0, CONNECTOR)


def seen(*inner, length=LENGTH, **facts) -> Span:
    return locate(shot(FRONT, *inner, (length, 0.0, -40.0, END), **facts), Reels(), RESOLUTION)


def both_ways(*truth) -> tuple[Span, Span]:
    """truth: (place, loss, offset, reflectance) from the near end."""
    ahead = [(at, loss + offset, bright, SPLICE if bright is None else CONNECTOR) for at, loss, offset, bright in truth]
    back = [
        (LENGTH - at, loss - offset, bright, SPLICE if bright is None else CONNECTOR)
        for at, loss, offset, bright in reversed(truth)
    ]
    return seen(*ahead), seen(*back)


def inside(span: Span):
    return span.events.filter("measured").select("position_meters", "loss_db", "reflectance_db").rows()


def why(span: Span):
    judgement = Acceptance().judge(span)
    return judgement.verdict, [reason.name for reason in judgement.reasons]


def test_a_gainer_and_its_loser_are_the_true_loss():
    ahead, back = both_ways((300.0, 0.1, -0.4, None))
    assert (why(ahead), why(back)) == (("UNRESOLVABLE", ["gainer"]), ("FAIL", ["splice_loss"]))
    assert why(average(ahead, back, RESOLUTION)) == ("PASS", [])
    assert inside(average(ahead, back, RESOLUTION)) == [(300.0, pytest.approx(0.1), None)]


def test_a_bad_splice_that_looks_good_from_one_end_fails():
    ahead, back = both_ways((300.0, 0.4, -0.3, None))
    assert (why(ahead)[0], why(back)[0]) == ("PASS", "FAIL")
    assert why(average(ahead, back, RESOLUTION)) == ("FAIL", ["splice_loss"])


places = st.lists(st.integers(2, 98), min_size=1, max_size=5, unique=True).map(sorted)


@settings(max_examples=60, deadline=None)
@given(
    places, st.lists(st.floats(0, 1), min_size=5, max_size=5), st.lists(st.floats(-0.5, 0.5), min_size=5, max_size=5)
)
def test_the_mean_is_the_truth_and_turning_the_fibre_round_turns_the_answer_round(tens, losses, offsets):
    truth = [(10.0 * ten, loss, offset, -50.0) for ten, loss, offset in zip(tens, losses, offsets, strict=False)]
    ahead, back = both_ways(*truth)
    answer, turned = average(ahead, back, RESOLUTION), average(back, ahead, RESOLUTION)
    assert inside(answer) == [(at, pytest.approx(loss, abs=1e-9), -50.0) for at, loss, _, _ in truth]
    assert inside(turned) == [(LENGTH - at, pytest.approx(loss, abs=1e-9), -50.0) for at, loss, _, _ in reversed(truth)]
    assert Acceptance().judge(answer).verdict == Acceptance().judge(turned).verdict


def test_a_fibre_that_looks_alike_from_both_ends_averages_to_itself():
    one = seen((200.0, 0.3, -50.0, CONNECTOR), (800.0, 0.3, -50.0, CONNECTOR))
    assert inside(average(one, one, RESOLUTION)) == inside(one)


def test_an_event_that_one_direction_does_not_list_counts_half():
    ahead, back = seen((300.0, 0.4, None, SPLICE)), seen()
    assert inside(average(ahead, back, RESOLUTION)) == [(300.0, pytest.approx(0.2), None)]


def test_where_one_direction_is_blind_the_other_speaks_alone():
    # At its end a shot has no line left behind the connector; a shot from there behind a launch reel has.
    ahead = seen((93.0, 0.6, -50.0, CONNECTOR), length=100.0)
    back = locate(
        behind_reels((0.0, 0.2, -50.0, CONNECTOR), (7.0, 0.6, -50.0, CONNECTOR), (100.0, 0.1, -45.0, CONNECTOR),
                     launch=150.0, tail=50.0),
        Reels(launch_meters=150.0, tail_meters=50.0), RESOLUTION,
    )  # fmt: skip
    merged = average(ahead, back, RESOLUTION)
    assert merged.near_seen
    assert merged.far_seen
    losses = {round(at): loss for at, loss, _ in inside(merged)}
    assert losses[100] == pytest.approx(0.2)  # its near end is the other's far end


def test_the_worse_reflectance_counts():
    ahead, back = seen((300.0, 0.2, -50.0, CONNECTOR)), seen((700.0, 0.2, -30.0, CONNECTOR))
    assert why(average(ahead, back, RESOLUTION)) == ("FAIL", ["reflectance"])


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (seen((300.0, 0.1, None, SPLICE)), "same end"),
        (seen((700.0, 0.1, None, SPLICE), length=1100.0), "1000.0 and 1100.0 m"),
        (seen((700.0, 0.1, None, SPLICE), pulse_nanoseconds=30.0), "pulse widths are 10 and 30"),
        (seen((700.0, 0.1, None, SPLICE), wavelength_nanometers=1550.0), "wavelengths are 1310 and 1550"),
    ],
    ids=["taken from the same end", "another length", "another pulse", "another wavelength"],
)
def test_two_shots_that_do_not_belong_together_are_not_averaged(other, says):
    merged = average(seen((300.0, 0.1, None, SPLICE)), other, RESOLUTION)
    assert why(merged) == ("UNRESOLVABLE", ["pair"])
    assert says in merged.problem.text


def test_a_shot_without_an_end_spoils_the_pair():
    one = seen((300.0, 0.1, None, SPLICE))
    endless = locate(shot(FRONT, (700.0, 0.1, None, SPLICE)), Reels(), RESOLUTION)
    assert why(average(one, endless, RESOLUTION)) == ("UNRESOLVABLE", ["no_end"])
    assert why(replace(one, problem=None))[0] == "PASS"
