from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from replay.disturbances import NothingWrong
from replay.fault import Throttling
from replay.faults import faults_of
from replay.layout import layout_of
from replay.scenario import ScenarioError, load_scenario, parse_scenario, scenario_names
from replay.simulate import topology_of

LEAST = 'name = "x"\nduration_seconds = 60\n'


def broken(text):
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(LEAST + text, "x.toml")
    return str(caught.value)


def test_a_misspelt_key_names_the_file_the_key_and_the_nearest_one():
    message = broken("sede = 3\n")
    assert "x.toml" in message
    assert "sede" in message
    assert "did you mean seed?" in message


def test_a_misspelt_key_of_a_fault_is_an_error():
    assert "fault.at_second is not known: did you mean at_seconds?" in broken(
        "[[fault]]\nfault = 'node_lost'\nat_second = 1\n"
    )


def test_a_fault_without_its_time_is_an_error():
    assert "fault.at_seconds is missing" in broken("[[fault]]\nfault = 'node_lost'\n")


def test_a_fault_after_the_end_is_an_error():
    assert "outside the scenario" in broken("[[fault]]\nfault = 'node_lost'\nat_seconds = 60\n")


def test_an_unknown_cause_is_an_error():
    assert "did you mean node_lost?" in broken("[[expect]]\ncause = 'node_loss'\nroots = ['n']\n")


def test_an_unknown_table_interval_is_an_error():
    assert "did you mean power?" in broken("[intervals]\npowr = 1\n")


def test_an_interval_of_half_a_second_is_an_error():
    assert "intervals.gpu" in broken("[intervals]\ngpu = 0.5\n")


def test_text_that_is_not_toml_is_one_line():
    assert "\n" not in broken("[[[")


def test_an_unknown_scenario_is_told_the_nearest_name():
    with pytest.raises(ScenarioError, match="did you mean pump_failure"):
        load_scenario("pump_failur")


def test_a_missing_file_is_told():
    with pytest.raises(ScenarioError, match="no such file"):
        load_scenario("nowhere.toml")


def test_a_time_in_another_zone_becomes_utc():
    scenario = parse_scenario(LEAST + "starts_at = 2026-01-01T10:00:00+02:00\n", "x.toml")
    assert scenario.starts_at == datetime(2026, 1, 1, 10, tzinfo=timezone(timedelta(hours=2)))
    assert scenario.starts_at.tzinfo is UTC


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_that_comes_along_has_its_faults_where_the_topology_has_a_place(name):
    scenario = load_scenario(name)
    layout = layout_of(topology_of(scenario), scenario.seed)
    never = Throttling(np.full(layout.gpus, np.nan), np.full(layout.gpus, np.nan))
    faults = [fault for fault in faults_of(scenario, layout) if not isinstance(fault, NothingWrong)]
    labelled = [fault for fault in faults if len(fault.watched(layout)) or fault.truth(layout, never) is not None]
    if scenario.history is None:
        assert len(labelled) == len(scenario.expects)
    else:  # one cause may have shown itself in several ways
        assert len(labelled) >= len(scenario.expects) >= 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("fault = 'node_los'\nentity = 'n00000'", "did you mean node_lost?"),
        ("fault = 'node_lost'\nentity = 'n99999'", "no node 'n99999'"),
        ("fault = 'node_lost'", "needs entity"),
        ("fault = 'gpu_fallen_off_bus'\nentity = 'n00000/8'", "no GPU 'n00000/8'"),
        ("fault = 'link_flap'\nentity = 'nowhere'", "no cable 'nowhere'"),
        ("fault = 'pdu_cascade'\nroots = ['pdu-000', 'pdu-9']", "no PDU 'pdu-9'"),
        ("fault = 'straggler'\nentity = 'n00000/0'\nparameters = { slowdwn = 2 }", "did you mean slowdown?"),
    ],
)
def test_a_fault_that_cannot_strike_is_one_clear_line(fault, said):
    text = LEAST + "[topology]\nparameters = { pods = 1, superblocks_per_pod = 1, nodes_per_superblock = 2 }\n"
    scenario = parse_scenario(f"{text}[[fault]]\nat_seconds = 1\n{fault}\n", "x.toml")
    with pytest.raises(ScenarioError) as caught:
        faults_of(scenario, layout_of(topology_of(scenario), 1))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
