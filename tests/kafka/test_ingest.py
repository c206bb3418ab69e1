"""A scenario sent to a real broker and read from it again gives what the scenario itself gives."""

from pathlib import Path

import pytest

from detectors.catalog import CATALOG
from tests.kafka.broker import Broker
from tests.kafka.streaming import contents, incidents, kafka_source, place, run, scenario, scenario_run, send_scenario
from replay.simulate import topology_of

pytestmark = pytest.mark.kafka


def test_kafka_gives_what_the_scenario_gives(broker: Broker, tmp_path: Path) -> None:
    chosen = scenario()
    there = place(broker, tmp_path / "kafka")
    send_scenario(chosen, there.kafka)
    run(kafka_source(there.kafka, topology_of(chosen)), there.folder, CATALOG)
    scenario_run(chosen, tmp_path / "scenario", CATALOG)
    ours, expected = contents(there.folder), contents(tmp_path / "scenario")
    for name in expected:
        assert ours[name] == expected[name], name
    assert expected["findings"]
    assert incidents(there.folder) == incidents(tmp_path / "scenario")
