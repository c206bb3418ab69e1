"""Suites: the split is kept, the draw is for ever, and what is drawn can be run."""

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest

from replay.faults import faults_of
from replay.layout import layout_of
from replay.scenario import ScenarioError
from replay.simulate import LABEL_COLUMNS, topology_of
from replay.suite import load_suite, parse_suite, runs, suite_names, truth_of

SMALL = """
name = "small"
description = "Two faults."
tuning_seeds = [1]
reported_seeds = [2]

[full]
runs = 1
duration_seconds = 900
faults_per_run = 2

[topology]
preset = "ndr-fat-tree"
parameters = { pods = 1, superblocks_per_pod = 1, nodes_per_superblock = 8, nodes_per_cdu = 4, nodes_per_pdu = 4 }

[[fault]]
fault = "memory_decay"
at = "gpu"
hard_failure = "remap_failure_seconds"
deadline_seconds = 90
tuning = { remap_failure_seconds = [100, 110] }
reported = { remap_failure_seconds = [120, 140] }
"""


@pytest.mark.parametrize("name", suite_names())
@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_suite_keeps_its_seeds_apart_and_strikes_places_that_are_there(name: str, size: str) -> None:
    suite = load_suite(name)
    assert not set(suite.tuning_seeds) & set(suite.reported_seeds)
    chosen = suite.quick if size == "quick" else suite.full
    assert chosen.runs <= len(suite.reported_seeds)
    run = runs(replace(suite, full=replace(suite.full, runs=1), quick=replace(suite.quick, runs=1)), "reported",
               quick=size == "quick")[0]  # fmt: skip
    faults = faults_of(run.scenario, layout_of(topology_of(run.scenario), run.scenario.seed))
    assert len(faults) == len(run.scenario.faults) >= chosen.faults_per_run


def test_the_five_suites_are_there() -> None:
    assert set(suite_names()) == {"loud", "quiet", "masked", "healthy-weird", "mixed"}


def test_the_same_seed_gives_the_same_scenario_and_another_one_another() -> None:
    suite = parse_suite(SMALL, "small")
    assert runs(suite, "reported", quick=False) == runs(suite, "reported", quick=False)
    assert (
        runs(suite, "reported", quick=False)[0].scenario.faults != runs(suite, "tuning", quick=False)[0].scenario.faults
    )


@pytest.mark.parametrize(("split", "low", "high"), [("tuning", 100, 110), ("reported", 120, 140)])
def test_parameters_are_drawn_from_the_range_of_their_side(split, low, high) -> None:
    (run,) = runs(parse_suite(SMALL, "small"), split, quick=False)
    assert all(low <= fault.parameters["remap_failure_seconds"] <= high for fault in run.scenario.faults)


def test_a_label_gets_the_deadline_and_the_hard_failure_of_its_fault() -> None:
    (run,) = runs(parse_suite(SMALL, "small"), "reported", quick=False)
    began = run.scenario.starts_at
    faults = run.scenario.faults
    labels = pl.DataFrame(
        [
            ("gpu_memory", "gpu", [fault.entity], [], began + timedelta(seconds=fault.at_seconds + 60), None)
            for fault in faults
        ],
        schema=LABEL_COLUMNS, orient="row",
    )  # fmt: skip
    truth = truth_of(run, labels)
    assert truth["deadline_seconds"].to_list() == [90, 90]
    for row, fault in zip(truth.iter_rows(named=True), faults, strict=True):
        after = fault.at_seconds + fault.parameters["remap_failure_seconds"]
        assert row["hard_failure_at"] == began + timedelta(seconds=after)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (("reported_seeds = [2]", "reported_seeds = [1, 2]"), "seed 1 is both for tuning and reported"),
        (("hard_failure", "hard_failur"), "memory_decay.hard_failur is not known"),
        (("runs = 1", "runns = 1"), "runns"),
        (("description", "descripton"), "description is missing"),
        (("[full]", "[full"), "not TOML"),
    ],
)
def test_a_wrong_suite_is_refused_in_one_line(wrong: tuple[str, str], line: str) -> None:
    with pytest.raises(ScenarioError, match=line.replace("[", r"\[")) as refused:
        parse_suite(SMALL.replace(*wrong), "small")
    assert "\n" not in str(refused.value)


def test_a_place_that_is_not_known_is_refused() -> None:
    with pytest.raises(ScenarioError, match="place 'moon' is not known"):
        runs(parse_suite(SMALL.replace('at = "gpu"', 'at = "moon"'), "small"), "tuning", quick=False)


def test_a_suite_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ScenarioError, match=r"'lout' is not known: choose from .*loud"):
        load_suite("lout")


def test_what_has_one_root_strikes_once_a_run() -> None:
    text = SMALL.replace("faults_per_run = 2", "faults_per_run = 8").replace(
        'at = "gpu"', 'at = "gpu"\nweight = 9\nonce = true'
    )
    run = runs(parse_suite(text + '\n[[fault]]\nfault = "node_lost"\nat = "node"\n', "small"), "reported", quick=False)[
        0
    ]
    assert [plan.fault for plan in run.scenario.faults].count("memory_decay") == 1
