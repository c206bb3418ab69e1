from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.expectations import unmet
from replay.scenario import parse_scenario
from replay.score import Case, score, score_cases
from replay.simulate import LABEL_COLUMNS
from schemas.incident import Incident

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0


def second(count):
    return BEGAN + timedelta(seconds=count)


def incident(name, cause, kind, roots, detected, *, members=(), began=None, state="firing"):
    return Incident(
        id=name, cause=cause, severity="page", state=state, root_kind=kind, roots=tuple(roots), members=tuple(members),
        symptoms=(), starts_at=second(detected if began is None else began), detected_at=second(detected),
        ends_at=None, evidence=(),
    )  # fmt: skip


def truth(*rows):
    names = ("cause", "root_kind", "roots", "members", "starts_at", "ends_at")
    return pl.DataFrame([dict(zip(names, row, strict=True)) for row in rows], schema=LABEL_COLUMNS)


NODE = ("node_lost", "node", ["n1"], ["n1/0", "n1/1"], second(100), None)


def test_an_incident_in_time_at_the_right_root_is_a_hit():
    card = score([incident("i", "node_lost", "node", ["n1"], 103, members=["n1/0"])], truth(NODE), stream_seconds=HOUR)
    assert (card.total.precision, card.total.recall, card.total.top_1, card.total.cause_accuracy) == (1, 1, 1, 1)
    assert card.total.onset_to_detection_p50_seconds == 3
    assert card.total.member_recall == 0.5
    assert card.false_incidents_per_day == 0


def test_the_wrong_root_is_a_miss_and_a_false_incident():
    card = score([incident("i", "node_lost", "node", ["n2"], 103)], truth(NODE), stream_seconds=HOUR)
    assert (card.total.precision, card.total.recall) == (0, 0)
    assert card.total.false_incidents == 1


def test_the_right_root_with_another_cause_is_detected_but_not_right():
    card = score([incident("i", "gpu_hang", "node", ["n1"], 103)], truth(NODE), stream_seconds=HOUR)
    assert (card.total.recall, card.total.cause_accuracy, card.total.top_1) == (1, 0, 1)
    by_cause = {each.cause: each for each in card.causes}
    assert by_cause["gpu_hang"].precision == 0
    assert by_cause["node_lost"].recall == 1


@pytest.mark.parametrize(("detected", "recall"), [(160, 1), (161, 0)])
def test_sixty_seconds_are_allowed_and_no_more(detected, recall):
    card = score([incident("i", "node_lost", "node", ["n1"], detected)], truth(NODE), stream_seconds=HOUR)
    assert card.total.recall == recall
    assert card.total.late == 1 - recall


def test_a_cause_may_have_a_longer_deadline():
    said = [incident("i", "node_lost", "node", ["n1"], 200)]
    assert score(said, truth(NODE), stream_seconds=HOUR, deadlines_seconds={"node_lost": 120}).total.recall == 1


def test_a_deadline_below_a_minute_is_a_minute():
    said = [incident("i", "node_lost", "node", ["n1"], 150)]
    assert score(said, truth(NODE), stream_seconds=HOUR, deadlines_seconds={"node_lost": 3}).total.recall == 1


def test_a_second_incident_on_the_same_fault_is_a_duplicate_not_a_false_one():
    said = [incident("a", "node_lost", "node", ["n1"], 103), incident("b", "node_lost", "node", ["n1"], 130)]
    card = score(said, truth(NODE), stream_seconds=HOUR)
    assert (card.total.duplicates, card.total.false_incidents, card.total.precision) == (1, 0, 1)


def test_false_incidents_are_counted_per_day():
    said = [incident(name, "gpu_hang", "gpu", ["n9/0"], 50) for name in ("a", "b")]
    assert score(said, truth(), stream_seconds=6 * HOUR).false_incidents_per_day == 8
    assert score(said, truth(), stream_seconds=6 * HOUR).total.recall is None


def test_an_incident_after_the_fault_is_over_is_false():
    over = (*NODE[:5], second(200))
    card = score([incident("i", "node_lost", "node", ["n1"], 250)], truth(over), stream_seconds=HOUR)
    assert card.total.false_incidents == 1


def test_an_incident_that_began_in_a_short_fault_may_be_detected_after_it():
    over = (*NODE[:5], second(110))
    card = score([incident("i", "node_lost", "node", ["n1"], 115, began=101)], truth(over), stream_seconds=HOUR)
    assert card.total.recall == 1


def test_an_early_warning_counts_with_negative_seconds():
    card = score([incident("i", "node_lost", "node", ["n1"], 60)], truth(NODE), stream_seconds=HOUR)
    assert card.total.onset_to_detection_p50_seconds == -40


def test_the_same_place_failing_twice_is_two_faults():
    first, again = (*NODE[:5], second(200)), (*NODE[:4], second(1000), None)
    said = [incident("a", "node_lost", "node", ["n1"], 105), incident("b", "node_lost", "node", ["n1"], 1015)]
    card = score(said, truth(first, again), stream_seconds=HOUR)
    assert (card.total.detected, card.total.duplicates) == (2, 0)
    assert card.total.onset_to_detection_p50_seconds == 10


def test_one_of_three_roots_is_enough():
    pdus = ("power_domain_lost", "pdu", ["p1", "p2", "p3"], [], second(100), None)
    card = score([incident("i", "power_domain_lost", "pdu", ["p2"], 101)], truth(pdus), stream_seconds=HOUR)
    assert card.total.recall == 1


def test_a_link_and_its_cable_are_the_same_thing():
    bend = ("fiber_loss", "cable", ["c1"], [], second(100), None)
    card = score([incident("i", "fiber_loss", "link", ["c1"], 101)], truth(bend), stream_seconds=HOUR)
    assert card.total.recall == 1


def test_suspects_do_not_count():
    card = score([incident("i", "node_lost", "node", ["n1"], 103, state="suspect")], truth(NODE), stream_seconds=HOUR)
    assert (card.total.recall, card.total.incidents) == (0, 0)


def test_nothing_said_and_nothing_wrong_divides_nothing():
    card = score([], truth(), stream_seconds=HOUR)
    assert (card.total.precision, card.total.recall, card.causes) == (None, None, ())
    assert card.frame().height == 1


def test_cases_are_counted_together():
    hit = Case(incidents=[incident("i", "node_lost", "node", ["n1"], 104)], labels=truth(NODE), stream_seconds=HOUR)
    miss = Case(incidents=[], labels=truth(NODE), stream_seconds=HOUR)
    false = Case(incidents=[incident("i", "gpu_hang", "gpu", ["n1/0"], 9)], labels=truth(), stream_seconds=22 * HOUR)
    card = score_cases([hit, miss, false])
    assert (card.total.recall, card.total.precision, card.false_incidents_per_day) == (0.5, 0.5, 1.0)


def test_no_stream_time_is_told():
    with pytest.raises(ValueError, match="nothing to score"):
        score_cases([])


@settings(deadline=None)
@given(st.permutations(range(5)))
def test_the_order_in_which_incidents_are_given_does_not_matter(order):
    said = [
        incident("a", "node_lost", "node", ["n1"], 130),
        incident("b", "gpu_hang", "node", ["n1"], 103),
        incident("c", "node_lost", "node", ["n2"], 90),
        incident("d", "node_lost", "node", ["n1"], 104, state="suspect"),
        incident("e", "node_lost", "node", ["n1"], 103),
    ]
    shuffled = [said[index] for index in order]
    assert score(shuffled, truth(NODE), stream_seconds=HOUR) == score(said, truth(NODE), stream_seconds=HOUR)


EXPECTS = parse_scenario(
    """
name = "x"
starts_at = 2026-01-01T00:00:00Z
duration_seconds = 600
[[expect]]
cause = "node_lost"
roots = ["n1"]
detected_within_seconds = 5
members = 2
""",
    "x.toml",
)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ([], "node_lost of n1 was not detected"),
        ([incident("i", "node_lost", "node", ["n1"], 103, members=["n1/0"])], "has 1 members, expected 2"),
        ([incident("i", "node_lost", "node", ["n1"], 106, members=["n1/0", "n1/1"])], "6 s after onset"),
        (
            [
                incident("i", "node_lost", "node", ["n1"], 103, members=["n1/0", "n1/1"]),
                incident("j", "gpu_hang", "gpu", ["n7/0"], 300),
            ],
            "nobody expected gpu_hang of n7/0",
        ),
    ],
)
def test_an_unmet_expectation_is_one_line(said, line):
    (told,) = unmet(EXPECTS, said, truth(NODE))
    assert line in told


def test_expectations_that_are_met_say_nothing():
    said = [incident("i", "node_lost", "node", ["n1"], 103, members=["n1/0", "n1/1"])]
    assert unmet(EXPECTS, said, truth(NODE)) == ()


def test_false_pages_are_scaled_to_a_day_of_the_reference_cluster_with_their_bound():
    """One false page in 102,400 GPU-hours is 5.76 a day of 24,576 GPUs; at most 4.744 times that (Garwood)."""
    said = [incident("i", "gpu_hang", "gpu", ["n9/0"], 50)]
    card = score_cases([Case(incidents=said, labels=truth(), stream_seconds=25 * HOUR, gpus=4096)])
    rate, bound = card.false_per_day("page")
    assert (card.gpu_hours, card.false_pages, card.false_tickets) == (102_400, 1, 0)
    assert rate == pytest.approx(5.76)
    assert bound == pytest.approx(5.76 * 4.744, rel=1e-3)
    assert card.false_per_day("ticket")[1] == pytest.approx(5.76 * 2.996, rel=1e-3)


def test_a_fault_may_bring_its_own_deadline_and_its_hard_failure():
    slow = truth(NODE).with_columns(deadline_seconds=200.0, hard_failure_at=pl.lit(second(400)))
    card = score([incident("i", "node_lost", "node", ["n1"], 250)], slow, stream_seconds=HOUR)
    assert (card.total.recall, card.total.before_hard_failure, card.total.lead_p50_seconds) == (1, 1, 150)
    missed = score([], slow, stream_seconds=HOUR)
    assert (missed.total.before_hard_failure, missed.total.lead_p50_seconds) == (0, None)


def test_a_right_root_in_third_place_is_among_three_and_not_first():
    pdus = ("power_domain_lost", "pdu", ["p1"], [], second(100), None)
    card = score([incident("i", "power_domain_lost", "pdu", ["p8", "p9", "p1"], 101)], truth(pdus), stream_seconds=HOUR)
    assert (card.total.top_1, card.total.top_3) == (0, 1)


def test_incidents_per_fault_counts_repeats():
    said = [incident(name, "node_lost", "node", ["n1"], at) for name, at in (("a", 103), ("b", 130))]
    assert score(said, truth(NODE), stream_seconds=HOUR).total.incidents_per_fault == 2


def test_faults_with_a_longer_time_of_their_own_are_not_abrupt():
    """One node is found after 3 s; another one, whose suite gives it 200 s, after 90 s."""
    other = ("node_lost", "node", ["n2"], [], second(1000), None)
    both = truth(NODE, other).with_columns(deadline_seconds=pl.Series([None, 200.0]))
    said = [incident("i", "node_lost", "node", ["n1"], 103), incident("j", "node_lost", "node", ["n2"], 1090)]
    total = score_cases([Case(incidents=said, labels=both, stream_seconds=HOUR)]).total
    assert (total.abrupt_p50_seconds, total.abrupt_p95_seconds) == (3, 3)
    assert total.onset_to_detection_p50_seconds == pytest.approx((3 + 90) / 2)
