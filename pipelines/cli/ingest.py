"""hotspare ingest: one catch-up pass from Kafka, a recording, or files in any known format, into the stores."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.cli.heard import HeardSource
from pipelines.cli.output import WRONG_USE, AsJson, Refused, SettingsFile, print_json, rehearsed
from pipelines.cli.replay import replay_document, show_tally
from pipelines.cli.session import progress_bar, settings_at
from pipelines.settings import Settings
from pipelines.sources.choose import source_for
from pipelines.sources.contract import SourceError
from pipelines.workplace import Workplace
from replay.recording import RecordingError

FILES = "a file in a known format, a recording folder, a folder of files, a scenario, or kafka"


def ingest(
    source: Annotated[list[str], typer.Option("--from", help=f"Where from: {FILES}. May be given several times.")],
    node: Annotated[str | None, typer.Option(help="Host that a file comes from, when it does not say.")] = None,
    mapping: Annotated[
        str | None, typer.Option(help="Section mapping or modbus of the settings that says what a file's columns are.")
    ] = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Take telemetry into DuckDB, judge it, and open incidents. Running it again takes only what is new."""
    chosen = settings_at(settings)
    specs = [path for given in source for path in _expanded(given)]
    documents: list[dict[str, Any]] = []
    unread: list[str] = []
    for spec in specs:
        try:
            documents.append(_taken(spec, chosen, node=node, mapping=mapping, as_json=as_json))
        except (SourceError, RecordingError) as error:
            if len(specs) == 1:
                raise
            unread.append(str(error))  # one bad file among many costs only itself
            sys.stderr.write(f"hotspare: {error}\n")
    if as_json:
        print_json(documents[0] if len(specs) == 1 else {"sources": documents, "unreadable": unread})
    return WRONG_USE if unread else 0


def _taken(spec: str, chosen: Settings, *, node: str | None, mapping: str | None, as_json: bool) -> dict[str, Any]:
    """One source into the stores, shown unless it is to be a document."""
    remarks: list[str] = []
    found = HeardSource(source=source_for(spec, chosen, node=node, mapping=mapping, say=remarks.append))
    with progress_bar(found.span_seconds, quiet=as_json) as show:
        tally = Workplace(settings=chosen, progress=show).ingest(found, "ingest")
    if not as_json:
        show_tally(tally, title=": ".join([spec, *remarks]), refused=found.refusals(), enforcing=chosen.recovery)
    return {
        "source": spec,
        **replay_document(tally),
        "remarks": remarks,
        "refused": found.refusals(),
        "rehearsed_actions": rehearsed(tally.actions, chosen.recovery),
    }


def _expanded(given: str) -> list[str]:
    """A folder that is no recording stands for the files in it, in order of name."""
    if not given.strip():
        raise Refused(f"--from is empty; give {FILES}")
    folder = Path(given)
    if not folder.is_dir() or (folder / "recording.toml").exists() or any(folder.glob("*.parquet")):
        return [given]
    files = sorted(str(path) for path in folder.iterdir() if path.is_file())
    if not files:
        raise Refused(f"{given}: the folder is empty; give {FILES}")
    return files
