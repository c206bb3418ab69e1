"""The small cluster that lives by the clock."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from pipelines.sources.contract import SourceError
from pipelines.sources.live_simulation import CYCLE_SECONDS, SINCE_VARIABLE, LiveSimulation, live_simulation

SINCE = datetime(2026, 3, 2, 8, tzinfo=UTC)


def at(seconds):
    return LiveSimulation(since=SINCE, clock=lambda: SINCE + timedelta(seconds=seconds))


def rows(arrivals):
    """Rows by table of all arrivals together."""
    frames = {}
    for arrival in arrivals:
        for name, frame in arrival.batch.tables.items():
            frames.setdefault(name, []).append(frame)
    return {name: pl.concat(parts) for name, parts in frames.items()}


def offsets(arrivals):
    return arrivals[-1].offsets


def test_nothing_has_happened_before_the_first_window_ends():
    assert list(at(19).arrivals({})) == []


def test_passes_one_after_the_other_give_what_one_pass_gives():
    whole = rows(at(CYCLE_SECONDS + 60).arrivals({}))
    first = list(at(250).arrivals({}))
    second = list(at(CYCLE_SECONDS - 5).arrivals(offsets(first)))
    third = list(at(CYCLE_SECONDS + 75).arrivals(offsets(second)))
    pieces = rows([*first, *second, *third])
    assert whole.keys() == pieces.keys()
    for name, frame in whole.items():
        assert frame.equals(pieces[name]), name


def test_a_pass_right_after_another_gives_nothing_new():
    first = list(at(100).arrivals({}))
    assert list(at(110).arrivals(offsets(first))) == []


def test_no_row_is_from_the_future():
    for name, frame in rows(at(130).arrivals({})).items():
        if name != "maintenance" and frame.height:
            assert frame["time"].max() < SINCE + timedelta(seconds=130)


def test_faults_begin_and_end_within_their_cycle_and_move_on():
    places = []
    for number in range(3):
        faults = at(0).cycle(number).faults
        assert all(fault.at_seconds >= 0 and fault.at_seconds + fault.lasts_seconds < CYCLE_SECONDS for fault in faults)
        places.append({(fault.fault, fault.entity or fault.roots) for fault in faults})
    assert places[0] != places[1] != places[2]


def test_the_stream_is_named_for_when_it_began():
    assert (
        live_simulation("simulated@2026-03-02T09:00:00+01:00", lambda: SINCE).stream == "simulated@2026-03-02T08:00:00Z"
    )


def test_what_the_ui_chose_is_taken_when_nothing_is_said(monkeypatch):
    monkeypatch.setenv(SINCE_VARIABLE, "2026-03-02T07:58:30+00:00")
    assert live_simulation("simulated", lambda: SINCE).since == SINCE - timedelta(seconds=90)


def test_a_time_that_is_none_is_refused_with_an_example():
    with pytest.raises(SourceError, match="2026-03-01T08:00:00Z"):
        live_simulation("simulated@yesterday", lambda: SINCE)
