"""What `hotspare cable accept` shows: a table for people, one document for machines."""

from collections.abc import Sequence
from typing import Any

import polars as pl
from rich.console import Console

from detectors.fiber.batch import count_by_reason, rejected_share
from detectors.fiber.reason import Verdict
from pipelines.cli.cable_change import COMPARED
from pipelines.cli.cable_files import Unread
from pipelines.cli.cable_judge import Fiber
from pipelines.cli.output import moment, table

VERDICTS: tuple[Verdict, ...] = ("PASS", "FAIL", "UNRESOLVABLE")
EVENTS = ("number", "distance_meters", "loss_db", "reflectance_db", "code", "limit_db", "verdict", "reason")
MORE_OF_EVENTS = ("position_meters", "role", "directions")


def document(fibers: Sequence[Fiber], unread: Sequence[Unread]) -> dict[str, Any]:
    return {
        "files": [_fiber_document(fiber) for fiber in fibers],
        "unreadable": [{"file": each.file, "reason": each.reason} for each in unread],
        **_sums(fibers),
    }


def _sums(fibers: Sequence[Fiber]) -> dict[str, Any]:
    verdicts = [fiber.verdict for fiber in fibers]
    reasons = [fiber.reasons for fiber in fibers]
    return {
        "verdicts": {verdict: verdicts.count(verdict) for verdict in VERDICTS},
        "rejected_share": rejected_share(verdicts),
        "failed_by_reason": count_by_reason(reasons, "FAIL"),
        "unresolvable_by_reason": count_by_reason(reasons, "UNRESOLVABLE"),
    }


def _fiber_document(fiber: Fiber) -> dict[str, Any]:
    judgement, shot = fiber.judgement, fiber.files[0].shot
    span = judgement.span
    told = {
        name: getattr(shot, name)
        for name in (
            "cable", "fiber", "direction", "time", "wavelength_nanometers", "pulse_nanoseconds", "group_index",
            "first_sample_meters", "sample_spacing_meters", "return_loss_db",
        )
    }  # fmt: skip
    return {
        "file": str(fiber.files[0].path),
        "files": [str(each.path) for each in fiber.files],
        "verdict": fiber.verdict,
        "reasons": [{"name": one.name, "verdict": one.verdict, "text": one.text} for one in fiber.reasons],
        **told,
        "samples": 0 if shot.samples_db is None else len(shot.samples_db),
        "length_meters": span.length_meters,
        "length_uncertainty_meters": judgement.length_uncertainty_meters,
        "total_loss_db": span.total_loss_db,
        "total_loss_measured": span.total_measured,
        "budget_db": judgement.budget_db,
        "near_end_measured": span.near_seen,
        "far_end_measured": span.far_seen,
        "events": judgement.events.select(*EVENTS, *MORE_OF_EVENTS).to_dicts(),
        "baseline": fiber.baseline,
        "warning": fiber.warning or None,
        "advice": None if fiber.change is None else fiber.change.advice,
        "changes": [] if fiber.change is None else fiber.change.findings,
        "compared": [] if fiber.change is None else fiber.change.events,
    }


def show(screen: Console, fibers: Sequence[Fiber], unread: Sequence[Unread], *, events: bool) -> None:
    """events: every event of every fibre, else of a single one, and of several those that do not pass."""
    if fibers:
        screen.print(_fibers_table(fibers))
    for fiber in fibers:
        _show_fiber(screen, fiber, every=events or len(fibers) == 1)
    sums = _sums(fibers)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sums["verdicts"].items())
    share = sums["rejected_share"]
    rejected = "" if share is None else f"; {share:.1%} of those that can be judged rejected"
    screen.print(f"{len(fibers)} judged: {counts}{rejected}", markup=False)
    for title, counted in (("FAIL", sums["failed_by_reason"]), ("UNRESOLVABLE", sums["unresolvable_by_reason"])):
        if counted:
            screen.print(f"{title} by reason: {', '.join(f'{name} {count}' for name, count in counted.items())}")
    if unread:
        screen.print(f"{len(unread)} not read:")
    for each in unread:
        screen.print(f"  {each.file}: {each.reason}", markup=False)


def _fibers_table(fibers: Sequence[Fiber]) -> Any:
    columns = ("file", "cable", "fibre", "nm", "length m", "loss dB", "budget dB", "verdict", "why")
    compared = any(fiber.change is not None for fiber in fibers)
    return table(
        "",
        columns + (("advice",) if compared else ()),
        ([*_fiber_row(fiber), *_advice(fiber, compared)] for fiber in fibers),
    )


def _fiber_row(fiber: Fiber) -> list[object]:
    span, shot = fiber.judgement.span, fiber.files[0].shot
    uncertainty = fiber.judgement.length_uncertainty_meters
    length = None if span.length_meters is None else f"{span.length_meters:,.2f} +- {uncertainty or 0.0:.2f}"
    told = [reason for reason in fiber.reasons if reason.verdict == fiber.verdict or reason.name == "baseline"]
    return [
        " + ".join(each.path.name for each in fiber.files), shot.cable, shot.fiber,
        _number(shot.wavelength_nanometers, "g"), length, _number(span.total_loss_db),
        _number(fiber.judgement.budget_db),
        fiber.verdict, "; ".join(reason.text for reason in told),
    ]  # fmt: skip


def _advice(fiber: Fiber, compared: bool) -> list[object]:  # noqa: FBT001  # a column that is there or not
    if not compared:
        return []
    return ["" if fiber.change is None else fiber.change.advice or "none: as it was"]


def _show_fiber(screen: Console, fiber: Fiber, *, every: bool) -> None:
    name = " + ".join(str(each.path) for each in fiber.files)
    shot, judged = fiber.files[0].shot, fiber.judgement.events
    if not every:
        judged = judged.filter(pl.col("verdict").is_in(["FAIL", "UNRESOLVABLE"]))
    grown = fiber.change is not None and fiber.change.findings
    if not (every or judged.height or grown):
        return
    screen.print(
        f"{name}: {fiber.verdict}, pulse {shot.pulse_nanoseconds or 0:g} ns, shot {moment(shot.time)}", markup=False
    )
    if judged.height:
        columns = ("number", "position_meters", *EVENTS[2:])
        screen.print(
            table("", columns, ([_cell(value) for value in row] for row in judged.select(columns).iter_rows()))
        )
    if fiber.warning:
        screen.print(f"  warning: {fiber.warning}", markup=False)
    if fiber.change is None:
        return
    screen.print(f"  against the baseline {fiber.baseline}:", markup=False)
    rows = [row for row in fiber.change.events if every or row["signature"]]
    if rows:
        screen.print(table("", COMPARED, ([_cell(row[name]) for name in COMPARED] for row in rows)))
    for finding in fiber.change.findings:
        screen.print(
            f"  {finding['advice']}: {finding['cause']} ({finding['code']}), {finding['meaning']}", markup=False
        )
    if not fiber.change.findings:
        screen.print("  nothing has grown")


def _cell(value: object) -> object:
    return _number(value) if isinstance(value, float) else value


def _number(value: float | None, form: str = ".3f") -> str:
    return "" if value is None else format(value, form)
