"""That `python -m tests.ablation` takes away what it says, from every detector of the catalogue."""

from dataclasses import dataclass, fields

import polars as pl
import pytest

from detectors.catalog import CATALOG
from tests.ablation.ablations import EVERYTHING, Ablation, ablate, ablations_of, changed
from tests.ablation.trial import own_tests


@pytest.mark.parametrize("detector", CATALOG, ids=lambda each: each.name)
def test_each_threshold_and_the_state_of_each_detector_is_taken_away_and_tests_are_there_to_notice(detector):
    made = ablations_of(detector)
    assert {name for each in made for name in each.settings} == {each.name for each in fields(detector)}
    assert made[0].forgets == EVERYTHING
    assert {column for each in made[1:] if each.forgets for column in each.forgets[:1]} <= set(detector.keeps)
    assert own_tests(detector)


@pytest.mark.parametrize(
    ("value", "others"),
    [(0.5, [0.125, 2.0]), (3, [2, 4]), (360, [90, 1440]), (-45.0, [-51.0, -39.0]), ((48, 79), [(79,), (48,)]),
     (True, [False]), ("words", [])],
)  # fmt: skip
def test_a_factor_of_four_six_decibels_or_one(value, others):
    assert [other for _, other in changed(value)] == others


def test_what_nobody_knows_how_to_change_is_not_left_out_in_silence():
    with pytest.raises(TypeError, match="no way to change"):
        list(changed(None))


def test_an_ablation_is_seen_by_the_detector_at_hand_and_by_new_ones():
    @dataclass(frozen=True, kw_only=True)
    class Counts:
        limit: int = 3

        def detect(self, tables, state, context):
            return state.height >= self.limit

    old, rows = Counts(), pl.DataFrame({"n": [1, 2, 3]})
    assert Counts().detect({}, rows, None)
    ablate(old, Ablation(what="limit", settings={"limit": 4}))
    assert (old.limit, Counts().limit, Counts(limit=5).limit) == (4, 4, 5)
    assert not old.detect({}, rows, None)
    ablate(old, Ablation(what="limit", settings={"limit": 1}))
    ablate(old, Ablation(what="state", forgets=EVERYTHING))
    assert not Counts().detect({}, rows, None)
