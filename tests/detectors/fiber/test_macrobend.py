"""Shots of one 60 m fibre at several wavelengths, a minute apart unless told otherwise."""

import json
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from detectors.contract import Context
from detectors.fiber.macrobend import Macrobend
from schemas.fiber import OtdrEvent, OtdrTrace
from schemas.tables import TABLE_BY_SCHEMA
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, topology_from_frames

BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
NOWHERE = topology_from_frames("none", pl.DataFrame(schema=NODE_COLUMNS), pl.DataFrame(schema=LINK_COLUMNS))
NEAR, END = (0.0, 0.2, -54.0, "1F9999LS"), (60.0, None, -45.0, "1E9999LS")


def at(loss, meters=30.0):
    return (meters, loss, None, "0F9999LS")


def said(*shots, cuts=(), pulse_nanoseconds=5.0):
    """shots: (minute, nanometers, *events between both ends); or with a dict of other key columns first."""
    traces, events = [], []
    for minute, nanometers, *inner in shots:
        key = {"time": BEGAN + timedelta(minutes=minute), "cable": "c1", "fiber": "1", "direction": "AB"}
        traces.append(
            {
                **key,
                "wavelength_nanometers": nanometers,
                "pulse_nanoseconds": pulse_nanoseconds,
                "sample_spacing_meters": 0.1,
            }
        )
        names = ("distance_meters", "loss_db", "reflectance_db", "code")
        for number, event in enumerate((NEAR, *inner, END), 1):
            events.append({**key, "number": number, **dict(zip(names, event, strict=True))})
    state, findings, since = pl.DataFrame(schema=Macrobend.keeps), [], BEGAN
    for until in (*(BEGAN + timedelta(minutes=minute) for minute in cuts), BEGAN + timedelta(days=1)):
        batch = {
            schema: frame(schema, rows).filter(pl.col("time").is_between(since, until, closed="left"))
            for schema, rows in ((OtdrTrace, traces), (OtdrEvent, events))
        }
        detection = Macrobend().detect(batch, state, Context(now=until, began=BEGAN, topology=NOWHERE))
        state, since = detection.state, until
        findings.append(detection.findings)
    return [
        ((row["time"] - BEGAN).total_seconds() / 60, row["entity"], row["active"], json.loads(row["evidence"]))
        for row in pl.concat(findings).iter_rows(named=True)
    ]


def frame(schema, rows):
    columns = TABLE_BY_SCHEMA[schema].columns
    return pl.DataFrame([{name: row.get(name) for name in columns} for row in rows], schema=columns).sort("time")


@pytest.mark.parametrize("cuts", [(), (1,)], ids=["one batch", "a batch each"])
def test_more_loss_at_the_longer_wavelength_is_a_bend(cuts):
    ((minute, cable, active, seen),) = said((0, 1310.0, at(0.1)), (1, 1550.0, at(0.65)), cuts=cuts)
    assert (minute, cable, active) == (1, "c1", True)
    assert (seen["distance_meters"], seen["delta_db"], seen["wavelength_nanometers"]) == (
        30.0, pytest.approx(0.55), 1550.0,
    )  # fmt: skip


def test_the_order_of_the_wavelengths_does_not_matter():
    assert [minute for minute, *_ in said((0, 1550.0, at(0.65)), (1, 1310.0, at(0.1)))] == [1]


def test_a_place_that_the_shortest_does_not_list_loses_nothing_there():
    assert [active for _, _, active, _ in said((0, 1310.0), (1, 1625.0, at(0.5)))] == [True]


def test_each_wavelength_is_held_against_the_shortest():
    # 0.3 dB from 1310 to 1550 and from 1550 to 1625: no bend between neighbours, 0.6 dB in all.
    assert [minute for minute, *_ in said((0, 1310.0, at(0.0)), (1, 1550.0, at(0.3)), (2, 1625.0, at(0.6)))] == [2]


def test_a_bend_that_is_relieved_ends_it():
    shots = (0, 1310.0, at(0.1)), (1, 1550.0, at(0.9)), (10, 1310.0, at(0.1)), (11, 1550.0, at(0.1))
    assert [(minute, active) for minute, _, active, _ in said(*shots)] == [(1, True), (11, False)]
    assert said(*shots, cuts=(5, 11)) == said(*shots)


@pytest.mark.parametrize(
    "shots",
    [
        [(0, 1310.0, at(0.1)), (1, 1550.0, at(0.55))],
        [(0, 1310.0, at(0.9)), (1, 1550.0, at(0.2))],
        [(0, 850.0, at(0.1)), (1, 1300.0, at(0.9))],
        [(0, 1310.0, at(0.1)), (61, 1550.0, at(0.9))],
        [(0, 1550.0, at(0.9)), (1, 1550.0, at(0.9))],
        [(0, 1310.0, at(0.6, 30.0)), (1, 1550.0, at(0.7, 30.9))],
        [(0, 1310.0), (1, 1550.0, at(0.9, 90.0))],
    ],
    ids=["0.45 dB", "less at the longer", "multimode", "an hour apart", "one wavelength", "the same place", "a ghost"],
)
def test_what_is_no_bend(shots):
    assert said(*shots) == []


def test_shots_of_one_visit_are_held_against_each_other():
    assert [minute for minute, *_ in said((0, 1310.0, at(0.1)), (30, 1550.0, at(0.9)))] == [30]


def test_the_same_place_is_within_a_metre_or_the_pulse():
    # 5 ns are 0.51 m and 50 ns 5.1 m in glass of index 1.468.
    assert [minute for minute, *_ in said((0, 1310.0, at(0.6)), (1, 1550.0, at(0.7, 31.5)))] == [1]
    assert said((0, 1310.0, at(0.6)), (1, 1550.0, at(0.7, 33.0)), pulse_nanoseconds=50.0) == []
