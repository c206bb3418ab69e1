"""hotspare ingest: one catch-up pass from Kafka, a recording, or files in any known format, into the stores."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.output import AsJson, Refused, SettingsFile, print_json
from pipelines.cli.replay import replay_document, show_tally
from pipelines.cli.session import progress_bar, settings_at
from pipelines.sources.choose import source_for
from pipelines.workplace import Workplace

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
    documents = []
    for spec in (path for given in source for path in _expanded(given)):
        found = source_for(spec, chosen, node=node, mapping=mapping)
        with progress_bar(found.span_seconds, quiet=as_json) as show:
            tally = Workplace(settings=chosen, progress=show).ingest(found, "ingest")
        documents.append({"source": spec, **replay_document(tally)})
        if not as_json:
            show_tally(tally, title=spec)
    if as_json:
        print_json(documents[0] if len(documents) == 1 else {"sources": documents})
    return 0


def _expanded(given: str) -> list[str]:
    """A folder that is no recording stands for the files in it, in order of name."""
    folder = Path(given)
    if not folder.is_dir() or (folder / "recording.toml").exists() or any(folder.glob("*.parquet")):
        return [given]
    files = sorted(str(path) for path in folder.iterdir() if path.is_file())
    if not files:
        raise Refused(f"{given}: the folder is empty; give {FILES}")
    return files
