"""A backtest for its reviewer: as data, and as a page. Both end with the verdict in one line."""

from collections.abc import Iterable, Sequence
from typing import Any

from pipelines.backtest import Backtest
from pipelines.backtest_verdict import FalseAlarm, Fate, Rate
from pipelines.savings import ASSUMPTIONS
from pipelines.scorecard import table_of
from pipelines.wording import in_a_cell, some
from schemas.incident import Incident

SHOWN = 200  # rows of a table on the page; the document has all
FATE_HEADS = ("what", "cause", "root", "detected", "by", "changed", "because of")
FALSE_HEADS = ("severity", "cause", "root", "at", "was", "because of")
LOST_HEADS = ("cause", "root", "lost GPU-s", "saved by detection", "saved with automation", "automation would")


def document(result: Backtest) -> dict[str, Any]:
    """Plain data of all that the page says; times are datetimes, durations seconds."""
    found = result.verdict
    return {
        "verdict": verdict_line(result), "worse": found.worse,
        "window": {
            "since": result.span.since, "until": result.span.until, "read_from": result.begins_at,
            "watched_seconds": result.span.watched_seconds, "gpu_hours": result.gpu_hours,
        },
        "truth": result.told, "changed_settings": result.changed, "remarks": list(result.remarks),
        "counts": counts(result), "incidents": [_fate(fate) for fate in found.fates],
        "new_false": [_false(one) for one in found.new_false], "gone_false": [_false(one) for one in found.gone_false],
        "false_rates": {f"new_{name}s": vars(found.new_rate(name)) for name in ("page", "ticket")},
        "repeats": {"before": found.repeats[0], "after": found.repeats[1]},
        "savings": {**savings_of(result), "assumptions": list(ASSUMPTIONS)},
    }  # fmt: skip


def counts(result: Backtest) -> dict[str, float]:
    """The numbers that are worth plotting, one a name."""
    found = result.verdict
    page, ticket = found.new_rate("page"), found.new_rate("ticket")
    return {
        "true_incidents": len(found.fates),
        "caught": len(found.of("same", "earlier", "later", "newly caught")),
        "newly_missed": len(found.of("newly missed")), "newly_caught": len(found.of("newly caught")),
        "missed_by_both": len(found.of("missed by both")),
        "earlier": len(found.of("earlier")), "later": len(found.of("later")), "told_otherwise": len(found.changed),
        "minutes_earlier": round(found.earlier_minutes, 3),
        "new_false_pages": page.count, "new_false_tickets": ticket.count,
        "new_false_pages_a_day": round(page.per_day or 0.0, 3),
        "new_false_tickets_a_day": round(ticket.per_day or 0.0, 3),
        "false_pages_gone": sum(one.incident.severity == "page" for one in found.gone_false),
        "false_tickets_gone": sum(one.incident.severity == "ticket" for one in found.gone_false),
    }  # fmt: skip


def verdict_line(result: Backtest) -> str:
    """What the reviewer came for."""
    found, number = result.verdict, counts(result)
    parts = [
        f"caught {number['caught']} of {number['true_incidents']}",
        f"{number['newly_missed']} newly missed", f"{number['newly_caught']} newly caught",
        f"{number['earlier']} earlier and {number['later']} later ({_signed(60 * found.earlier_minutes)} in all)",
        f"{number['told_otherwise']} told otherwise",
        f"new false pages {_rate(found.new_rate('page'))}", f"new false tickets {_rate(found.new_rate('ticket'))}",
        f"{number['false_pages_gone']} false pages gone",
    ]  # fmt: skip
    return f"{'worse' if found.worse else 'not worse'}: {'; '.join(parts)}"


def markdown(result: Backtest) -> str:
    """The page."""
    found = result.verdict
    lines = [
        "# Backtest", "", window_line(result), "",
        f"True: {result.told}.", "", "Settings that differ:", "", *_settings(result), "",
        *(f"Note: {remark}.\n" for remark in result.remarks),
        *_section("What was wrong, and what becomes of it", FATE_HEADS, [_fate_cells(one) for one in found.fates]),
        *_section("New false alarms", FALSE_HEADS, [_false_cells(one) for one in found.new_false]),
        *_section("False alarms gone", FALSE_HEADS, [_false_cells(one) for one in found.gone_false]),
        *_section("In closed loop: what automation would have saved", LOST_HEADS, [_lost_cells(one) for one in
                  found.fates if one.saved.lost]),
        savings_line(result), "", "Assumed:", "", *(f"- {one}" for one in ASSUMPTIONS), "",
        f"Verdict: {verdict_line(result)}.", "",
    ]  # fmt: skip
    return "\n".join(lines)


def window_line(result: Backtest) -> str:
    span = result.span
    return (
        f"{span.since:%Y-%m-%d %H:%M} to {span.until:%Y-%m-%d %H:%M} UTC, {span.watched_seconds / 3600:,.1f} h watched "
        f"({result.gpu_hours:,.0f} GPU-hours); read from {result.begins_at:%Y-%m-%d %H:%M} on, so that detectors are "
        "warm."
    )


def savings_line(result: Backtest) -> str:
    saved = savings_of(result)
    lost, earlier, automated = (f"{saved[f'{name}_gpu_seconds']:,.0f}" for name in ("lost", "earlier", "automated"))
    return (
        f"Lost {lost} GPU-seconds (${saved['lost_dollars']:,.2f} at ${result.dollars_per_gpu_hour:g} a GPU-hour) with "
        f"the times as they were; {earlier} saved by when it is detected; {automated} "
        f"(${saved['automated_dollars']:,.2f}) with automation as well."
    )


def fate_rows(result: Backtest) -> list[tuple[str, ...]]:
    """Cells under FATE_HEADS of what is not the same."""
    return [_fate_cells(one) for one in result.verdict.fates if one.caught != "same" or one.changes]


def false_rows(alarms: Iterable[FalseAlarm]) -> list[tuple[str, ...]]:
    """Cells under FALSE_HEADS."""
    return [_false_cells(one) for one in alarms]


def lost_rows(result: Backtest) -> list[tuple[str, ...]]:
    """Cells under LOST_HEADS of what held GPUs."""
    return [_lost_cells(one) for one in result.verdict.fates if one.saved.lost]


def _settings(result: Backtest) -> list[str]:
    if result.changed is None:
        return ["- none: the current settings against what was decided at the time"]
    return [f"- {line}" for line in result.changed] or ["- none that is judged"]


def _section(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return [f"## {title}", "", "None.", ""]
    more = [f"{len(rows) - SHOWN} more are left out; `--json` has them.", ""] if len(rows) > SHOWN else []
    return [f"## {title}", "", table_of(heads, [[in_a_cell(cell) for cell in row] for row in rows[:SHOWN]]), *more]


def savings_of(result: Backtest) -> dict[str, float]:
    """Sums in GPU-seconds and dollars, one a name."""
    every = [fate.saved for fate in result.verdict.fates]
    price = result.dollars_per_gpu_hour / 3600
    sums = {name: sum(getattr(one, name) for one in every) for name in ("lost", "earlier", "automated")}
    return {f"{name}_gpu_seconds": round(value, 3) for name, value in sums.items()} | {
        f"{name}_dollars": round(value * price, 2) for name, value in sums.items()
    }


def _fate(fate: Fate) -> dict[str, Any]:
    truth = fate.truth
    return {
        "id": truth.id, "cause": truth.cause, "root": {"kind": truth.root_kind, "ids": list(truth.roots)},
        "severity": truth.severity, "starts_at": truth.starts_at, "detected_at": truth.detected_at,
        "result": fate.caught, "earlier_seconds": fate.earlier_seconds,
        "before": _side(fate.before), "after": _side(fate.after),
        "instead": _side(fate.instead),
        "changes": [{key: getattr(one, key) for key in ("change", "before", "after")} for one in fate.changes],
        "finding": fate.finding, "gpus": len(truth.members),
        "savings": {
            "lost_gpu_seconds": round(fate.saved.lost, 3), "earlier_gpu_seconds": round(fate.saved.earlier, 3),
            "automated_gpu_seconds": round(fate.saved.automated, 3), "automation": fate.saved.why,
        },
    }  # fmt: skip


def _side(incident: Incident | None) -> dict[str, Any] | None:
    if incident is None:
        return None
    return {
        "id": incident.id, "cause": incident.cause, "severity": incident.severity,
        "root": {"kind": incident.root_kind, "ids": list(incident.roots)}, "detected_at": incident.detected_at,
    }  # fmt: skip


def _false(one: FalseAlarm) -> dict[str, Any]:
    return {**(_side(one.incident) or {}), "was": one.was, "finding": one.finding}


def _fate_cells(fate: Fate) -> tuple[str, ...]:
    moved = "" if not fate.earlier_seconds else _signed(fate.earlier_seconds)
    changed = "; ".join(f"{one.change}: {one.before} -> {one.after}" for one in fate.changes)
    if fate.instead is not None:
        changed = f"only told as {fate.instead.severity} {fate.instead.cause} of {some(fate.instead.roots)}"
    truth = fate.truth
    return (
        fate.caught, truth.cause, some(truth.roots), f"{truth.detected_at:%Y-%m-%d %H:%M:%S}", moved, changed,
        fate.finding or "",
    )  # fmt: skip


def _false_cells(one: FalseAlarm) -> tuple[str, ...]:
    incident = one.incident
    return (
        incident.severity, incident.cause, some(incident.roots), f"{incident.detected_at:%Y-%m-%d %H:%M:%S}",
        one.was or "nothing", one.finding or "",
    )  # fmt: skip


def _lost_cells(fate: Fate) -> tuple[str, ...]:
    saved = fate.saved
    numbers = (f"{value:,.0f}" for value in (saved.lost, saved.earlier, saved.automated))
    return (fate.truth.cause, some(fate.truth.roots), *numbers, saved.why)


def _rate(rate: Rate) -> str:
    if rate.per_day is None or rate.at_most_per_day is None:
        return str(rate.count)
    return f"{rate.count} ({rate.per_day:,.2f} a day, at most {rate.at_most_per_day:,.2f} with 95 %)"


def _signed(seconds: float) -> str:
    """Positive is earlier."""
    return f"{abs(seconds):,.1f} s" + ("" if not seconds else " earlier" if seconds > 0 else " later")
