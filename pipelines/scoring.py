"""Suites through the engine and its yardsticks: one pass over the same rows, everybody judged by the same truth."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import polars as pl

from detectors.contract import Detector
from pipelines.engine import Batch, Engine, EngineState
from pipelines.sources.choose import scenario_source
from pipelines.sources.contract import Source
from replay.scenario import Scenario
from replay.score import Case, Scorecard, score_cases
from replay.simulate import labels
from replay.suite import Run, Split, Suite, runs, truth_of
from replay.volume_under_surface import vus_pr
from schemas.incident import Incident
from schemas.tables import TABLE_BY_NAME

BUFFER_SECONDS = 60
NEWS_SECONDS = 60  # a finding is news for so long, as levels of what nobody has repaired hold on
HOTSPARE = "hotspare"


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """Who is judged: a name and its detectors."""

    name: str
    detectors: tuple[Detector, ...]


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What one entrant said of one run. levels: (seconds,) the highest score over its threshold of all findings that
    were news, 0 without any. cpu_seconds: of its engine.
    """

    incidents: Mapping[str, Incident]
    levels: np.ndarray[tuple[int], np.dtype[np.float64]]
    cpu_seconds: float


@dataclass(frozen=True, kw_only=True)
class Result:
    """An entrant over all runs of a suite. vus_pr: null where nothing was wrong."""

    name: str
    card: Scorecard
    vus_pr: float | None
    cpu_milliseconds_per_second: float


@dataclass(frozen=True, kw_only=True)
class SuiteResult:
    """suite, split and what was really run."""

    suite: Suite
    split: Split
    seeds: tuple[int, ...]
    gpus: int
    stream_seconds: float
    results: tuple[Result, ...]
    misses: tuple[str, ...]


@dataclass
class _Listener:
    """One entrant's engine while a run streams past. Memory does not grow with the run but for what was said."""

    engine: Engine
    state: EngineState | None = None
    incidents: dict[str, Incident] = field(default_factory=dict)
    findings: list[pl.DataFrame] = field(default_factory=list)
    cpu_seconds: float = 0.0


def scored_suite(
    suite: Suite,
    split: Split,
    entrants: Sequence[Entrant],
    *,
    quick: bool,
    told: Callable[[str], None] = lambda _: None,
) -> SuiteResult:
    """Run the suite's scenarios one after the other; `told` hears of each when it is done."""
    chosen = runs(suite, split, quick=quick)
    cases: dict[str, list[Case]] = {entrant.name: [] for entrant in entrants}
    surfaces: dict[str, list[float]] = {entrant.name: [] for entrant in entrants}
    cpu = dict.fromkeys(cases, 0.0)
    misses: list[str] = []
    seconds, gpus = 0.0, 0
    for run in chosen:
        source = scenario_source(run.scenario)
        truth = truth_of(run, labels(run.scenario, source.topology))
        heard = listened(source, run.scenario, entrants)
        gpus = source.topology.nodes.height * source.topology.gpus_per_node
        length = float(run.scenario.duration_seconds)
        seconds += length
        for name, said in heard.items():
            fired = [each for each in said.incidents.values() if each.state != "suspect" and not each.merged_into]
            case = Case(incidents=fired, labels=truth, stream_seconds=length, gpus=gpus)
            cases[name].append(case)
            cpu[name] += said.cpu_seconds
            if not truth.is_empty():
                surfaces[name].append(vus_pr(said.levels, _wrong(truth, run), buffer_points=BUFFER_SECONDS))
        if HOTSPARE in cases:
            misses += [f"{run.scenario.name}: {line}" for line in _misses(cases[HOTSPARE][-1])]
        told(f"{run.scenario.name}: {truth.height} faults, {length:,.0f} s of {gpus:,} GPUs")
    results = tuple(
        Result(
            name=name, card=score_cases(each), vus_pr=float(np.mean(surfaces[name])) if surfaces[name] else None,
            cpu_milliseconds_per_second=1e3 * cpu[name] / seconds,
        )
        for name, each in cases.items()
    )  # fmt: skip
    return SuiteResult(
        suite=suite, split=split, seeds=tuple(run.scenario.seed for run in chosen), gpus=gpus, stream_seconds=seconds,
        results=results, misses=tuple(misses),
    )  # fmt: skip


def listened(source: Source, scenario: Scenario, entrants: Sequence[Entrant]) -> dict[str, Heard]:
    """What each entrant says of one and the same stream."""
    listeners = {
        entrant.name: _Listener(
            Engine(detectors=entrant.detectors, topology=source.topology, intervals_seconds=source.intervals_seconds)
        )
        for entrant in entrants
    }
    for arrival in source.arrivals({}):
        for listener in listeners.values():
            state = listener.state or listener.engine.start(_first(arrival.batch))
            started = time.process_time()
            step = listener.engine.step(state, arrival.batch)
            listener.cpu_seconds += time.process_time() - started
            listener.state = step.state
            listener.incidents.update({each.id: each for each in step.incidents})
            if not step.findings.is_empty():
                listener.findings.append(step.findings.select(FINDING_SCORE))
    return {
        name: Heard(
            incidents=listener.incidents,
            levels=_levels(listener.findings, scenario.starts_at, scenario.duration_seconds),
            cpu_seconds=listener.cpu_seconds,
        )
        for name, listener in listeners.items()
    }


FINDING_SCORE = ("time", "detector", "cause", "entity", "code", "active", "score", "threshold")


def _first(batch: Batch) -> datetime:
    """The earliest time in the first batch: where the stream begins."""
    times = [frame[TABLE_BY_NAME[name].time].min() for name, frame in batch.tables.items() if not frame.is_empty()]
    return min((moment for moment in times if isinstance(moment, datetime)), default=batch.now)


def _levels(
    findings: Sequence[pl.DataFrame], began: datetime, length: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(length,) seconds: the highest score over threshold of all levels that began or changed within NEWS_SECONDS."""
    highest = np.zeros(length)
    if not findings:
        return highest
    key = ["detector", "cause", "entity", "code"]
    second = ((pl.col("time") - pl.lit(began)).dt.total_seconds()).clip(0, length - 1)
    told = pl.concat(findings).with_columns(second=second).sort("time", maintain_order=True)
    told = told.with_columns(until=pl.col("second").shift(-1).over(key).fill_null(length)).filter("active")
    loud = pl.max_horizontal(pl.col("score") / pl.col("threshold").replace(0.0, 1.0), pl.lit(1.0)).fill_null(1.0)
    for first, last, level in told.select("second", "until", loud.clip(1.0, 1e6).alias("level")).iter_rows():
        news = slice(first, min(last, first + NEWS_SECONDS))
        highest[news] = np.maximum(highest[news], level)
    return highest


def _wrong(truth: pl.DataFrame, run: Run) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """(seconds,) whether a fault was on and had not been so for longer than its deadline."""
    length = run.scenario.duration_seconds
    wrong = np.zeros(length, dtype=np.bool_)
    for begins, ends, deadline in truth.select("starts_at", "ends_at", "deadline_seconds").iter_rows():
        first = int((begins - run.scenario.starts_at).total_seconds())
        last = length if ends is None else int((ends - run.scenario.starts_at).total_seconds())
        wrong[first : min(last, first + int(deadline))] = True
    return wrong


def _misses(case: Case) -> Iterator[str]:
    """What one run's card does not like, fault by fault: missed, late, wrong cause, said twice; and what was false."""
    for row in case.labels.iter_rows(named=True):
        alone = replace(case, labels=case.labels.filter(pl.col("starts_at") == row["starts_at"]))
        total = score_cases([alone]).total
        where = f"{row['cause']} of {', '.join(row['roots'])} at {row['starts_at']:%H:%M:%S}"
        if not total.detected:
            yield f"{'late' if total.late else 'missed'}: {where}"
        elif total.cause_accuracy == 0:
            yield f"wrong cause: {where}"
        if total.duplicates:
            yield f"said {1 + total.duplicates} times: {where}"
    for each in unexplained(case):
        yield f"false {each.severity}: {each.cause} of {', '.join(each.roots[:3])} at {each.detected_at:%H:%M:%S}"


def unexplained(case: Case) -> list[Incident]:
    """Incidents that no fault explains: taking one away makes one false incident less."""
    count = score_cases([case]).total.false_incidents
    return [
        each
        for each in case.incidents
        if score_cases([replace(case, incidents=[other for other in case.incidents if other is not each])])
        .total.false_incidents < count
    ]  # fmt: skip
