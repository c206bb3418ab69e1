"""A small suite through hotspare's detectors and the yardsticks, on the same rows."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from detectors.baselines.catalog import BASELINES
from detectors.gpu.absent import GpuAbsent
from detectors.gpu.xid import XidFault
from pipelines.cli.output import Refused
from pipelines.cli.score import score
from pipelines.scorecard import as_markdown
from pipelines.scoring import NEWS_SECONDS, Entrant, SuiteResult, _levels, scored_suite
from replay.suite import parse_suite

SMALL = """
name = "small"
description = "GPUs fall off the bus, others throttle."
tuning_seeds = [1]
reported_seeds = [2]
tables = ["gpu", "gpu_event"]

[full]
runs = 1
duration_seconds = 900
faults_per_run = 2
first_seconds = 360
every_seconds = 240

[topology]
preset = "ndr-fat-tree"
parameters = { pods = 1, superblocks_per_pod = 1, nodes_per_superblock = 8, nodes_per_cdu = 4, nodes_per_pdu = 4 }

[intervals]
gpu = 5

[[fault]]
fault = "gpu_fallen_off_bus"
at = "gpu"

[[fault]]
fault = "thermal_throttle"
at = "gpu"
lasts_seconds = 180
parameters = { flow_share = 0.15 }
"""


@pytest.fixture(scope="module")
def result() -> SuiteResult:
    entrants = [Entrant(name="hotspare", detectors=(XidFault(), GpuAbsent()))]
    entrants += [Entrant(name=name, detectors=(detector,)) for name, detector in BASELINES]
    return scored_suite(parse_suite(SMALL, "small"), "reported", entrants, quick=False)


def test_everybody_is_judged_by_the_same_truth(result: SuiteResult) -> None:
    assert [each.name for each in result.results] == ["hotspare", *(name for name, _ in BASELINES)]
    assert {each.card.total.faults for each in result.results} == {2}
    assert {each.card.gpu_hours for each in result.results} == {64 * 900 / 3600}


def test_what_was_run_is_told(result: SuiteResult) -> None:
    assert (result.seeds, result.gpus, result.stream_seconds, result.split) == ((2,), 64, 900.0, "reported")


def test_detectors_of_lost_gpus_find_that_fault_and_miss_the_other(result: SuiteResult) -> None:
    causes = {each.cause: each for each in result.results[0].card.causes}
    assert (causes["gpu_fallen_off_bus"].recall, causes["gpu_fallen_off_bus"].top_1) == (1, 1)
    assert causes["gpu_thermal_throttle"].recall == 0
    assert [line.split(": ")[1] for line in result.misses] == ["missed"]


def test_rules_of_the_field_find_what_a_driver_or_a_bit_says(result: SuiteResult) -> None:
    rules = next(each for each in result.results if each.name == "static rules")
    assert rules.card.total.recall == 1
    assert rules.card.total.cause_accuracy == 1


def test_peers_find_the_hot_gpu(result: SuiteResult) -> None:
    robust = next(each for each in result.results if each.name == "robust z")
    assert {each.cause: each.detected for each in robust.card.causes}["gpu_thermal_throttle"] == 1


def test_who_says_nothing_finds_nothing_and_is_never_wrong(result: SuiteResult) -> None:
    null = result.results[-1]
    assert (null.card.total.recall, null.card.total.precision, null.card.false_pages) == (0, None, 0)
    assert all(each.vus_pr is not None and 0 <= each.vus_pr <= 1 for each in result.results)
    assert result.results[0].vus_pr > null.vus_pr


def test_the_page_tells_the_date_the_seeds_and_what_went_wrong(result: SuiteResult) -> None:
    page = as_markdown([result], datetime(2026, 3, 1, 12, 30, tzinfo=UTC))
    assert "2026-03-01 12:30 UTC" in page
    assert "Reported seeds: 2." in page
    assert "1 runs of 64 GPUs, 900 s in all (16 GPU-hours)" in page
    assert "missed: gpu_thermal_throttle" in page
    assert page.count("| hotspare |") == 1


def test_a_level_is_news_for_a_minute_and_no_longer() -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    rows = pl.DataFrame(
        {
            "time": [began.replace(second=10), began.replace(second=30)], "detector": ["d", "d"], "cause": ["c", "c"],
            "entity": ["a", "b"], "code": [None, "x"], "active": [True, True], "score": [6.0, 2.0],
            "threshold": [3.0, 4.0],
        },
        schema_overrides={"time": pl.Datetime("us", "UTC"), "code": pl.String},
    )  # fmt: skip
    levels = _levels([rows], began, 300)
    assert np.array_equal(levels[10 : 10 + NEWS_SECONDS], np.full(NEWS_SECONDS, 2.0))
    assert levels[10 + NEWS_SECONDS] == 1.0
    assert levels[30 + NEWS_SECONDS :].sum() == levels[:10].sum() == 0


@pytest.mark.parametrize(
    ("given", "options", "line"),
    [
        (["loud", "pump_failure"], {}, "pump_failure: is no suite"),
        (["pump_failure"], {"quick": True}, "--quick, --tuning and --to are for suites"),
        (["loud"], {"to": Path("/nowhere/card.md")}, "there is no such folder"),
    ],
)
def test_wrong_use_is_one_line(given, options, line) -> None:
    usual = {"quick": False, "tuning": False, "baselines": False, "to": None}
    with pytest.raises(Refused, match=line):
        score(given, **{**usual, **options})
