"""The verdict of a backtest, from incidents alone: what is caught, missed, false, and what it would have saved."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from pipelines.backtest_truth import Truth, labelled_truth, past_truth
from pipelines.backtest_verdict import Span, verdict
from pipelines.operations_store import OperationsStore
from pipelines.rejudge import Rejudged
from pipelines.savings import savings
from pipelines.stored_rows import Stretch
from replay.simulate import LABEL_COLUMNS
from schemas.action import ActionRecord, ActionRequest
from schemas.incident import Incident
from tests.pipelines.test_counterfactual import said, side

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = Span(since=T0, until=T0 + 24 * HOUR, stretches=(Stretch(T0, T0 + 24 * HOUR),), watched_seconds=86_400.0)
DEAD = Incident(
    id="inc-1", cause="gpu_fallen_off_bus", severity="page", state="resolved", root_kind="gpu", roots=("n1/3",),
    members=("n1/3",), symptoms=(), starts_at=T0, detected_at=T0 + timedelta(seconds=60),
    ends_at=T0 + timedelta(seconds=1000), evidence=(),
)  # fmt: skip
PUMP = replace(
    DEAD, id="inc-2", cause="coolant_pump_failure", root_kind="cdu", roots=("cdu-1",), members=("n1/0", "n2/0")
)


def truth(*incidents: Incident) -> Truth:
    return Truth(wrong=incidents, told="")


def at(seconds: float, incident: Incident = DEAD, **more: object) -> Incident:
    return replace(incident, detected_at=T0 + timedelta(seconds=seconds), **more)


def judged(true: Incident, before: Rejudged, after: Rejudged):
    (fate,) = verdict(truth(true), before, after, DAY).fates
    return fate


@pytest.mark.parametrize(
    ("before", "after", "caught", "earlier"),
    [
        ((at(60),), (at(60),), "same", 0.0), ((at(60),), (at(20),), "earlier", 40.0),
        ((at(60),), (at(90),), "later", -30.0), ((at(60),), (), "newly missed", None),
        ((), (at(60),), "newly caught", None), ((), (), "missed by both", None),
        ((at(60),), (at(60, severity="info"),), "newly missed", None),
    ],
)  # fmt: skip
def test_what_becomes_of_what_was_wrong(before, after, caught, earlier) -> None:
    fate = judged(DEAD, side(*before), side(*after))
    assert (fate.caught, fate.earlier_seconds) == (caught, earlier)


def test_a_symptom_alone_is_a_miss_and_is_named() -> None:
    hot = replace(DEAD, id="inc-3", cause="gpu_thermal_throttle", roots=("n1/0",), members=("n1/0",))
    fate = judged(PUMP, side(PUMP), side(hot))
    assert fate.caught == "newly missed"
    assert fate.instead == hot


def test_another_root_on_the_same_node_is_told_otherwise_and_not_missed() -> None:
    node = replace(DEAD, cause="node_lost", root_kind="node", roots=("n1",))
    fate = judged(DEAD, side(DEAD), side(node))
    assert fate.caught == "same"
    assert [one.change for one in fate.changes] == ["cause", "root"]


def test_the_finding_behind_a_later_detection_is_named() -> None:
    before = side(DEAD, findings=(said(60), said(90)))
    fate = judged(DEAD, before, side(at(90), findings=(said(90),)))
    assert "begins at 2026-03-02 09:01:00, before only" in fate.finding


def test_one_new_false_page_in_a_day_is_at_most_4_744_a_day() -> None:
    """Garwood's one-sided 95 % limit of a count of one."""
    found = verdict(truth(), side(), side(DEAD), DAY)
    rate = found.new_rate("page")
    assert (rate.count, rate.per_day) == (1, 1.0)
    assert rate.at_most_per_day == pytest.approx(4.744, abs=0.001)
    assert found.new_rate("ticket").at_most_per_day == pytest.approx(2.996, abs=0.001)
    assert found.worse


def test_a_false_ticket_that_becomes_a_page_is_a_new_false_page() -> None:
    found = verdict(truth(), side(replace(DEAD, severity="ticket")), side(DEAD), DAY)
    assert [(one.was, one.incident.severity) for one in found.new_false] == [("ticket", "page")]


def test_a_false_page_that_is_no_longer_said_is_gone_and_nothing_is_worse() -> None:
    found = verdict(truth(), side(DEAD), side(), DAY)
    assert [one.incident.id for one in found.gone_false] == ["inc-1"]
    assert not found.worse


def test_what_warms_up_before_the_window_is_not_counted() -> None:
    early = replace(DEAD, detected_at=T0 - timedelta(seconds=1), starts_at=T0 - timedelta(seconds=5))
    found = verdict(truth(early), side(), side(replace(early, id="inc-8", roots=("n9/0",), members=())), DAY)
    assert (found.fates, found.new_false) == ((), ())


def test_what_was_wrong_in_an_hour_that_is_not_read_is_not_judged() -> None:
    read = (Stretch(T0, T0 + HOUR), Stretch(T0 + 2 * HOUR, T0 + 3 * HOUR))
    span = Span(since=T0, until=T0 + 3 * HOUR, stretches=read, watched_seconds=7200.0)
    past = [replace(DEAD, id=f"inc-{hour}", roots=(f"n{hour}/0",), members=(), starts_at=T0 + hour * HOUR,
                    detected_at=T0 + hour * HOUR, ends_at=None) for hour in (0, 1, 2)]  # fmt: skip
    found = verdict(truth(*past), side(*past), side(), span)
    assert [fate.truth.id for fate in found.of("newly missed")] == ["inc-0", "inc-2"]
    assert len(found.fates) == 2


def test_repeats_are_counted_from_what_caught_it_on() -> None:
    """A symptom that is told before is none, and a miss has none."""
    hot = at(10, id="inc-3", cause="gpu_thermal_throttle", roots=("n2/0",), members=("n1/3",))
    still_hot = replace(hot, id="inc-4", detected_at=T0 + timedelta(seconds=70))
    assert verdict(truth(DEAD), side(hot, DEAD), side(hot, DEAD, still_hot), DAY).repeats == (0, 1)
    assert verdict(truth(DEAD), side(DEAD), side(hot, still_hot), DAY).repeats == (0, 0)


def test_a_second_incident_on_what_was_told_is_a_repeat_and_not_false() -> None:
    again = at(500, id="inc-4", starts_at=T0 + timedelta(seconds=450))
    found = verdict(truth(DEAD), side(DEAD), side(DEAD, again), DAY)
    assert (found.repeats, found.new_false) == ((0, 1), ())


def test_a_note_that_begins_with_false_takes_an_incident_out_of_the_truth() -> None:
    store = OperationsStore.open(":memory:")
    store.upsert_incidents([DEAD, PUMP], at=T0)
    store.note("inc-1", "ada", "False: a planned pull", T0)
    store.note("inc-2", "ada", "not false at all", T0)
    found = past_truth(store, (DEAD, PUMP))
    store.close()
    assert found.wrong == (PUMP,)


def test_labels_are_the_truth_where_there_are_any() -> None:
    row = {"cause": "gpu_hang", "root_kind": "gpu", "roots": ["n1/3"], "members": ["n1/3"], "starts_at": T0,
           "ends_at": None}  # fmt: skip
    labels = labelled_truth(pl.DataFrame([row], schema=LABEL_COLUMNS), "labels.parquet")
    found = verdict(labels, side(), side(DEAD), DAY)
    assert [fate.caught for fate in found.fates] == ["newly caught"]


def asked(kind: str, outcome: str = "dry-run") -> ActionRecord:
    request = ActionRequest(
        id=kind, incident="inc-1", kind=kind, target="n1", parameters={}, requested_at=T0, reason=""
    )
    return ActionRecord(request=request, mode="dry-run", outcome=outcome, why="budget", at=T0)


def test_lost_gpu_seconds_are_gpus_times_seconds_and_an_earlier_detection_ends_them_earlier() -> None:
    both = replace(DEAD, members=("n1/3", "n1/4"))
    found = savings(both, both.detected_at, at(20, both), (), T0 + timedelta(days=1))
    assert (found.lost, found.earlier, found.automated) == (2 * 1000, 2 * 40, 2 * 40)


def test_automation_has_the_job_back_after_its_detection_and_its_actions() -> None:
    """Detected 60 s after the onset; drain 0.2 s, spare 0.1 s, shard 4 s, resume 1 s."""
    actions = [asked(kind) for kind in ("drain_node", "allocate_spare", "restore_shard", "resume")]
    found = savings(DEAD, DEAD.detected_at, DEAD, actions, T0 + timedelta(days=1))
    assert found.automated == pytest.approx(1000 - 60 - 5.3)


@pytest.mark.parametrize("outcome", ["refused", "observed", "scheduled", "waiting_approval"])
def test_what_is_not_done_is_left_to_people(outcome) -> None:
    found = savings(DEAD, DEAD.detected_at, DEAD, [asked("resume", outcome)], T0 + timedelta(days=1))
    assert found.automated == 0
    assert found.why == f"people: resume is {outcome.replace('_', ' ')} (budget)"
