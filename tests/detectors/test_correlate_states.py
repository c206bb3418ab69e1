"""The life of incidents, whatever is found: their states, what they hold, what they are called, and how they end.

Each history is looked at after every instant at which anything can change: a statement's, or a deadline's.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import permutations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.contract import FINDING_COLUMNS, Context
from detectors.correlate import DEFAULT_TIMING, correlate
from detectors.correlation_state import Correlation, encode, microseconds
from detectors.places import drawn_up
from schemas.incident import Incident
from tests.detectors.correlation_timeline import NOON, TOPOLOGY, cluster, end, finding, seconds
from tests.detectors.test_correlate_cuts import statements

Moment = tuple[datetime, tuple[Incident, ...], Correlation]
NOTHING = pl.DataFrame(schema=FINDING_COLUMNS)
AFTER = timedelta(microseconds=1)
CLEAR = timedelta(seconds=DEFAULT_TIMING.clear_seconds)


@st.composite
def lives(draw: st.DrawFn) -> list[dict[str, object]]:
    """Something is found; perhaps it is said again, or ends, before or after others know of it, and comes back."""
    found = {**draw(statements()), "active": True}
    said = [found]
    for active in draw(st.sampled_from(((), (False,), (False, True), (True, True, True)))):
        gap = timedelta(seconds=draw(st.sampled_from((1, 5, 20, 45, 100))))
        time = said[-1]["time"] + gap
        said.append({**found, "active": active, "time": time, "first_bad_at": time})
    return said


histories = st.lists(lives(), min_size=1, max_size=10).map(lambda several: [one for said in several for one in said])


def lived(said: list[dict[str, object]], *, until: float = 1200) -> Iterator[Moment]:
    """(now, what was told, state) after each instant at which something was said or was due."""
    rows = pl.DataFrame(sorted(said, key=lambda row: row["time"]), schema=FINDING_COLUMNS)
    last = NOON + timedelta(seconds=until)
    now = NOON - timedelta(days=1)
    told, state = correlate(rows, Correlation(), Context(now=now, began=NOON, topology=TOPOLOGY))
    while now < last:
        yield now, told, state
        coming = {one.time for one in state.held}
        coming |= {due for case in state.cases for due in case.deadlines(DEFAULT_TIMING) if due > state.until}
        now = min(NOON + timedelta(microseconds=min(coming) - microseconds(NOON)) + AFTER if coming else last, last)
        told, state = correlate(NOTHING, state, Context(now=now, began=NOON, topology=TOPOLOGY))
    yield now, told, state


def ends_of(said: list[dict[str, object]], at: float) -> list[dict[str, object]]:
    """The end of everything that was said."""
    return [end(at, one["cause"], one["entity"], detector=one["detector"]) for one in said]


MOVES = {
    (None, "suspect"), (None, "firing"), ("suspect", "suspect"), ("suspect", "firing"), ("suspect", "resolved"),
    ("firing", "firing"), ("firing", "resolved"), ("resolved", "suspect"), ("resolved", "firing"),
}  # fmt: skip


@settings(max_examples=40)
@given(histories)
def test_an_incident_goes_from_suspect_to_firing_to_resolved_and_never_back_to_a_suspicion(said):
    stands: dict[str, str] = {}
    fired: set[str] = set()
    for _, told, _ in lived(said):
        for one in told:
            assert (stands.get(one.id), one.state) in MOVES
            assert not (one.id in fired and one.state == "suspect")
            stands[one.id] = one.state
            fired |= {one.id} if one.state == "firing" else set()


@settings(max_examples=40)
@given(histories)
def test_it_is_resolved_when_it_has_been_over_for_as_long_as_the_hysteresis_says(said):
    for now, told, _ in lived([*said, *ends_of(said, 600)]):
        for one in told:
            if one.state == "resolved" and one.merged_into is None:
                assert one.ends_at is not None
                assert now == one.ends_at + CLEAR + AFTER


@settings(max_examples=40)
@given(histories)
def test_members_leave_an_open_incident_only_for_another_open_one_or_with_its_explanation(said):
    before: dict[str, Incident] = {}
    for _, _, state in lived(said):
        here = {one.id: one for one in state.incidents if one.state == "firing"}
        out = {gpu for one in here.values() for gpu in one.members}
        for one in before.values():
            # A job that hangs holds its GPUs only as long as nothing explains it: then those that failed are members.
            if one.id in here and here[one.id].cause == one.cause:
                assert set(one.members) <= out
        before = here


@settings(max_examples=40)
@given(histories)
def test_what_left_an_incident_for_a_better_one_does_not_go_back_and_forth(said):
    homes: defaultdict[object, list[str]] = defaultdict(list)
    for _, _, state in lived(said):
        open_cases = {case.id for case in state.cases if case.state != "resolved"}
        for level in state.levels:
            was = homes[level.said.key]
            if not was or was[-1] != level.case:
                # Only when the one that it went to is over may it be where it was before.
                assert level.case not in was or not set(was[was.index(level.case) + 1 :]) & open_cases
                was.append(level.case)


@settings(max_examples=40)
@given(histories)
def test_an_incident_is_about_one_cause_at_one_kind_of_place_and_an_active_finding_is_in_one_incident(said):
    for _, told, state in lived(said):
        cases = {case.id: case for case in state.cases}
        for case in cases.values():
            roots = [level for level in state.levels if level.case == case.id and level.root]
            if case.state != "resolved":
                assert {(level.said.cause, level.said.kind) for level in roots} == {(case.cause, case.kind)}
        for level in state.levels:
            assert not level.active or cases[level.case].state != "resolved"
        assert all(one.roots for one in told)


@settings(max_examples=40)
@given(histories, st.integers(1, 10_000))
def test_ids_come_from_what_fails_where_and_since_when_alone(said, shift_seconds):
    def ids(statements_: list[dict[str, object]]) -> set[str]:
        *_, (_, _, state) = lived(statements_, until=300)
        return {case.id for case in state.cases}

    reworded = [{**one, "score": 99.0, "threshold": 7.0, "action": "another"} for one in said]
    shift = timedelta(seconds=shift_seconds, microseconds=1)
    later = [{**one, "first_bad_at": one["first_bad_at"] + shift, "time": one["time"] + shift} for one in said]
    assert ids(reworded) == ids(said)
    assert not ids(later) & ids(said)


@settings(max_examples=40)
@given(histories)
def test_when_everything_has_ended_nothing_is_left_open_and_at_last_nothing_at_all(said):
    *_, (_, _, state) = lived([*said, *ends_of(said, 600)], until=600 + DEFAULT_TIMING.clear_seconds + 1)
    assert {case.state for case in state.cases} <= {"resolved"}
    *_, (_, _, state) = lived([*said, *ends_of(said, 600)], until=1200)
    assert (state.levels, state.cases, state.incidents) == ((), (), ())


@settings(max_examples=40)
@given(histories)
def test_an_incident_whose_root_goes_on_is_not_resolved(said):
    for _, told, state in lived(said):
        active = {level.case for level in state.levels if level.active and level.root}
        assert not {one.id for one in told if one.state == "resolved" and one.merged_into is None} & active


@settings(max_examples=40)
@given(histories)
def test_a_step_does_not_change_the_state_that_it_was_given(said):
    given_on = [(state, encode(state)) for _, _, state in lived(said)]
    assert [encode(state) for state, _ in given_on] == [as_it_was for _, as_it_was in given_on]


def test_where_a_job_works_is_let_go_of_when_no_incident_speaks_of_it_any_more():
    topology, state = cluster(), Correlation()
    began = NOON
    for number in range(20):  # each hangs, goes on a minute later, and is forgotten before the next hangs
        job = {"entity": f"job{number}", "evidence": '{"nodes": ["n01", "n02"]}'}
        for after, rows in ((1, [finding(0, "job_hang", **job)]), (61, [end(60, "job_hang", **job)]), (900, [])):
            frame = pl.DataFrame([row | {"time": began + (row["time"] - NOON)} for row in rows], schema=FINDING_COLUMNS)
            now = began + timedelta(seconds=after)
            _, state = correlate(frame, state, Context(now=now, began=NOON, topology=topology))
        assert state.levels == ()
        began += timedelta(hours=1)
    sites = drawn_up(topology)
    assert {job for part in (sites, *sites.of_jobs) for _, kind, job, _ in part if kind == "job"} <= {"job19"}


SYMPTOMS_OF_PDU0 = (
    *(("node_lost", f"n{node:02}") for node in range(16)),
    *(("gpu_hang", f"n{node:02}/3") for node in range(16)),
    *(("link_down", f"c{node:02}") for node in range(16)),
    *(("telemetry_stale", f"gpu:n{node:02}") for node in range(16)),
)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from(SYMPTOMS_OF_PDU0), st.integers(4, 400), st.sampled_from((True, True, False))),
        max_size=30,
    )
)
def test_symptoms_of_a_cause_that_goes_on_never_page_by_themselves(said):
    root = finding(3.5, "power_domain_lost", "pdu0", onset=3)
    symptoms = [finding(at, *what, active=active) for what, at, active in said]
    pages = {(one.cause, one.roots) for _, told, _ in lived([root, *symptoms], until=500) for one in told}
    assert pages == {("power_domain_lost", ("pdu0",))}


CHAIN = (
    ("power_domain_lost", "pdu0"), ("node_lost", "n01"), ("link_down", "c01"), ("gpu_hang", "n01/3"),
)  # fmt: skip


@pytest.mark.parametrize("first", range(len(CHAIN) + 1), ids=lambda count: f"{count} come before the watermark")
def test_power_explains_node_link_and_heartbeat_in_whatever_order_one_instant_arrives(first):
    instant = NOON + timedelta(seconds=5)
    for order in permutations(CHAIN):
        state = Correlation()
        rows = [pl.DataFrame([finding(5, *what)], schema=FINDING_COLUMNS) for what in order]
        arrived = (pl.concat(rows[:first] or [NOTHING]), pl.concat(rows[first:] or [NOTHING]))
        for frame, now in zip(arrived, (instant, instant + timedelta(seconds=10)), strict=True):
            told, state = correlate(frame, state, Context(now=now, began=NOON, topology=TOPOLOGY))
        (incident,) = told
        assert (incident.cause, incident.roots, seconds(incident.detected_at)) == ("power_domain_lost", ("pdu0",), 5)
        assert incident.symptoms == (("gpu", "n01/3"), ("link", "c01"), ("node", "n01"))
        assert len(incident.members) == 128  # power spoke first, so it takes all that it feeds
