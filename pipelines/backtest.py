"""Backtest: other settings against all that happened in a window of the store, and the healthy time between.

With settings to compare with, both judge the same rows in one pass. Without, what the settings make of the rows is
compared with what was decided at the time.
"""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.backtest_pass import FINDINGS_KEPT_MAXIMUM, Passed, Reached, pass_over
from pipelines.backtest_truth import labelled_truth, past_incidents, past_truth
from pipelines.backtest_verdict import Span, Verdict, verdict
from pipelines.operations_store import OperationsStore
from pipelines.pacing import WINDOW_SECONDS
from pipelines.recovery.ledger import Ledger
from pipelines.rejudge import COMPARED, Rejudged
from pipelines.settings import Settings, SettingsError, configured, load_settings, settings_from
from pipelines.sources.choose import stretch_source
from pipelines.sources.contract import Source
from pipelines.stored_rows import NothingStored, Stretch, look_for_rows, stretches
from pipelines.telemetry_store import TelemetryStore
from schemas.incident import Incident

BUSY_SECONDS = 120.0  # a pass is long and in no hurry: an ingest that holds the file is waited for


@dataclass(frozen=True, kw_only=True)
class Labels:
    """frame: as of schemas.label. where: said in the report."""

    frame: pl.DataFrame
    where: str


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """begins_at: where reading began, `since` less the margin in which detectors get warm. told: what counts as true.
    changed: thresholds and recovery settings that differ, "key: before -> after"; None against what was decided at
    the time. remarks: what a reviewer ought to know of the run.
    """

    span: Span
    begins_at: datetime
    verdict: Verdict
    told: str
    changed: tuple[str, ...] | None
    gpu_hours: float
    remarks: tuple[str, ...]
    dollars_per_gpu_hour: float


def backtest(  # noqa: PLR0913  what a backtest is of
    telemetry: TelemetryStore,
    operations: OperationsStore,
    settings: Settings,
    given: Settings | None,
    *,
    since: datetime,
    until: datetime,
    labels: Labels | None = None,
    progress: Callable[[Reached], None] = lambda _: None,
) -> Backtest:
    """settings: the current ones. given: those to be judged against them; None judges the current ones against what
    was decided at the time. Raises SourceError for a window of which nothing is stored, StoreUnavailable.
    """
    patient = replace(telemetry, busy_seconds=max(telemetry.busy_seconds, BUSY_SECONDS))
    margin = timedelta(seconds=settings.bundles.before_seconds)
    look_for_rows(patient, since, until)
    past = past_incidents(operations, since - margin, until)  # before the rows: an ingest may be adding to both
    sources, read, remarks = _sources(patient, settings, since - margin, until)
    if not read:
        raise NothingStored(f"{telemetry.path}: {'; '.join(remarks)}")
    truth = past_truth(operations, past) if labels is None else labelled_truth(labels.frame, labels.where)
    passed = pass_over(sources, settings if given is not None else None, given or settings, since, progress)
    before = passed.before
    if before is None:
        before, dropped = _at_the_time(patient, Ledger(operations), past, (since - margin, until))
        passed = replace(passed, findings_dropped=passed.findings_dropped + dropped)
    span = Span(since=since, until=read[-1].ends_at, stretches=read, watched_seconds=passed.watched_seconds)
    unread = sum(since <= one.detected_at < until and one.detected_at not in span for one in truth.wrong)
    return Backtest(
        span=span, begins_at=since - margin, verdict=verdict(truth, before, passed.after, span), told=truth.told,
        changed=None if given is None else differing(settings, given), gpu_hours=passed.gpu_hours,
        remarks=(*remarks, *_remarks(passed, until - since, unread)),
        dollars_per_gpu_hour=settings.capacity.dollars_per_gpu_hour,
    )  # fmt: skip


def proposed(text: str, settings: Settings) -> Settings:
    """The current settings with what is judged of others, from a path or from TOML that changes some of the current
    ones: thresholds and recovery. Raises SettingsError.
    """
    if not text.strip():
        return settings
    given = load_settings(Path(text.strip())) if "=" not in text and "[" not in text else _changed(text, settings)
    return settings.model_copy(update={"detectors": given.detectors, "recovery": given.recovery})


def _changed(text: str, settings: Settings) -> Settings:
    try:
        changes = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"settings: {error}") from None
    settings_from(changes, "settings")  # so that a mistake is told of what was written
    return settings_from(_merged(settings.model_dump(mode="json"), changes), "settings")


def _merged(tree: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(tree[key], value) for key, value in changes.items()
            if isinstance(value, dict) and isinstance(tree.get(key), dict)}  # fmt: skip
    return {**tree, **changes, **both}


def differing(settings: Settings, given: Settings) -> tuple[str, ...]:
    """What of the two differs and is judged: "detectors.gpu.xid.sustained_seconds: 10 -> 5"."""
    old, new = _judged(settings), _judged(given)
    return tuple(f"{key}: {old[key]} -> {new[key]}" for key in old if old[key] != new[key])


def _judged(settings: Settings) -> dict[str, Any]:
    """Thresholds of all detectors and the settings of recovery, by key."""
    thresholds = {
        f"detectors.{detector.name}.{name}": value
        for detector in configured(settings) for name, value in vars(detector).items()
    }  # fmt: skip
    recovery = settings.recovery.model_dump(mode="json")
    return thresholds | {f"recovery.{key}": value for key, value in recovery.items()}


def _sources(
    store: TelemetryStore, settings: Settings, begin: datetime, end: datetime
) -> tuple[list[Source], tuple[Stretch, ...], list[str]]:
    """A source for each stretch of the window that can be judged, those stretches, and what is to be said of it."""
    found: list[Source] = []
    judged: list[Stretch] = []
    unknown: list[Stretch] = []
    knows = _knows_clusters(store)
    every = stretches(store, begin, end)
    for stretch in every:
        cluster = store.cluster(stretch.begins_at, stretch.ends_at)
        if cluster is None and knows:
            unknown.append(stretch)
            continue
        judged.append(stretch)
        found.append(stretch_source(store, settings, stretch, cluster, WINDOW_SECONDS))
    remarks: list[str] = []
    if len(every) > 1:
        remarks.append(
            f"what was watched has {len(every) - 1} breaks (an hour or more, or a stream that began anew); behind each "
            "detectors begin anew"
        )
    if unknown:
        hours = sum(stretch.seconds for stretch in unknown) / 3600
        remarks.append(f"{hours:.1f} h are left out: the cluster that they came from is no longer known to the store")
    return found, tuple(judged), remarks


def _knows_clusters(store: TelemetryStore) -> bool:
    """Whether the store remembers clusters at all; an old one does not, and is judged on that of the settings."""
    found = store.query("select count(*) as n from duckdb_tables() where schema_name = 'cluster'")
    return bool(found["n"][0])


def _at_the_time(
    store: TelemetryStore, ledger: Ledger, past: Sequence[Incident], window: tuple[datetime, datetime]
) -> tuple[Rejudged, int]:
    """What was decided then, in the shape of a judgement, and how many further findings are left out."""
    inside = "from findings where time >= ? and time < ?"
    findings = store.query(
        f"select {', '.join(COMPARED)} {inside} order by time limit ?",
        [*window, FINDINGS_KEPT_MAXIMUM],
    )
    stored = store.query(f"select count(*) as n {inside}", [*window])["n"][0]
    incidents = {one.id: one for one in past}
    actions = tuple(one for one in ledger.actions(limit=None) if one.request.incident in incidents)
    said = Rejudged(findings=findings, incidents=incidents, actions=actions, until=window[1])
    return said, max(0, stored - findings.height)  # an ingest may have added some in between, or retention dropped some


def _remarks(passed: Passed, asked: timedelta, unread: int) -> Iterator[str]:
    hours, watched = asked.total_seconds() / 3600, passed.watched_seconds / 3600
    if watched < 0.99 * hours:
        yield f"telemetry is stored of {watched:.1f} of the {hours:.1f} hours asked for; rates are per watched day"
    if unread:
        yield f"{unread} of what was wrong came up in time that is not read, and is not judged"
    if passed.findings_dropped:
        yield f"{passed.findings_dropped:,} further findings were not kept: the finding behind a change may be missing"
