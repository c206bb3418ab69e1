"""Macrobends by two wavelengths, and what a batch says. The corpus has one real fibre at 1310 and 1550 nm."""

from pathlib import Path

import pytest

from detectors.fiber.batch import count_by_reason, length_match, rejected_share
from detectors.fiber.bend import bends
from detectors.fiber.reason import Reason
from detectors.fiber.resolution import Resolution
from detectors.fiber.shot import shot_of
from detectors.fiber.span import Reels, locate
from schemas.formats import sor
from schemas.formats.decoded import Surroundings
from tests.detectors.fiber.fiber_shots import CONNECTOR, END, SPLICE, shot

CORPUS = Path(__file__).parents[4] / "shared/corpus/otdr"
RESOLUTION = Resolution()
FRONT = (0.0, 0.0, -45.0, CONNECTOR)


def span(*inner, nanometers=1310.0, length=1000.0, **facts):
    one = shot(FRONT, *inner, (length, 0.0, -40.0, END), wavelength_nanometers=nanometers, **facts)
    return locate(one, Reels(), RESOLUTION)


def bent(*spans):
    return [(each.shot.wavelength_nanometers, reason.text) for each, reason in bends(spans, RESOLUTION)]


def test_a_place_that_loses_more_at_the_longer_wavelength_is_a_bend():
    at_1310 = span((300.0, 0.2, None, SPLICE), (600.0, 0.2, None, SPLICE))
    at_1550 = span((300.2, 0.8, None, SPLICE), (600.0, 0.25, None, SPLICE), nanometers=1550.0)
    assert bent(at_1550, at_1310) == [(1550.0, "300.2 m: a bend, 0.8 dB at 1550 nm and 0.2 at 1310")]


def test_a_bend_that_the_shorter_wavelength_does_not_show_at_all():
    found = bent(span(), span(nanometers=1550.0), span((300.0, 0.6, None, SPLICE), nanometers=1625.0))
    assert [nanometers for nanometers, _ in found] == [1625.0]


@pytest.mark.parametrize(
    "other",
    [
        span((300.0, 0.2, None, SPLICE), nanometers=1310.0),
        span((300.0, 0.65, None, SPLICE), nanometers=1550.0),
        span((700.0, 0.9, None, SPLICE), nanometers=1550.0),
        span((300.0, 0.9, None, SPLICE), nanometers=1550.0, length=1300.0),
    ],
    ids=["same wavelength", "0.45 dB more", "from the other end", "another fibre"],
)
def test_what_is_no_bend(other):
    assert bent(span((300.0, 0.2, None, SPLICE)), other) == []


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")
def test_a_real_fibre_with_gainers_has_no_bend():
    spans = []
    for nanometers in (1310, 1550):
        data = (CORPUS / f"example4-exfo-ftb4ftbx730c-mfdgainer-{nanometers}nm.sor").read_bytes()
        tables = sor.decode(data, Surroundings()).tables
        spans.append(
            locate(shot_of(tables["otdr_trace"].row(0, named=True), tables["otdr_event"]), Reels(), RESOLUTION)
        )
    assert bent(*spans) == []
    assert bends(spans, RESOLUTION, delta_db=0.03) != []  # it is 0.38 against 0.342 dB at 778.6 m


def matched(tolerance, *lengths):
    reasons = length_match([span(length=length) for length in lengths], tolerance, RESOLUTION)
    return [None if reason is None else reason.verdict for reason in reasons]


def test_lengths_of_a_group_are_as_good_as_their_spread():
    # Two samples of 8 cm: the difference is known to 2 * 0.08 * sqrt 2 / sqrt 6 = 0.092 m.
    assert matched(1.0, 50.0, 50.3, 50.5) == [None, None, None]
    assert matched(1.0, 50.0, 50.0, 50.1, 53.0) == [None, None, None, "FAIL"]
    assert matched(0.02, 50.0, 50.0, 50.0) == ["UNRESOLVABLE"] * 3  # 2 cm are finer than an OTDR tells
    assert matched(0.02, 50.0) == [None]


def test_the_share_of_rejects_is_of_those_that_could_be_judged():
    assert rejected_share(["PASS", "FAIL", "UNRESOLVABLE", "PASS", "PASS"]) == 0.25
    assert rejected_share(["UNRESOLVABLE"]) is None


def test_a_reason_counts_once_for_each_fibre():
    twice = [Reason("reflectance", "FAIL", "1 m"), Reason("reflectance", "FAIL", "2 m"), Reason("length", "FAIL", "")]
    other = [Reason("reflectance", "FAIL", ""), Reason("gainer", "UNRESOLVABLE", "")]
    assert list(count_by_reason([twice, other], "FAIL").items()) == [("reflectance", 2), ("length", 1)]
