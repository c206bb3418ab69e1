"""Every scenario that comes with the project, through the whole engine: what it expects is said, and nothing else."""

from dataclasses import replace

import pytest

from pipelines.cli.replay import fired
from pipelines.cli.session import replayed
from pipelines.settings import Settings
from pipelines.sources.choose import scenario_source
from replay.expectations import unmet
from replay.scenario import load_scenario, scenario_names
from replay.simulate import labels, topology_of
from tests.pipelines.timelines.day import DAY
from tests.pipelines.timelines.fabric import FABRIC, FIBER
from tests.pipelines.timelines.form import Timeline, deviations
from tests.pipelines.timelines.history import HISTORY
from tests.pipelines.timelines.hosts import GPUS, HOSTS, JOBS, TELEMETRY
from tests.pipelines.timelines.plant import COOLANT, POWER

SECONDS_MAXIMUM = 1600  # of `healthy`, an hour of nothing; whole hours of it are scored by the suite healthy-weird
TIMELINES: dict[str, Timeline] = {
    **POWER, **COOLANT, **GPUS, **HOSTS, **JOBS, **TELEMETRY, **FABRIC, **FIBER, **HISTORY, **DAY,
}  # fmt: skip


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_gives_the_incidents_it_expects_and_its_timeline_and_nothing_else(name: str) -> None:
    whole = load_scenario(name)
    scenario = replace(whole, duration_seconds=min(whole.duration_seconds, SECONDS_MAXIMUM))
    tally = replayed(scenario_source(scenario), Settings())
    refused = any(fault.fault == "implausible_readings" for fault in scenario.faults)
    assert (tally.quarantined > 0) == refused
    assert tally.late == 0
    assert unmet(scenario, fired(tally), labels(scenario, topology_of(scenario))) == ()
    assert name in TIMELINES, "write down what must happen in it: tests/pipelines/timelines"
    assert deviations(TIMELINES[name], scenario, fired(tally), tally) == []
