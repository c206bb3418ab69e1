"""Whether what a scenario expects was said: every [[expect]], and nothing else."""

from collections.abc import Sequence
from datetime import timedelta

import polars as pl

from replay.scenario import Expectation, Scenario
from schemas.incident import Incident


def unmet(scenario: Scenario, incidents: Sequence[Incident], labels: pl.DataFrame) -> tuple[str, ...]:
    """One line for each expectation that was not met and each incident that nobody expected; none if all is well.

    Suspects do not count. Seconds of detected_within_seconds run from the onset in labels (schemas.label).
    """
    said = [each for each in incidents if each.state != "suspect"]
    lines = []
    explained: set[str] = set()
    for expect in scenario.expects:
        found = sorted(
            (each for each in said if each.cause == expect.cause and set(each.roots) == set(expect.roots)),
            key=lambda each: each.detected_at,
        )
        explained |= {each.id for each in found}
        lines += _unmet(expect, found, scenario, labels)
    if scenario.nothing_else:
        lines += [
            f"nobody expected {each.cause} of {', '.join(each.roots)}, detected {each.detected_at.isoformat()}"
            for each in said
            if each.id not in explained
        ]
    return tuple(lines)


def _unmet(expect: Expectation, found: Sequence[Incident], scenario: Scenario, labels: pl.DataFrame) -> list[str]:
    what = f"{expect.cause} of {', '.join(expect.roots)}"
    if not found:
        return [f"{what} was not detected"]
    lines = []
    if len(found) > 1:
        lines.append(f"{what} was said {len(found)} times")
    first = found[0]
    if expect.members is not None and len(first.members) != expect.members:
        lines.append(f"{what} has {len(first.members)} members, expected {expect.members}")
    if expect.between is not None:
        low, high = expect.between
        begin, end = (scenario.starts_at + timedelta(seconds=second) for second in (low, high))
        if not begin <= first.detected_at <= end:
            second = (first.detected_at - scenario.starts_at).total_seconds()
            lines.append(f"{what} was detected at {second:g} s, expected between {low:g} and {high:g} s")
    if expect.detected_within_seconds is not None:
        lines += _too_late(expect, first, labels, what)
    return lines


def _too_late(expect: Expectation, first: Incident, labels: pl.DataFrame, what: str) -> list[str]:
    onsets = [
        row["starts_at"]
        for row in labels.iter_rows(named=True)
        if row["cause"] == expect.cause and set(row["roots"]) == set(expect.roots)
    ]
    if not onsets:
        return [f"{what} has no label, so that nothing says when it began"]
    seconds = (first.detected_at - min(onsets)).total_seconds()
    if seconds > (expect.detected_within_seconds or 0):
        return [f"{what} was detected {seconds:g} s after onset, expected within {expect.detected_within_seconds:g} s"]
    return []
