"""A job that crashes: what the driver, the ranks and the scheduler say of it."""

from datetime import timedelta
from functools import cache

import numpy as np
import polars as pl

from replay.job import TrainingJob
from replay.scenario import JobPlan, load_scenario
from replay.simulate import labels, simulate, topology_of

STORM = "history/xid_45_storm"
ALL = np.ones(16, dtype=np.bool_)


@cache
def told(table):
    scenario = load_scenario(STORM)
    return pl.concat([window.tables[table] for window in simulate(scenario, topology_of(scenario))])


def at(second):
    return load_scenario(STORM).starts_at + timedelta(seconds=second)


def test_every_gpu_of_the_job_logs_xid_45_for_each_channel_and_no_spare_does():
    removed = told("gpu_event").filter(code=45)
    assert removed.height == 672
    each = removed.group_by("node", "gpu").len()
    assert each.height == 48
    assert set(each["len"]) == {14}  # 7 channels in each of two crashes
    assert removed["message"].str.contains(r": 45, pid=\d+, name=python3, Ch 0000000[1-7]$").all()


def test_the_line_that_matters_comes_before_the_storm():
    second = told("gpu_event").filter(pl.col("time") >= at(300)).sort("time")
    assert second.row(0, named=True)["code"] == 48
    assert set(second["code"]) == {45, 48}


def test_no_rank_beats_and_no_gpu_works_until_the_job_is_started_again():
    beats = told("heartbeat")
    assert beats.filter(pl.col("time").is_between(at(150), at(225), closed="left")).is_empty()
    assert beats.filter(pl.col("time").is_between(at(225), at(226), closed="left")).height == 48
    idle = told("gpu").filter(pl.col("time").is_between(at(160), at(220)))
    assert set(idle["utilization_percent"]) == {0.0}
    assert idle["memory_used_bytes"].max() < 1e9
    assert idle.height == 64 * 12  # every 5 s, all of them


def test_the_scheduler_tells_every_end_and_every_start():
    events = told("job_event").select("kind", "time").rows()
    assert events == [("start", at(0)), ("stop", at(150)), ("start", at(225)), ("stop", at(361)), ("start", at(436))]


def test_a_crash_of_the_program_is_no_truth_about_the_cluster():
    scenario = load_scenario(STORM)
    assert labels(scenario, topology_of(scenario))["cause"].to_list() == ["gpu_memory"]


def test_a_job_begins_anew_at_its_newest_checkpoint():
    job = TrainingJob.running(JobPlan(checkpoint_interval_seconds=100.0), 1, ALL)
    speed = np.ones(16)
    for second in range(150):
        job.advance(float(second), ALL, speed)
    saved = job.checkpoint_step
    assert job.step > saved
    for second in range(150, 200):
        job.advance(float(second), ~ALL, speed)
    job.advance(200.0, ALL, speed)
    assert job.step == saved
    assert job.activity(200.0) == 1.0
    completed = [second for second in range(201, 420) if job.advance(float(second), ALL, speed)]
    assert len(completed) == 2  # an interval after the start, and one more
