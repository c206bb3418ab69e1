"""hotspare backtest: other settings against everything that happened, before anybody is paged by them."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines.backtest import Backtest, Labels, backtest
from pipelines.backtest_pass import Reached, tenths
from pipelines.backtest_report import (
    FALSE_HEADS,
    FATE_HEADS,
    LOST_HEADS,
    document,
    false_rows,
    fate_rows,
    lost_rows,
    markdown,
    savings_line,
    verdict_line,
    window_line,
)
from pipelines.backtest_truth import labels_at
from pipelines.cli.output import FOUND_SOMETHING, AsJson, Refused, as_json_text, console, print_json, table, write_whole
from pipelines.cli.session import operations_store, settings_at, telemetry_store
from pipelines.savings import ASSUMPTIONS
from pipelines.settings import load_settings
from pipelines.sources.choose import instant

DURATION = re.compile(r"(?P<count>\d+(\.\d+)?)(?P<unit>[smhdw])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
ENDINGS = (".md", ".json")


def run_backtest(
    settings: Annotated[Path, typer.Option(help="The settings to be judged, as a whole file.")],
    since: Annotated[str, typer.Option(help="From when on: 30d, 12h, or a time.")] = "30d",
    until: Annotated[str | None, typer.Option(help="Until when; default now.")] = None,
    current: Annotated[
        str | None, typer.Option(help="The settings they are compared with; default hotspare.toml if present.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="What was really wrong: labels.parquet, or a folder with it.")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="Write the report: report.md or report.json.")] = None,
    as_json: AsJson = False,
) -> int:
    """Judge past incidents and the healthy time between under other settings. Exit 1: newly missed, or false pages."""
    if to is not None and (to.suffix not in ENDINGS or not to.absolute().parent.is_dir()):
        raise Refused(f"--to {to}: name a .md or .json file in a folder that is there")
    chosen, given = settings_at(current), load_settings(settings)
    end = datetime.now(UTC) if until is None else moment_of(until, datetime.now(UTC), "--until")
    begin = moment_of(since, end, "--since")
    if begin >= end:
        raise Refused(f"--since {since}: is not before the end of the window, {end:%Y-%m-%dT%H:%M}Z")
    truth = None if labels is None else Labels(frame=labels_at(labels), where=str(labels))
    with reported() as progress:
        result = backtest(
            telemetry_store(chosen), operations_store(chosen, create=False), chosen, given, since=begin, until=end,
            labels=truth, progress=progress,
        )  # fmt: skip
    if to is not None:
        write_whole(to, as_json_text(document(result)) if to.suffix == ".json" else markdown(result))
    if as_json:
        print_json(document(result))
    else:
        show(result)
    return FOUND_SOMETHING if result.verdict.worse else 0


def moment_of(text: str, end: datetime, option: str) -> datetime:
    """A time, or so long before `end`. Raises Refused."""
    found = DURATION.fullmatch(text.strip())
    try:
        if found is not None:
            return end - timedelta(**{UNITS[found["unit"]]: float(found["count"])})
        return instant(text)
    except OverflowError:
        raise Refused(f"{option} {text}: so long before the end there is no time") from None
    except ValueError as error:
        raise Refused(f"{option}: {error}; or write 30d, 12h, 90m") from None


def show(result: Backtest) -> None:
    screen = console()
    screen.print(window_line(result))
    screen.print(f"True: {result.told}.")
    for line in result.changed or ("no setting that is judged differs",):
        screen.print(f"Setting: {line}")
    for remark in result.remarks:
        screen.print(f"Note: {remark}.")
    found = result.verdict
    shown = (
        ("What is not as it was", FATE_HEADS, fate_rows(result)),
        ("New false alarms", FALSE_HEADS, false_rows(found.new_false)),
        ("False alarms gone", FALSE_HEADS, false_rows(found.gone_false)),
        ("In closed loop: what automation would have saved", LOST_HEADS, lost_rows(result)),
    )
    for title, heads, rows in shown:
        if rows:
            screen.print(table(title, heads, rows))
    screen.print(savings_line(result))
    for assumption in ASSUMPTIONS:
        screen.print(f"Assumed: {assumption}.")
    screen.print(f"Verdict: {verdict_line(result)}.")


@contextmanager
def reported(*, plain: bool = True) -> Iterator[Callable[[Reached], None]]:
    """Progress on standard error: a bar on a terminal, elsewhere a line for each tenth, or nothing."""
    if not sys.stderr.isatty():
        yield tenths(lambda line: typer.echo(line, err=True)) if plain else lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def follow(reached: Reached) -> None:
            said = f"{reached.at:%Y-%m-%d %H:%M}  {reached.incidents} incidents"
            bar.update(task, total=reached.total_seconds, completed=reached.done_seconds, description=said)

        yield follow
