"""Shots by hand: two connectors and the end of a 50 m fibre at 1310 nm with a 5 ns pulse (0.51 m)."""

import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from detectors.contract import Context
from detectors.fiber.event_loss import EventLoss
from schemas.fiber import OtdrEvent, OtdrTrace
from schemas.tables import TABLE_BY_SCHEMA
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, topology_from_frames

BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
TOPOLOGY = topology_from_frames("none", pl.DataFrame(schema=NODE_COLUMNS), pl.DataFrame(schema=LINK_COLUMNS))
NEAR, PANEL, END = (0.0, 0.2, -54.0, "1F9999LS"), (25.0, 0.25, -53.0, "1F9999LS"), (50.0, None, -45.0, "1E9999LS")


def shot(hour, *events, cable="c1", fiber="1", direction="AB", baseline=None, nanometers=1310.0, total=None, **facts):
    """(trace row, event rows); events are (distance, loss, reflectance, code)."""
    key = {"time": BEGAN + timedelta(hours=hour), "cable": cable, "fiber": fiber, "direction": direction}
    trace = {
        **key, "wavelength_nanometers": nanometers, "pulse_nanoseconds": 5.0, "group_index": 1.4676,
        "sample_spacing_meters": 0.1, "baseline": baseline, "total_loss_db": total, **facts,
    }  # fmt: skip
    names = ("distance_meters", "loss_db", "reflectance_db", "code")
    return trace, [
        {**key, "number": number, **dict(zip(names, each, strict=True))} for number, each in enumerate(events, 1)
    ]


def judge(*shots):
    traces = table(OtdrTrace, [trace for trace, _ in shots])
    events = table(OtdrEvent, [event for _, events in shots for event in events])
    context = Context(now=BEGAN + timedelta(hours=100), began=BEGAN, topology=TOPOLOGY)
    return (
        EventLoss()
        .detect({OtdrTrace: traces, OtdrEvent: events}, pl.DataFrame(schema=EventLoss.keeps), context)
        .findings
    )


def table(schema, rows):
    columns = TABLE_BY_SCHEMA[schema].columns
    return pl.DataFrame([{name: row.get(name) for name in columns} for row in rows], schema=columns).sort("time")


def said(findings):
    return [
        (round((row["time"] - BEGAN).total_seconds() / 3600), row["cause"], row["entity"], row["code"], row["active"])
        for row in findings.iter_rows(named=True)
    ]


def worse(event, *, loss=0.0, reflectance=0.0, moved=0.0):
    return (event[0] + moved, event[1] + loss, event[2] + reflectance, event[3])


def test_an_event_that_loses_more_than_in_the_baseline_and_the_shot_that_shows_it_is_the_onset():
    findings = judge(
        shot(0, NEAR, PANEL, END, baseline=True), shot(1, NEAR, PANEL, END), shot(2, NEAR, worse(PANEL, loss=0.6), END)
    )
    assert said(findings) == [(2, "fiber_loss", "c1", "event", True)]
    assert findings["first_bad_at"].to_list() == [BEGAN + timedelta(hours=2)]
    seen = json.loads(findings["evidence"][0])
    assert (seen["loss_grown_db"], seen["loss_meters"]) == (pytest.approx(0.6), 25.0)


def test_growth_below_the_limit_is_none():
    assert judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, worse(PANEL, loss=0.25), END)).is_empty()


def test_events_are_the_same_place_within_the_resolution():
    # 0.51 m of pulse and 1 m of accuracy: 0.8 m away is the same connector, 3 m away a new event of 0.25 dB.
    assert judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, worse(PANEL, moved=0.8), END)).is_empty()
    moved = judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, PANEL, worse(PANEL, loss=0.2, moved=3.0), END))
    assert said(moved) == [(1, "fiber_loss", "c1", "new_event", True)]


@pytest.mark.parametrize(("pulse", "moved", "found"), [(5.0, 1.5, 1), (50.0, 3.0, 0)])
def test_without_a_group_index_it_is_that_of_usual_glass(pulse, moved, found):
    # 5 ns are 0.51 m and 50 ns 5.1 m at 1.468.
    facts = {"pulse_nanoseconds": pulse, "group_index": None}
    other = worse(PANEL, loss=0.1, moved=moved)
    assert judge(shot(0, NEAR, PANEL, END, **facts), shot(1, NEAR, other, END, **facts)).height == found


def test_a_gainer_is_compared_with_itself_and_never_with_zero():
    gainer = (25.0, -0.4, -53.0, "0F9999LS")
    assert judge(shot(0, NEAR, gainer, END), shot(1, NEAR, gainer, END)).is_empty()
    assert said(judge(shot(0, NEAR, gainer, END), shot(1, NEAR, worse(gainer, loss=0.4), END))) == [
        (1, "fiber_loss", "c1", "event", True)
    ]


def test_the_other_direction_and_the_other_wavelength_have_their_own_baselines():
    loss_at_1550 = worse(PANEL, loss=0.5)
    assert judge(
        shot(0, NEAR, PANEL, END),
        shot(1, NEAR, loss_at_1550, END, direction="BA"),
        shot(2, NEAR, loss_at_1550, END, nanometers=1550.0),
    ).is_empty()


def test_without_a_baseline_the_first_shot_is_it_and_a_later_marked_one_replaces_it():
    bad = worse(PANEL, loss=0.6)
    findings = judge(
        shot(0, NEAR, PANEL, END),
        shot(1, NEAR, bad, END),
        shot(2, NEAR, bad, END, baseline=True),
        shot(3, NEAR, bad, END),
    )
    assert said(findings) == [(1, "fiber_loss", "c1", "event", True), (2, "fiber_loss", "c1", None, False)]


def test_a_good_shot_ends_it():
    findings = judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, worse(PANEL, loss=1.0), END), shot(2, NEAR, PANEL, END))
    assert [(hour, active) for hour, *_, active in said(findings)] == [(1, True), (2, False)]


def test_fibres_of_a_cable_are_one_finding_that_ends_with_the_last():
    bad = worse(PANEL, loss=1.0)
    findings = judge(
        shot(0, NEAR, PANEL, END), shot(0, NEAR, PANEL, END, fiber="2"), shot(1, NEAR, bad, END),
        shot(2, NEAR, bad, END, fiber="2"), shot(3, NEAR, PANEL, END), shot(4, NEAR, PANEL, END, fiber="2"),
    )  # fmt: skip
    assert [(hour, active) for hour, *_, active in said(findings)] == [(1, True), (4, False)]


def test_reflectance_that_grows_is_its_own_cause():
    findings = judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, worse(PANEL, reflectance=15.0), END))
    assert said(findings) == [(1, "fiber_reflectance", "c1", "reflectance", True)]
    assert findings["action"].to_list() == ["clean_connector"]


def test_reflectance_that_grows_by_twice_its_repeatability_is_no_growth():
    assert judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, worse(PANEL, reflectance=4.0), END)).is_empty()


@pytest.mark.parametrize(("reflectance", "found"), [(-42.0, 1), (-48.0, 0)])
def test_a_new_event_may_reflect_what_a_good_connector_does(reflectance, found):
    new = (12.0, 0.1, reflectance, "1F9999LS")
    assert judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, new, PANEL, END)).height == found


def test_a_fibre_that_ends_early_is_broken_and_a_page():
    findings = judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, (12.0, None, -15.0, "1E9999LS")))
    assert said(findings) == [(1, "fiber_loss", "c1", "break", True)]
    assert findings["severity"].to_list() == ["page"]


def test_loss_that_no_event_explains_is_seen_in_the_total():
    findings = judge(shot(0, NEAR, PANEL, END, total=0.5), shot(1, NEAR, PANEL, END, total=1.1))
    assert said(findings) == [(1, "fiber_loss", "c1", "total_loss", True)]


def test_a_shot_without_events_says_nothing_about_them():
    assert judge(shot(0), shot(1, NEAR, worse(PANEL, loss=2.0), END)).is_empty()


def test_what_lies_behind_the_end_of_the_fibre_is_no_event_of_it():
    ghost = (90.0, 0.9, -20.0, "1F9999LS")
    assert judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, PANEL, END, ghost)).is_empty()


def test_a_fibre_that_ends_farther_away_is_another_one_and_not_compared():
    findings = judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, worse(PANEL, loss=1.0), worse_end(20.0)))
    assert said(findings) == [(1, "fiber_length", "c1", "longer", True)]
    assert findings["severity"].to_list() == ["ticket"]


def worse_end(moved):
    return (END[0] + moved, None, *END[2:])


@pytest.mark.parametrize(
    ("events", "signature", "action"),
    [
        ((NEAR, (25.0, 0.3, -30.0, "1F9999LS"), END), "dirty_connector", "clean_connector"),
        ((NEAR, (25.0, 1.5, -30.0, "1F9999LS"), END), "dirty_connector", "clean_connector"),
        ((NEAR, (25.0, 1.5, -15.0, "1F9999LS"), END), "open_connector", "reseat"),
        ((NEAR, (25.0, 1.0, -53.0, "1F9999LS"), END), "misaligned_connector", "reseat"),
        ((NEAR, PANEL, (40.0, 0.8, None, "0F9999LS"), END), "bend", "replace_cable"),
        ((NEAR, PANEL, (40.0, 0.8, -35.0, "1F9999LS"), END), "crack", "replace_cable"),
        ((NEAR, (12.0, None, -15.0, "1E9999LS")), "break", "replace_cable"),
    ],
    ids=["dirt reflects", "dirt reflects and loses", "air gap", "strained", "bend", "crack", "break"],
)
def test_the_signature_of_the_damage_says_what_to_do(events, signature, action):
    findings = judge(shot(0, NEAR, PANEL, END), shot(1, *events))
    assert {json.loads(each)["signature"] for each in findings["evidence"]} == {signature}
    assert set(findings["action"]) == {action}


def test_a_span_that_loses_more_without_an_event_is_the_fibre_itself():
    findings = judge(shot(0, NEAR, PANEL, END, total=0.5), shot(1, NEAR, PANEL, END, total=1.1))
    assert json.loads(findings["evidence"][0])["signature"] == "attenuation"


def test_an_event_just_before_the_end_is_not_the_end():
    before_end = (49.5, 0.8, None, "0F9999LS")
    assert said(judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, PANEL, before_end, END))) == [
        (1, "fiber_loss", "c1", "new_event", True)
    ]


def test_a_break_is_scored_by_the_metres_that_are_missing():
    findings = judge(shot(0, NEAR, PANEL, END), shot(1, NEAR, (12.0, None, -15.0, "1E9999LS")))
    assert findings.select("score", "threshold").rows() == [(38.0, 1.0)]
