"""Every scenario that comes with the project, through the whole engine: what it expects is said, and nothing else."""

import pytest

from pipelines.cli.replay import fired
from pipelines.cli.session import replayed
from pipelines.settings import Settings
from pipelines.sources.choose import scenario_source
from replay.expectations import unmet
from replay.scenario import load_scenario, scenario_names
from replay.simulate import labels, topology_of

DEMO = "incident_day"  # `make demo` and test_demo replay it whole


@pytest.mark.parametrize("name", [name for name in scenario_names() if name != DEMO])
def test_a_scenario_gives_the_incidents_it_expects_and_no_others(name: str) -> None:
    scenario = load_scenario(name)
    tally = replayed(scenario_source(scenario), Settings())
    refused = any(fault.fault == "implausible_readings" for fault in scenario.faults)
    assert (tally.quarantined > 0) == refused
    assert tally.late == 0
    assert unmet(scenario, fired(tally), labels(scenario, topology_of(scenario))) == ()
