"""A suite: many scenarios drawn from one file, with the seeds it was tuned on kept apart from those it reports.

A run of a suite is a scenario like any other: its faults, their places, times and parameters are drawn from the file's
ranges by the run's seed. Ranges are kept apart as well (`tuning` and `reported` of each fault), so that what is
reported has been seen by nobody who chose a threshold. The same file and seed give the same scenario for ever.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import polars as pl

from replay.randomness import generator
from replay.scenario import FaultPlan, OtdrPlan, Scenario, ScenarioError, TopologyChoice, parse_scenario
from replay.suite_places import Places
from schemas.columns import UTC_MICROSECONDS
from schemas.tables import TABLE_BY_NAME, TABLES
from schemas.topology_presets import build

Split = Literal["tuning", "reported"]
STARTS_AT = datetime(2026, 6, 1, 6, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One [[fault]] or [[background]] of a suite.

    at: kind of place it strikes (suite_places). weight: how often it is drawn, against the others. lasts_seconds: of
    the scenario's time. deadline_seconds: in which it must be said, at least 60. hard_failure: the parameter that says
    how long after its beginning the damage is done. tuning, reported: parameter -> [low, high] or a list of words.
    beside: disturbances around it, each with before_seconds. every_seconds: a background comes back that often.
    once: at most once a run, where its root is always the same: what comes back within minutes is one incident.
    """

    fault: str
    at: str
    weight: float = 1.0
    lasts_seconds: int | None = 120
    deadline_seconds: float = 60.0
    hard_failure: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tuning: Mapping[str, Any] = field(default_factory=dict)
    reported: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[Mapping[str, Any], ...] = ()
    before_seconds: int = 0
    every_seconds: int | None = None
    once: bool = False


@dataclass(frozen=True, kw_only=True)
class Size:
    """runs: how many of the seeds. faults_per_run: one after the other, every_seconds apart from first_seconds on."""

    runs: int
    duration_seconds: int
    faults_per_run: int = 0
    first_seconds: int = 240
    every_seconds: int = 240


@dataclass(frozen=True, kw_only=True)
class Suite:
    """full, quick: sizes. topologies: of each size. faults are drawn, backgrounds come in every run."""

    name: str
    description: str
    tuning_seeds: tuple[int, ...]
    reported_seeds: tuple[int, ...]
    full: Size
    quick: Size
    topology: TopologyChoice
    quick_topology: TopologyChoice
    intervals: Mapping[str, int]
    tables: tuple[str, ...]
    faults: tuple[Draw, ...]
    backgrounds: tuple[Draw, ...]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One scenario of a suite. hard_failures: (fault's place in scenario.faults) -> seconds of the scenario.
    deadlines: the same -> seconds after the onset.
    """

    scenario: Scenario
    hard_failures: Mapping[int, float]
    deadlines: Mapping[int, float]


def suite_names() -> tuple[str, ...]:
    folder = files("replay") / "suites"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_suite(name: str) -> Suite:
    """A suite by name, or by the path of its .toml file. Raises ScenarioError."""
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise ScenarioError(f"suite {name}: there is no such file")
        return parse_suite(path.read_text("utf-8"), name)
    if name not in suite_names():
        raise ScenarioError(f"suite {name!r} is not known: choose from {', '.join(suite_names())}")
    return parse_suite((files("replay") / "suites" / f"{name}.toml").read_text("utf-8"), name)


def parse_suite(text: str, source: str) -> Suite:
    """A suite from TOML text. Raises ScenarioError, one line, for what is misspelt or seeds that are not kept apart."""
    try:
        tree = tomllib.loads(text)
        faults = tuple(_draw(entry, source) for entry in tree.pop("fault", ()))
        backgrounds = tuple(_draw(entry, source) for entry in tree.pop("background", ()))
        full = Size(**tree.pop("full"))
        topology = TopologyChoice(**tree.pop("topology"))
        intervals = {table.name: max(1, round(table.interval_seconds)) for table in TABLES if table.interval_seconds}
        suite = Suite(
            name=tree.pop("name"), description=tree.pop("description"), full=full,
            tuning_seeds=tuple(tree.pop("tuning_seeds")), reported_seeds=tuple(tree.pop("reported_seeds")),
            quick=replace(full, **tree.pop("quick", {})), topology=topology,
            quick_topology=TopologyChoice(**tree.pop("quick_topology")) if "quick_topology" in tree else topology,
            intervals=MappingProxyType({**intervals, **tree.pop("intervals", {})}),
            tables=tuple(tree.pop("tables", TABLE_BY_NAME)), faults=faults, backgrounds=backgrounds,
        )  # fmt: skip
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"suite {source}: not TOML: {error}") from None
    except KeyError as error:
        raise ScenarioError(f"suite {source}: {error.args[0]} is missing") from None
    except TypeError as error:
        raise ScenarioError(f"suite {source}: {error}") from None
    if tree:
        raise ScenarioError(f"suite {source}: {next(iter(tree))} is not known")
    shared = set(suite.tuning_seeds) & set(suite.reported_seeds)
    if shared:
        raise ScenarioError(f"suite {source}: seed {min(shared)} is both for tuning and reported")
    if suite.full.faults_per_run and not faults:
        raise ScenarioError(f"suite {source}: faults_per_run is {suite.full.faults_per_run} and there is no [[fault]]")
    return suite


def _draw(entry: Mapping[str, Any], source: str) -> Draw:
    known = {each.name for each in fields(Draw)}
    for key in entry:
        if key not in known:
            raise ScenarioError(f"suite {source}: {entry.get('fault', 'fault')}.{key} is not known")
    values: dict[str, Any] = {**entry, "beside": tuple(entry.get("beside", ()))}
    return Draw(**values)


def runs(suite: Suite, split: Split, *, quick: bool) -> list[Run]:
    """The scenarios of one side of the split, as many as the size says."""
    size = suite.quick if quick else suite.full
    seeds = suite.tuning_seeds if split == "tuning" else suite.reported_seeds
    return [_run(suite, split, seed, size, quick=quick) for seed in seeds[: size.runs]]


def _run(suite: Suite, split: Split, seed: int, size: Size, *, quick: bool) -> Run:
    drawn = generator(seed, f"suite {suite.name}")
    chosen = suite.quick_topology if quick else suite.topology
    places = Places(build(chosen.preset, **chosen.parameters), drawn)
    plans: list[FaultPlan] = []
    hard: dict[int, float] = {}
    deadlines: dict[int, float] = {}
    for draw in suite.backgrounds:
        plans += _again_and_again(draw, split, size, places, drawn)
    for number, draw in enumerate(_chosen(suite.faults, size.faults_per_run, drawn)):
        at = size.first_seconds + number * size.every_seconds + int(drawn.integers(0, 30))
        plan = _plan(draw, at, split, places, drawn)
        plans += [_beside(entry, at, plan, places) for entry in draw.beside]
        deadlines[len(plans)] = draw.deadline_seconds
        if draw.hard_failure is not None:
            hard[len(plans)] = float(at + plan.parameters[draw.hard_failure])
        plans.append(plan)
    plain = parse_scenario(f'name = "{suite.name}-{seed}"\nduration_seconds = {size.duration_seconds}', suite.name)
    scenario = replace(
        plain, description=suite.description, seed=seed, starts_at=STARTS_AT, topology=chosen,
        otdr=OtdrPlan(cables=0), intervals=suite.intervals, tables=suite.tables, faults=tuple(plans),
    )  # fmt: skip
    return Run(scenario=scenario, hard_failures=hard, deadlines=deadlines)


def truth_of(run: Run, labels: pl.DataFrame) -> pl.DataFrame:
    """The labels of the run's scenario with each fault's deadline_seconds and hard_failure_at.

    Faults of a suite come one after the other, so a label is of the last one that had begun.
    """
    begun = run.scenario.starts_at
    rows = [
        {
            "starts_at": begun + timedelta(seconds=run.scenario.faults[index].at_seconds),
            "deadline_seconds": deadline,
            "hard_failure_at": begun + timedelta(seconds=run.hard_failures[index])
            if index in run.hard_failures
            else None,
        }
        for index, deadline in run.deadlines.items()
    ]
    columns = pl.Schema(
        {"starts_at": UTC_MICROSECONDS, "deadline_seconds": pl.Float64(), "hard_failure_at": UTC_MICROSECONDS}
    )
    plans = pl.DataFrame(rows, schema=columns).sort("starts_at")
    return labels.sort("starts_at").join_asof(plans, on="starts_at", strategy="backward")


def _chosen(faults: Sequence[Draw], count: int, drawn: np.random.Generator) -> list[Draw]:
    """Without repetition while it lasts when all weigh the same, so that every cause is seen; else by weight."""
    weights = np.array([draw.weight for draw in faults])
    if not count:
        return []
    if (weights == weights[0]).all():
        rounds = -(-count // len(faults))
        order = np.concatenate([drawn.permutation(len(faults)) for _ in range(rounds)])[:count]
    else:
        order = drawn.choice(len(faults), count, p=weights / weights.sum())
        for place, index in enumerate(order):
            if faults[index].once and index in order[:place]:
                others = weights * [not draw.once for draw in faults]
                order[place] = drawn.choice(len(faults), p=others / others.sum())
    return [faults[index] for index in order]


def _plan(draw: Draw, at: int, split: Split, places: Places, drawn: np.random.Generator) -> FaultPlan:
    ranges = draw.tuning if split == "tuning" else draw.reported
    values = {name: _value(drawn, choice) for name, choice in ranges.items()}
    entity, roots = places.draw(draw.at)
    return FaultPlan(
        fault=draw.fault, at_seconds=at, entity=entity, roots=roots, lasts_seconds=draw.lasts_seconds,
        parameters={**draw.parameters, **values},
    )  # fmt: skip


def _value(drawn: np.random.Generator, choice: Sequence[Any]) -> Any:
    """[low, high] of whole numbers or of fractions, or one of several words."""
    if len(choice) == 2 and all(isinstance(each, int) for each in choice):
        return int(drawn.integers(choice[0], choice[1] + 1))
    if len(choice) == 2 and not isinstance(choice[0], str):
        return round(float(drawn.uniform(*choice)), 4)
    return choice[int(drawn.integers(len(choice)))]


def _beside(entry: Mapping[str, Any], at: int, plan: FaultPlan, places: Places) -> FaultPlan:
    """A disturbance around a fault; at = "same" puts it on the fault's own node."""
    where = entry["at"]
    entity, roots = (
        ((plan.entity or "").partition("/")[0], ()) if where == "same_node" else places.draw(where)
    )  # fmt: skip
    return FaultPlan(
        fault=entry["fault"], at_seconds=max(0, at - entry["before_seconds"]), entity=entity, roots=roots,
        lasts_seconds=entry.get("lasts_seconds"), parameters=entry.get("parameters", {}),
    )  # fmt: skip


def _again_and_again(
    draw: Draw, split: Split, size: Size, places: Places, drawn: np.random.Generator
) -> list[FaultPlan]:
    """Once at before_seconds, or every_seconds from there on, each time at another place."""
    begin = draw.before_seconds
    if draw.every_seconds is None:
        return [_plan(draw, begin, split, places, drawn)] if begin < size.duration_seconds else []
    return [
        _plan(draw, at, split, places, drawn) for at in range(begin, size.duration_seconds - 60, draw.every_seconds)
    ]
