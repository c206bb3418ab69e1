"""hotspare score: labelled scenarios and recordings, judged by the honest protocol."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.output import FOUND_SOMETHING, AsJson, Refused, SettingsFile, console, print_json, table
from pipelines.cli.replay import fired
from pipelines.cli.session import replayed, settings_at
from pipelines.sources.choose import source_for
from replay.recording import read_labels
from replay.scenario import load_scenario, scenario_names
from replay.score import CauseScore, Scorecard
from replay.score import score as scored
from replay.simulate import labels, topology_of

COLUMNS = (
    "cause", "faults", "detected", "late", "duplicates", "false_incidents", "precision", "recall", "top_1",
    "onset_to_detection_p50_seconds", "onset_to_detection_p95_seconds",
)  # fmt: skip


def score(
    suite: Annotated[
        list[str] | None, typer.Argument(help="Scenarios or recordings with labels; all scenarios without one.")
    ] = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Run labelled scenarios and print precision, recall, right root first, and how long detection took."""
    chosen = settings_at(settings)
    cards: dict[str, Scorecard] = {}
    for name in suite or scenario_names():
        folder = Path(name)
        if folder.is_dir() and not (folder / "labels.parquet").exists():
            raise Refused(f"{name}: has no labels.parquet, so there is no truth to score against")
        truth = read_labels(folder) if folder.is_dir() else labels(loaded := load_scenario(name), topology_of(loaded))
        tally = replayed(source_for(name, chosen), chosen)
        cards[name] = scored(fired(tally), truth, stream_seconds=tally.stream_seconds)
        if not as_json and console().is_terminal:
            console().print(f"{name}: {cards[name].total.detected} of {cards[name].total.faults} faults found")
    if as_json:
        print_json(
            {
                name: {
                    "causes": [vars(c) for c in card.causes],
                    "total": vars(card.total),
                    "false_incidents_per_day": card.false_incidents_per_day,
                }
                for name, card in cards.items()
            }
        )
    else:
        rows = [(name, *_cells(each)) for name, card in cards.items() for each in card.causes]
        console().print(
            table("Scores", ("scenario", *(column.replace("onset_to_detection_", "") for column in COLUMNS)), rows)
        )
    perfect = all(
        card.total.detected == card.total.faults and not card.total.false_incidents for card in cards.values()
    )
    return 0 if perfect else FOUND_SOMETHING


def _cells(score: CauseScore) -> list[str]:
    values = [getattr(score, column) for column in COLUMNS]
    return ["" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
