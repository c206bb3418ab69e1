from datetime import timedelta
from functools import cache

import polars as pl
import pytest

from replay.scenario import load_scenario
from replay.simulate import labels, simulate, topology_of
from schemas.label import Label
from schemas.tables import TABLE_BY_NAME


@cache
def told(name):
    scenario = load_scenario(name)
    windows = list(simulate(scenario, topology_of(scenario)))
    return {table: pl.concat([window.tables[table] for window in windows]) for table in TABLE_BY_NAME}


def truth(name):
    scenario = load_scenario(name)
    found = labels(scenario, topology_of(scenario))
    Label.validate(found)
    return found.row(0, named=True)


def at(name, second):
    return load_scenario(name).starts_at + timedelta(seconds=second)


def after(name, table, second):
    return told(name)[table].filter(pl.col("time") >= at(name, second))


def test_three_pdus_take_384_gpus_and_name_them():
    label = truth("pdu_cascade")
    assert (label["cause"], label["root_kind"], len(label["members"])) == ("power_domain_lost", "pdu", 384)
    assert after("pdu_cascade", "gpu", 180).select("node", "gpu").n_unique() == 512 - 384


def test_lost_meters_gasp_once_and_fall_silent():
    power = after("pdu_cascade", "power", 180).filter(pl.col("pdu") != "pdu-003")
    assert power.height == 3
    assert power.select("volts", "watts", "breaker").unique().rows() == [(0.0, 0.0, "tripped")]


def test_everything_a_powerless_node_sends_stops_and_its_leaf_sees_the_link_go_down():
    name = "pdu_cascade"
    for table in ("gpu", "heartbeat", "cold_plate"):
        assert after(name, table, 180).filter(pl.col("node") < "n00048").is_empty()
    ports = topology_of(load_scenario(name)).ports.filter(pl.col("peer").str.starts_with("n00000/"))
    far = after(name, "fabric_port", 210).join(ports, on=["device", "port"])
    assert set(far["state"]) == {"down"}
    assert far["rate_gigabits_per_second"].null_count() == far.height


def test_with_both_pumps_stopped_plates_warm_by_more_than_one_kelvin_a_second():
    warm = told("pump_failure")["gpu"].filter(
        pl.col("node") == "n00009", pl.col("time").is_between(at("pump_failure", 185), at("pump_failure", 195))
    )
    rise = warm.group_by("gpu").agg(pl.col("temperature_celsius").last() - pl.col("temperature_celsius").first())
    assert rise["temperature_celsius"].mean() / 9 > 1.0


def test_the_members_of_a_pump_failure_are_the_gpus_that_say_they_were_throttled():
    throttled = told("pump_failure")["gpu"].filter(pl.col("clocks_event_reasons") & 0x60 != 0)
    said = {f"{node}/{gpu}" for node, gpu in throttled.select("node", "gpu").unique().rows()}
    assert said == set(truth("pump_failure")["members"])
    assert len(said) == 64


def test_a_throttled_gpu_says_so_and_loses_clock_and_power():
    gpu = told("thermal_throttle")["gpu"].filter(node="n00003", gpu=1)
    hot = gpu.filter(pl.col("time") >= truth("thermal_throttle")["starts_at"])
    before = gpu.filter(pl.col("time") < at("thermal_throttle", 180))
    slowed = hot.filter(pl.col("clocks_event_reasons") & 0x20 != 0)
    assert slowed["time"][0] == hot["time"][0]
    assert slowed.height > 0.8 * hot.height  # it cools down while a checkpoint is saved
    assert slowed["sm_clock_megahertz"].mean() < 0.97 * before["sm_clock_megahertz"].mean()
    assert slowed["power_watts"].mean() < 0.97 * before["power_watts"].mean()
    assert (before["clocks_event_reasons"] & 0x60 == 0).all()


def test_a_gpu_off_the_bus_leaves_its_host_and_seven_others():
    name = "gpu_fallen_off_bus"
    beats = after(name, "heartbeat", 181).filter(node="n00005")
    assert sorted(beats["gpu"].unique()) == [0, 1, 2, 4, 5, 6, 7]
    assert sorted(after(name, "gpu", 181).filter(node="n00005")["gpu"].unique()) == [0, 1, 2, 4, 5, 6, 7]
    assert sorted(after(name, "cold_plate", 181).filter(node="n00005")["gpu"].unique()) == list(range(8))
    assert told(name)["gpu_event"].filter(code=79).select("node", "gpu").rows() == [("n00005", 3)]


def test_survivors_go_on_stepping_after_a_loss():
    beats = after("gpu_fallen_off_bus", "heartbeat", 200)
    assert beats["step"].max() - beats["step"].min() > 20


def test_a_lost_node_takes_its_eight_gpus():
    assert len(truth("node_lost")["members"]) == 8
    assert after("node_lost", "heartbeat", 180).filter(node="n00004").is_empty()
    assert after("node_lost", "power", 180).height > 0


def test_decaying_memory_first_remaps_a_row_and_then_cannot():
    gpu = told("memory_decay")["gpu"].filter(node="n00002", gpu=6)
    assert gpu["ecc_correctable_total"].last() - gpu["ecc_correctable_total"].first() > 100
    events = told("memory_decay")["gpu_event"]
    assert events["code"].to_list() == [63, 64]
    assert not gpu.filter(pl.col("time") < events["time"][1])["row_remap_failure"].any()
    assert gpu.filter(pl.col("time") >= events["time"][1])["row_remap_failure"].all()


def test_one_straggler_stretches_the_step_of_all():
    name = "straggler"
    before = told(name)["heartbeat"].filter(pl.col("time") < at(name, 180))
    later = after(name, "heartbeat", 200)
    assert later["step_seconds"].mean() / before["step_seconds"].mean() > 1.15
    own = later.group_by("node", "gpu").agg(pl.col("compute_seconds").mean()).sort("compute_seconds")
    assert own.row(-1)[:2] == ("n00006", 2)


def test_an_ageing_laser_draws_more_sends_less_and_its_far_receiver_errs():
    row = topology_of(load_scenario("optic_decay")).link_rows["c000070"]
    optic, port = told("optic_decay")["optic"], told("optic_decay")["fabric_port"]
    near = optic.filter(device=row["a"], port=row["a_port"], lane=0)
    far = optic.filter(device=row["b"], port=row["b_port"], lane=0)
    assert near["bias_milliamps"].last() / near["bias_milliamps"].first() == pytest.approx(1.35, abs=0.02)
    assert near["transmit_power_dbm"].first() - near["transmit_power_dbm"].last() == pytest.approx(6.0, abs=0.2)
    assert far["receive_power_dbm"].first() - far["receive_power_dbm"].last() == pytest.approx(6.0, abs=0.2)
    assert far["transmit_power_dbm"].first() - far["transmit_power_dbm"].last() == pytest.approx(0.0, abs=0.2)
    errors = port.filter(device=row["b"], port=row["b_port"])["raw_bit_error_rate"]
    assert errors.last() / errors.first() > 1000


def test_dirt_takes_light_from_one_lane_at_one_end():
    optic = told("dirty_connector")["optic"]
    fall = optic.group_by("device", "port", "lane").agg(
        pl.col("receive_power_dbm").first() - pl.col("receive_power_dbm").last()
    )
    row = topology_of(load_scenario("dirty_connector")).link_rows["c000081"]
    assert fall.filter(pl.col("receive_power_dbm") > 1).select("device", "port", "lane").rows() == [
        (row["b"], row["b_port"], 1)
    ]


def test_a_flapping_link_counts_every_loss_at_both_ends():
    row = topology_of(load_scenario("link_flap")).link_rows["c000090"]
    for device, port in ((row["a"], row["a_port"]), (row["b"], row["b_port"])):
        downed = told("link_flap")["fabric_port"].filter(device=device, port=port)["link_downed_total"]
        assert downed.last() - downed.first() == 6


def test_a_leak_takes_level_and_pressure_but_not_temperature():
    loop = told("coolant_leak")["coolant_loop"].filter(cdu="cdu-01")
    before, end = loop.filter(pl.col("time") < at("coolant_leak", 180)).mean(), loop.tail(10).mean()
    assert end["level_percent"][0] < before["level_percent"][0] - 8
    assert end["return_pressure_kpa"][0] < before["return_pressure_kpa"][0] - 20
    assert end["supply_celsius"][0] == pytest.approx(before["supply_celsius"][0], abs=0.5)
    assert loop["leak_state"].unique(maintain_order=True).to_list() == ["ok", "warning", "critical"]


def test_a_bend_shows_in_the_next_shot_only_in_its_own_cable_and_event():
    events = told("fiber_bend")["otdr_event"].filter(number=2).sort("time")
    grown = events.group_by("cable").agg((pl.col("loss_db").last() - pl.col("loss_db").first()).alias("db"))
    assert grown.filter(pl.col("db") > 0.2)["cable"].to_list() == ["c000100"]
    assert grown.filter(cable="c000100")["db"].item() == pytest.approx(1.2, abs=0.1)
    assert truth("fiber_bend")["starts_at"] in events["time"].to_list()


def test_a_stalled_exporter_is_silent_while_its_ranks_beat():
    name = "telemetry_stall"
    assert after(name, "gpu", 180).filter(node="n00001").is_empty()
    assert after(name, "heartbeat", 180).filter(node="n00001").height > 0
    assert truth(name)["roots"] == ["gpu:n00001"]
