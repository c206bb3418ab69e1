import json

import pytest

from detectors.fabric.slow_hop import SlowHop
from schemas.fabric import FabricPort
from schemas.job import Heartbeat
from tests.detectors.fabric.fabric_timelines import B, at, judge_tables, port, statements

SLOW_FROM = 300


def ports(gigabits=400.0, lanes=4, seconds=600, back=10**6, every=30):
    """A sample in `every` seconds; from SLOW_FROM on at this rate and width."""
    return [
        {
            **port(second, B), "rate_gigabits_per_second": gigabits if SLOW_FROM <= second < back else 400.0,
            "width_lanes": lanes if SLOW_FROM <= second < back else 4,
        }
        for second in range(0, seconds, every)
    ]  # fmt: skip


def beats(
    communication,
    *,
    slow_from=SLOW_FROM,
    computing=0.0,
    seconds=600,
    job="train",
    usual=1.0,
    in_a_row=10**6,
    starts=0.0,
):
    """Two ranks that beat each second; steps of 4 s of computing (one rank more by `computing`) and the collectives,
    slow for so many steps `in_a_row` and then as usual for one.
    """
    rows, step, began = [], 0, starts
    while began < seconds:
        late = began >= slow_from
        own = [4.0, 4.0 + (computing if late else 0.0)]
        slow = late and step % (in_a_row + 1)
        lasts = max(own) + (communication if slow else usual)
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


def test_collectives_longer_by_a_quarter_or_by_a_fiftieth_of_the_step_are_nothing():
    assert judged(ports(200.0), beats(2.5, usual=2.0))["code"].to_list() == ["slow_rate"]
    assert judged(ports(200.0), beats(0.3, usual=0.2))["code"].to_list() == ["slow_rate"]


def test_two_slow_steps_between_usual_ones_are_stalls():
    assert judged(ports(200.0), beats(2.0, in_a_row=2))["code"].to_list() == ["slow_rate"]


def test_a_job_slow_half_a_minute_before_the_ports_sample_is_slow_by_it():
    assert judged(ports(200.0), beats(2.0, slow_from=265))["code"].to_list() == ["slow_hop"]


def test_it_ends_after_half_a_minute_at_its_rate():
    assert statements(judged(ports(200.0, back=450, every=10))) == [(310, "c1", True), (480, "c1", False)]


@pytest.mark.parametrize(("starts", "codes"), [(270.0, ["slow_rate", "slow_hop"]), (290.0, ["slow_rate"])])
def test_what_a_job_usually_does_is_known_after_five_steps(starts, codes):
    # Steps of 5 s: six of them, or two, before the link is slow.
    assert judged(ports(200.0), beats(2.0, starts=starts))["code"].to_list() == codes
