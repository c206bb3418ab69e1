"""hotspare cable accept: OTDR traces (.sor) against limits, and against a baseline shot of the same fibre."""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from detectors.fiber.acceptance import Acceptance
from detectors.fiber.event_loss import EventLoss
from detectors.fiber.span import Reels
from pipelines.cli.cable_files import Unread, read_all
from pipelines.cli.cable_judge import Fiber, Plan, judge
from pipelines.cli.cable_report import document, show
from pipelines.cli.output import FOUND_SOMETHING, WRONG_USE, AsJson, Refused, SettingsFile, console, print_json
from pipelines.cli.session import settings_at
from pipelines.settings import Settings, configured
from pipelines.sources.choose import topology_of

cable = typer.Typer(no_args_is_help=True, help="OTDR acceptance of cables.")


@cable.callback()
def group() -> None:
    """Keeps `accept` a command of its own."""


@cable.command("accept")
def accept(
    files: Annotated[list[Path], typer.Argument(help="SR-4731 .sor files, format version 1 or 2, or folders of them.")],
    baseline: Annotated[
        Path | None, typer.Option(help="Accepted shot of the same fibre to compare with, or a folder of them.")
    ] = None,
    grade: Annotated[
        str | None, typer.Option(help="Limits: tia, reference, strict, or IEC b, c, d. Default: cable.grade, tia.")
    ] = None,
    budget_db: Annotated[
        float | None, typer.Option(min=0, help="What the whole fibre may lose. Default: reckoned.")
    ] = None,
    launch_meters: Annotated[float | None, typer.Option(min=0, help="Length of the launch reel used.")] = None,
    tail_meters: Annotated[float | None, typer.Option(min=0, help="Length of the receive reel used.")] = None,
    length_meters: Annotated[
        float | None, typer.Option(min=0, help="Length of the cables. Default: the topology's.")
    ] = None,
    length_tolerance_meters: Annotated[
        float | None, typer.Option(min=0, help="Judge the length: allowed difference.")
    ] = None,
    match_meters: Annotated[
        float | None,
        typer.Option(
            min=0, help="Allowed difference of length among the cables of one sea-star group; off by default."
        ),
    ] = None,
    both_ends: Annotated[
        bool,
        typer.Option("--both-ends", help="The two shots of a fibre and wavelength are from its two ends: average."),
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Show every event of every fibre.")] = False,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """PASS, FAIL or UNRESOLVABLE per fibre, event by event. Exit 1 when one fails or a file cannot be read."""
    chosen = settings_at(settings)
    if length_meters is not None and length_tolerance_meters is None:
        raise Refused("--length-meters needs --length-tolerance-meters")
    if both_ends and baseline is not None:
        raise Refused("--both-ends and --baseline do not go together: compare each direction with its own baseline")
    try:
        limits = chosen.cable.limits(grade)
    except ValueError as error:
        raise Refused(f"--grade: {error}") from None
    acceptance = Acceptance(
        limits=limits, resolution=chosen.cable.resolution(), gainer_db=chosen.cable.gainer_db,
        budget_db=chosen.cable.budget_db if budget_db is None else budget_db, length_meters=length_meters,
        length_tolerance_meters=length_tolerance_meters,
    )  # fmt: skip
    planned = length_tolerance_meters is not None and length_meters is None
    links = topology_of(chosen).links if planned or match_meters is not None else None
    shots, unread = read_all(files, chosen.limits.file_bytes_maximum)
    before, lost = (None, []) if baseline is None else read_all([baseline], chosen.limits.file_bytes_maximum)
    if before is not None and not before:
        raise Refused(f"--baseline: {lost[0].file}: {lost[0].reason}")
    plan = Plan(
        acceptance=acceptance,
        reels=Reels(
            launch_meters=launch_meters or chosen.cable.launch_meters,
            tail_meters=tail_meters or chosen.cable.tail_meters,
        ),
        macrobend_db=chosen.cable.macrobend_db, both_ends=both_ends, baselines=before, detector=_detector(chosen),
        match_meters=match_meters, groups=_known(links, "star_group"),
        lengths=_known(links, "length_meters") if planned else None,
    )  # fmt: skip
    fibers = judge(shots, plan)
    if as_json:
        print_json(document(fibers, [*unread, *lost]))
    else:
        show(console(), fibers, [*unread, *lost], events=events)
    return _exit_code(fibers, unread, asked_to_compare=before is not None)


def _exit_code(fibers: list[Fiber], unread: list[Unread], *, asked_to_compare: bool) -> int:
    """1 where a person is needed; 2 where nothing could be read, or nothing compared with the baseline."""
    if not fibers:
        return WRONG_USE
    if unread or any(fiber.verdict == "FAIL" for fiber in fibers):
        return FOUND_SOMETHING
    return WRONG_USE if asked_to_compare and all(fiber.change is None for fiber in fibers) else 0


def _detector(settings: Settings) -> EventLoss:
    return next(detector for detector in configured(settings) if isinstance(detector, EventLoss))


def _known(links: pl.DataFrame | None, column: str) -> dict[str, Any]:
    """Cable to what the topology says of it. Cables without a sea-star group are one group, "given together"."""
    return {} if links is None else dict(links.select("cable", column).drop_nulls().iter_rows())
