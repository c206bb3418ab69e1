"""A link comes back after its work is verified: by the errors before correction and by the light, as detectors read
them from telemetry of the whole way.
"""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from pipelines.cli.session import replayed
from pipelines.recovery.settings import RecoverySettings
from pipelines.settings import Settings
from pipelines.sources.choose import scenario_source
from replay.scenario import FaultPlan, load_scenario
from schemas.incident import Incident

LINK, CLEAN_SECONDS = "c000090", 600
STEP_SECONDS = 60  # windows of a scenario: recovery is asked at their ends
FLAP = FaultPlan(
    fault="link_flap", at_seconds=120, entity=LINK,
    parameters={"times": 2, "down_seconds": 5, "every_seconds": 20, "error_decades": 0.0},
)  # fmt: skip
DIM = {"end_of_link": "b", "lane": 1, "loss_db": 4.5}


def returned(*faults: FaultPlan, seconds: int) -> tuple[datetime | None, tuple[Incident, ...]]:
    """When the link was returned in a rehearsal, and all that was said of it."""
    scenario = replace(
        load_scenario("link_flap"), faults=faults, duration_seconds=seconds, expects=(), tables=("fabric_port", "optic")
    )
    tally = replayed(
        scenario_source(scenario), Settings(recovery=RecoverySettings(link_clean_seconds=float(CLEAN_SECONDS)))
    )
    found = [one for one in tally.actions if one.request.kind == "return_to_service"]
    assert all(one.request.parameters["cable"] == LINK and one.outcome == "dry-run" for one in found)
    return (found[0].at if found else None), tuple(tally.incidents.values())


def test_a_link_that_stays_clean_returns_after_the_window() -> None:
    at, said = returned(FLAP, seconds=1200)
    (flap,) = said
    assert at is not None
    assert flap.ends_at is not None
    assert timedelta(0) <= at - (flap.ends_at + timedelta(seconds=CLEAN_SECONDS)) <= timedelta(seconds=STEP_SECONDS)


@pytest.mark.parametrize(
    ("after_work", "cause"),
    [
        (FaultPlan(fault="dirty_connector", at_seconds=600, lasts_seconds=300, entity=LINK, parameters=DIM),
         "connector_contaminated"),
        (FaultPlan(fault="link_errors", at_seconds=600, lasts_seconds=120, entity=LINK,
                   parameters={"end_of_link": "b", "error_decades": 3.5}),
         "link_degraded"),
    ],
    ids=["receive power", "errors before correction"],
)  # fmt: skip
def test_a_link_whose_light_or_errors_are_bad_after_the_work_waits_until_they_have_been_good_for_the_window(
    after_work: FaultPlan, cause: str
) -> None:
    at, said = returned(FLAP, after_work, seconds=2400)
    ends = [one.ends_at for one in said if one.cause == cause]
    assert at is not None
    assert ends
    assert all(end is not None and at >= end + timedelta(seconds=CLEAN_SECONDS) for end in ends)
