"""What the faults of links, modules and switches do to the rows."""

from datetime import timedelta
from functools import cache

import polars as pl
import pytest

from replay.faults import FAULTS
from replay.layout import layout_of
from replay.scenario import load_scenario
from replay.simulate import labels, simulate, topology_of

BEGAN = 240


@cache
def told(name):
    scenario = load_scenario(name)
    windows = list(simulate(scenario, topology_of(scenario)))
    return {
        table: pl.concat([window.tables[table] for window in windows])
        for table in ("fabric_port", "optic", "heartbeat")
    }


def at(name, second):
    return load_scenario(name).starts_at + timedelta(seconds=second)


def end_of(name, cable, end):
    row = topology_of(load_scenario(name)).link_rows[cable]
    return {"device": row[end], "port": row[f"{end}_port"]}


def parted(name, table, **place):
    """The rows of one place, before and after the fault (and the sample that straddles it)."""
    rows = told(name)[table].filter(**place)
    return rows.filter(pl.col("time") < at(name, BEGAN)), rows.filter(pl.col("time") > at(name, BEGAN + 61))


def grown(rows, counter):
    return (rows[counter][-1] - rows[counter][0]) / (rows["time"][-1] - rows["time"][0]).total_seconds()


def test_a_serdes_makes_errors_and_its_light_stays():
    place = end_of("link_errors", "c000075", "b")
    before, after = parted("link_errors", "fabric_port", **place)
    # Three and a half decades.
    rise = after["raw_bit_error_rate"].mean() / before["raw_bit_error_rate"].mean()
    assert rise == pytest.approx(10**3.5, rel=0.2)
    dark, lit = parted("link_errors", "optic", **place)
    assert lit["receive_power_dbm"].mean() == pytest.approx(dark["receive_power_dbm"].mean(), abs=0.05)


def test_bursts_fill_the_tail_of_the_histogram_and_leave_the_rate():
    place = end_of("fec_tail", "c000083", "a")
    before, after = parted("fec_tail", "fabric_port", **place)

    def tail(rows):
        return rows.with_columns(tail=pl.col("fec_histogram").list.slice(8).list.sum())

    assert tail(before)["tail"].unique().to_list() == [0]
    # 1e-7 of 7.4e7 codewords a second, 0.6^7 of them with eight wrong symbols and more.
    assert grown(tail(after), "tail") == pytest.approx(1e-7 * 400e9 / 5440 * 0.6**7, rel=0.3)
    assert after["raw_bit_error_rate"].mean() < 2 * before["raw_bit_error_rate"].mean()


def test_a_blocked_cage_heats_one_module_alone():
    place = end_of("module_overheated", "c000066", "b")
    cool, hot = parted("module_overheated", "optic", **place)
    rise = hot["module_temperature_celsius"].mean() - cool["module_temperature_celsius"].mean()
    assert rise == pytest.approx(22.0, abs=1.0)
    cool, other = parted("module_overheated", "optic", **end_of("module_overheated", "c000066", "a"))
    assert other["module_temperature_celsius"].mean() == pytest.approx(
        cool["module_temperature_celsius"].mean(), abs=1.0
    )


def test_a_congested_sender_waits_and_drops_and_makes_no_error():
    place = end_of("congested_link", "c000012", "b")
    before, after = parted("congested_link", "fabric_port", **place)
    assert grown(after, "transmit_wait_total") > 100 * grown(before, "transmit_wait_total")
    assert grown(before, "transmit_discard_total") == 0
    assert grown(after, "transmit_discard_total") == pytest.approx(20.0, rel=0.3)
    assert after["symbol_error_total"].n_unique() == 1
    assert labels(load_scenario("congested_link"), topology_of(load_scenario("congested_link"))).is_empty()


def test_a_slow_hop_doubles_the_collectives_of_every_step_and_nobodys_computing():
    assert set(
        parted("slow_hop", "fabric_port", **end_of("slow_hop", "c000070", "a"))[1]["rate_gigabits_per_second"]
    ) == {200.0}
    before, after = parted("slow_hop", "heartbeat")

    def communication(rows):
        steps = rows.group_by("step").agg(pl.col("step_seconds").max(), pl.col("compute_seconds").max())
        return (steps["step_seconds"] - steps["compute_seconds"]).median()

    assert communication(before) == pytest.approx(0.8, abs=0.01)
    assert communication(after) == pytest.approx(1.6, abs=0.01)


def test_a_lost_switch_says_nothing_and_its_neighbours_see_their_links_down():
    name, lost = "switch_lost", "leaf-003"
    after = told(name)["fabric_port"].filter(pl.col("time") > at(name, 200))
    assert after.filter(device=lost).is_empty()
    towards = topology_of(load_scenario(name)).ports.filter(device=lost).select(device="peer", port="peer_port")
    assert set(after.join(towards, on=["device", "port"])["state"]) == {"down"}
    assert set(after.join(towards, on=["device", "port"], how="anti")["state"]) == {"active"}


def test_every_fault_of_a_link_refuses_a_cable_that_is_not_there():
    layout = layout_of(topology_of(load_scenario("link_errors")), 1)
    named = {kind.name: kind for kind in FAULTS}
    for name in ("link_errors", "fec_tail", "module_unwell", "congested_link", "slow_hop", "switch_lost"):
        assert "there is no" in named[name](at_seconds=1, entity="c999999").unknown(layout)
