import json

import pytest

from detectors.fabric.slow_hop import SlowHop
from schemas.fabric import FabricPort
from schemas.job import Heartbeat
from tests.detectors.fabric.fabric_timelines import B, at, judge_tables, port, statements

SLOW_FROM = 300


def ports(gigabits=400.0, lanes=4, seconds=600, back=10**6):
    """A sample every 30 s; from SLOW_FROM on at this rate and width."""
    return [
        {
            **port(second, B), "rate_gigabits_per_second": gigabits if SLOW_FROM <= second < back else 400.0,
            "width_lanes": lanes if SLOW_FROM <= second < back else 4,
        }
        for second in range(0, seconds, 30)
    ]  # fmt: skip


def beats(communication, *, slow_from=SLOW_FROM, computing=0.0, seconds=600, job="train"):
    """Two ranks that beat each second; steps of 4 s of computing (one rank more by `computing`) and the collectives."""
    rows, step, began = [], 0, 0.0
    while began < seconds:
        late = began >= slow_from
        own = [4.0, 4.0 + (computing if late else 0.0)]
        lasts = max(own) + (communication if late else 1.0)
        rows += [
            {
                "time": at(began + lasts + second), "node": "n0", "gpu": rank, "job": job, "rank": rank,
                "step": step + 1, "step_seconds": lasts, "compute_seconds": own[rank],
            }
            for second in range(5) for rank in (0, 1)
        ]  # fmt: skip
        step, began = step + 1, began + lasts
    return rows


def judged(links, told=()):
    return judge_tables(SlowHop(), {FabricPort: links, Heartbeat: list(told)})


@pytest.mark.parametrize(("gigabits", "lanes"), [(200.0, 4), (400.0, 2)])
def test_a_link_at_half_its_rate_or_width_is_a_ticket(gigabits, lanes):
    findings = judged(ports(gigabits, lanes))
    assert statements(findings) == [(330, "c1", True)]
    assert findings.select("cause", "code", "severity").row(0) == ("link_degraded", "slow_rate", "ticket")


def test_and_a_page_when_a_jobs_collectives_wait_for_it():
    findings = judged(ports(200.0), beats(2.0))
    assert findings["code"].to_list() == ["slow_rate", "slow_hop"]
    assert findings["severity"].to_list() == ["ticket", "page"]
    seen = json.loads(findings["evidence"][1])
    assert (seen["job"], seen["communication_seconds"], seen["usual_communication_seconds"]) == (
        "train", pytest.approx(2.0), pytest.approx(1.0),
    )  # fmt: skip
    # The link was slow from 300 s on; the job proves it with its third slow step.
    assert findings["first_bad_at"].to_list() == [at(300), at(300)]
    assert statements(findings)[1][0] <= 330 + 30


def test_a_rank_that_computes_longer_is_not_the_links_fault():
    assert judged(ports(200.0), beats(1.0, computing=2.0))["code"].to_list() == ["slow_rate"]


def test_a_job_slow_long_before_the_link_was_is_slow_for_another_reason():
    assert judged(ports(200.0), beats(2.0, slow_from=100))["code"].to_list() == ["slow_rate"]


def test_a_slow_job_on_links_as_fast_as_ever_accuses_none():
    assert judged(ports(), beats(2.0)).is_empty()


def test_a_tenth_more_of_communication_is_nothing():
    assert judged(ports(200.0), beats(1.1))["code"].to_list() == ["slow_rate"]


def test_a_dead_link_shows_no_rate_and_is_not_slow():
    rows = ports()
    for row in rows[10:]:
        row |= {"state": "down", "rate_gigabits_per_second": None, "width_lanes": None}
    assert judged(rows).is_empty()


def test_it_ends_when_the_link_trains_to_its_rate_again():
    assert statements(judged(ports(200.0, back=450))) == [(330, "c1", True), (480, "c1", False)]
