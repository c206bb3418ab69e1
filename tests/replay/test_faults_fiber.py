"""Damage to fibres in the OTDR's own terms: the shots at 0 and 240 s of the scenario, before and after."""

from functools import cache

import polars as pl
import pytest

from replay.scenario import load_scenario
from replay.simulate import labels, simulate, topology_of

SCENARIO = "fiber_damage"
BENT, DIRTY, CUT = "c000100", "c000110", "c000120"


@cache
def told() -> dict[str, pl.DataFrame]:
    scenario = load_scenario(SCENARIO)
    windows = list(simulate(scenario, topology_of(scenario)))
    return {
        table: pl.concat([window.tables[table] for window in windows])
        for table in ("otdr_trace", "otdr_event", "fabric_port")
    }


def shots(cable: str) -> list[list[tuple[float, float | None, float | None, str]]]:
    """Events of the first and of the last shot."""
    events = told()["otdr_event"].filter(cable=cable).sort("time", "number")
    values = ("distance_meters", "loss_db", "reflectance_db", "code")
    return [
        events.filter(pl.col("time") == time).select(values).rows() for time in (events["time"][0], events["time"][-1])
    ]


def test_a_bend_away_from_the_panel_is_a_new_event_that_does_not_reflect() -> None:
    before, after = shots(BENT)
    (new,) = [event for event in after if event[3].startswith("0F")]
    assert len(after) == len(before) + 1
    assert new[0] == pytest.approx(0.8 * before[-1][0], abs=0.1)
    assert (new[1], new[2]) == (pytest.approx(0.6, abs=0.08), None)


def test_dirt_reflects_more_and_loses_hardly_more() -> None:
    before, after = shots(DIRTY)
    assert after[1][2] - before[1][2] == pytest.approx(20, abs=1.5)
    assert after[1][1] - before[1][1] < 0.2
    assert [event[0] for event in after] == pytest.approx([event[0] for event in before], abs=0.2)


def test_a_cut_fibre_ends_there_with_the_reflection_of_glass_to_air_and_its_link_is_dead() -> None:
    before, after = shots(CUT)
    assert after[-1][0] == pytest.approx(before[-1][0] / 4, abs=0.1)
    # Fresnel at n = 1.4676: ((n - 1) / (n + 1))^2 = -14.4 dB
    assert (after[-1][2], after[-1][3]) == (pytest.approx(-14.4, abs=1), "1E9999LS")
    lengths = told()["otdr_trace"].filter(cable=CUT).sort("time")["length_meters"]
    assert lengths[-1] == pytest.approx(lengths[0] / 4, abs=0.1)
    topology = topology_of(load_scenario(SCENARIO))
    link = topology.links.filter(cable=CUT).row(0, named=True)
    port = told()["fabric_port"].filter(device=link["a"], port=link["a_port"]).sort("time")
    assert (port["state"][0], port["state"][-1]) == ("active", "down")


def test_the_truth_names_the_cable_and_the_shot_that_shows_it() -> None:
    scenario = load_scenario(SCENARIO)
    truth = labels(scenario, topology_of(scenario)).sort("roots").select("cause", "root_kind", "roots").rows()
    assert truth == [
        ("fiber_loss", "cable", [BENT]), ("fiber_reflectance", "cable", [DIRTY]), ("fiber_loss", "cable", [CUT]),
    ]  # fmt: skip
