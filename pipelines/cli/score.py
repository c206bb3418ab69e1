"""hotspare score: suites, labelled scenarios and recordings, judged by the honest protocol."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from detectors.baselines.catalog import BASELINES
from pipelines.cli.output import FOUND_SOMETHING, AsJson, Refused, SettingsFile, console, print_json, table
from pipelines.cli.replay import fired
from pipelines.cli.session import replayed, settings_at
from pipelines.scorecard import CAUSE_HEADS, HEADS, as_markdown, cause_rows, rows
from pipelines.scoring import HOTSPARE, Entrant, SuiteResult, scored_suite
from pipelines.settings import Settings, configured
from pipelines.sources.choose import source_for
from replay.recording import read_labels
from replay.scenario import load_scenario, scenario_names
from replay.score import CauseScore, Scorecard
from replay.score import score as scored
from replay.simulate import labels, topology_of
from replay.suite import Split, load_suite, suite_names

COLUMNS = (
    "cause", "faults", "detected", "late", "duplicates", "false_incidents", "precision", "recall", "top_1",
    "onset_to_detection_p50_seconds", "onset_to_detection_p95_seconds",
)  # fmt: skip


def score(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="Suites (loud, quiet, ...), or scenarios or recordings with labels; all scenarios without."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Suites in their small size.")] = False,
    tuning: Annotated[
        bool, typer.Option("--tuning", help="The seeds for tuning, not those that are reported.")
    ] = False,
    baselines: Annotated[bool, typer.Option(help="Judge the yardsticks on the same rows as well.")] = True,
    to: Annotated[Path | None, typer.Option(help="Write the scorecard of the suites as a markdown file.")] = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Run suites or labelled scenarios and print precision, recall, right root first, and how long detection took."""
    chosen = settings_at(settings)
    named = what or list(scenario_names())
    suites = [name for name in named if name in suite_names()]
    if suites and len(suites) < len(named):
        other = next(name for name in named if name not in suites)
        raise Refused(
            f"{other}: is no suite; score suites ({', '.join(suite_names())}) and scenarios one after the other"
        )
    if suites:
        split: Split = "tuning" if tuning else "reported"
        return _suites(suites, split, chosen, quick=quick, baselines=baselines, to=to, as_json=as_json)
    if quick or tuning or to is not None:
        raise Refused(f"--quick, --tuning and --to are for suites: name some of {', '.join(suite_names())}")
    return _scenarios(named, chosen, as_json=as_json)


def _suites(
    names: Sequence[str],
    split: Split,
    chosen: Settings,
    *,
    quick: bool,
    baselines: bool,
    to: Path | None,
    as_json: bool,
) -> int:
    entrants = [Entrant(name=HOTSPARE, detectors=configured(chosen))]
    if baselines:
        entrants += [Entrant(name=name, detectors=(detector,)) for name, detector in BASELINES]
    if to is not None and not to.absolute().parent.is_dir():
        raise Refused(f"--to {to}: there is no such folder")
    screen = console()

    def told(line: str) -> None:
        if not as_json:
            screen.print(line)

    chosen_suites = [load_suite(name) for name in names]
    results: list[SuiteResult] = []
    for suite in chosen_suites:
        results.append(scored_suite(suite, split, entrants, quick=quick, told=told))
        if to is not None:  # after each suite, as the last one may take hours
            to.write_text(as_markdown(results, datetime.now(UTC)), "utf-8")
    if as_json:
        print_json({result.suite.name: _document(result) for result in results})
    else:
        for result in results:
            screen.print(table(result.suite.name, HEADS, rows(result)))
            screen.print(table("cause by cause, hotspare", CAUSE_HEADS, cause_rows(result)))
            screen.print("\n".join(result.misses))
    totals = [each.card for result in results for each in result.results if each.name == HOTSPARE]
    return 0 if all(_perfect(card) for card in totals) else FOUND_SOMETHING


def _document(result: SuiteResult) -> dict[str, Any]:
    return {
        "split": result.split,
        "seeds": result.seeds,
        "gpus": result.gpus,
        "stream_seconds": result.stream_seconds,
        "entrants": {
            each.name: {
                **_card(each.card),
                "vus_pr": each.vus_pr,
                "cpu_milliseconds_per_second": each.cpu_milliseconds_per_second,
            }
            for each in result.results
        },
        "misses": result.misses,
    }


def _card(card: Scorecard) -> dict[str, Any]:
    rates = {f"false_{severity}s_per_day": card.false_per_day(severity) for severity in ("page", "ticket")}
    return {
        "causes": [vars(each) for each in card.causes],
        "total": vars(card.total),
        "false_incidents_per_day": card.false_incidents_per_day,
        "false_pages": card.false_pages,
        "false_tickets": card.false_tickets,
        "gpu_hours": card.gpu_hours,
        **{
            name: None if rate is None else {"rate": rate[0], "upper_95_percent": rate[1]}
            for name, rate in rates.items()
        },
    }


def _scenarios(names: Sequence[str], chosen: Settings, *, as_json: bool) -> int:
    cards: dict[str, Scorecard] = {}
    for name in names:
        folder = Path(name)
        if folder.is_dir() and not (folder / "labels.parquet").exists():
            raise Refused(f"{name!r} has no labels.parquet, so there is no truth to score against")
        truth = read_labels(folder) if folder.is_dir() else labels(loaded := load_scenario(name), topology_of(loaded))
        tally = replayed(source_for(name, chosen), chosen)
        cards[name] = scored(fired(tally), truth, stream_seconds=tally.stream_seconds)
        if not as_json and console().is_terminal:
            console().print(f"{name}: {cards[name].total.detected} of {cards[name].total.faults} faults found")
    if as_json:
        print_json({name: _card(card) for name, card in cards.items()})
    else:
        cells = [(name, *_cells(each)) for name, card in cards.items() for each in card.causes]
        console().print(
            table("Scores", ("scenario", *(column.replace("onset_to_detection_", "") for column in COLUMNS)), cells)
        )
    return 0 if all(_perfect(card) for card in cards.values()) else FOUND_SOMETHING


def _perfect(card: Scorecard) -> bool:
    return card.total.detected == card.total.faults and not card.total.false_incidents


def _cells(score: CauseScore) -> list[str]:
    values = [getattr(score, column) for column in COLUMNS]
    return ["" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
