"""What a reviewer should look at next, as far as it can be told from what is known. People write the rest."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.bundles.bundle import Bundle
from pipelines.outside_events import OutsideEvent
from pipelines.postmortem.otherwise import Otherwise
from pipelines.postmortem.timeline import Times, verdict
from pipelines.wording import is_only_logged, some

SLOW_SECONDS = 300.0
"""From being told to somebody's saying so: the usual five minutes until a pager escalates."""
SOON_BEFORE_SECONDS = 3600.0
RULED_OUT_MAXIMUM = 5


def follow_ups(
    bundle: Bundle, times: Times, outside: Sequence[OutsideEvent], otherwise: Otherwise | None
) -> tuple[str, ...]:
    """One line each, the most pressing first. outside: the events that belong to the incident."""
    told = (
        _lasting(bundle),
        _verdict(bundle),
        _people(bundle, times),
        _outside(outside),
        _actions(bundle),
        _clocks(bundle),
    )
    return tuple(line for each in (*told, _settings(otherwise)) for line in each)


def _lasting(bundle: Bundle) -> Iterator[str]:
    if bundle.incident.ends_at is None:
        yield "It had not ended when this was written: write the report anew once it has."


def _people(bundle: Bundle, times: Times) -> Iterator[str]:
    if bundle.incident.severity != "page":
        return
    if times.acknowledge is None:
        yield "Nobody acknowledged it: find out whom the page reached."
    elif times.acknowledge - times.detect > SLOW_SECONDS:
        minutes = (times.acknowledge - times.detect) / 60
        yield f"It took {minutes:.0f} min from the page until somebody acknowledged it."


def _verdict(bundle: Bundle) -> Iterator[str]:
    said = verdict(bundle)
    if said is not None and said.kind == "judged false":
        detectors = some(sorted({str(one["detector"]) for one in bundle.incident.evidence if one.get("detector")}))
        yield f"Judged false: try other thresholds of {detectors} on the past (`hotspare backtest`)."


def _outside(found: Sequence[OutsideEvent]) -> Iterator[str]:
    soon = [
        one for one in found
        if one.where != "elsewhere" and 0 <= one.before.total_seconds() <= SOON_BEFORE_SECONDS
    ]  # fmt: skip
    for one in sorted(soon, key=lambda one: one.before)[:RULED_OUT_MAXIMUM]:
        who = f" (ask {one.row['who']})" if one.row["who"] else ""
        yield f"Rule out as a cause: {one.text}{who}."
    if len(soon) > RULED_OUT_MAXIMUM:
        yield f"Rule out as a cause: {len(soon) - RULED_OUT_MAXIMUM} more events of the hour before, in the timeline."


def _actions(bundle: Bundle) -> Iterator[str]:
    mine = [one for one in bundle.actions if one.request.incident == bundle.incident.id]
    failed = [f"{one.request.kind} of {one.request.target}: {one.why}" for one in mine if one.outcome == "failed"]
    refused: dict[str, list[str]] = {}
    for one in mine:
        if one.outcome == "refused":
            refused.setdefault(one.why.partition(":")[0], []).append(one.why)
    rehearsed = Counter(one.request.kind for one in mine if one.outcome == "dry-run")
    logged = Counter(one.request.kind for one in mine if is_only_logged(one))
    waiting = Counter(one.request.kind for one in mine if one.outcome == "waiting_approval")
    yield from (f"An action failed: {why}." for why in failed)
    yield from (f"{_times(len(whys))} refused, {whys[0]}." for whys in refused.values())
    if waiting:
        yield f"Waited for approval to the end: {_counted(waiting)}."
    if logged:
        yield f"Only logged, with nobody to carry them out: {_counted(logged)}. Name executors (executors.by_kind)."
    if rehearsed:
        yield f"Only rehearsed (dry-run): {_counted(rehearsed)}. Decide which of these recovery may carry out."


def _clocks(bundle: Bundle) -> Iterator[str]:
    lags = bundle.manifest.lags
    if lags:
        named = some([f"{node} ({seconds:g} s)" for node, seconds in lags.items()], 5)
        yield f"Put clocks right, or the way of their telemetry: {named}."
    if bundle.manifest.late_rows:
        yield f"{bundle.manifest.late_rows} rows of this time came too late to be judged: see whose they are."


def _settings(otherwise: Otherwise | None) -> Iterator[str]:
    if otherwise is not None and (otherwise.seconds_earlier or 0) > 0:
        yield f"With {otherwise.name} {otherwise.verdict}: try it on the past (`hotspare backtest`) before it is used."


def _counted(kinds: Mapping[Any, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def _times(count: int) -> str:
    return "An action was" if count == 1 else f"{count} actions were"
