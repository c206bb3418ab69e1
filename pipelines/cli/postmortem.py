"""hotspare postmortem: the report of an incident, from the stores or from a bundle."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pipelines.bundles.bundle import Bundle, decode, is_bundle
from pipelines.bundles.export import export
from pipelines.cli.output import AsJson, Refused, SettingsFile, console, print_json
from pipelines.cli.people import incident_named
from pipelines.cli.session import operations_store, settings_at, telemetry_store
from pipelines.postmortem.report import document, written
from pipelines.settings import Settings

ENDINGS = (".html", ".md", ".json")


def postmortem(
    of: Annotated[str, typer.Argument(metavar="ID|FILE", help="Incident id, or a bundle.")],
    to: Annotated[Path | None, typer.Option("--to", help="report.html, report.md or report.json.")] = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Write the postmortem: what happened, when, to whom, and what was done. What people wrote into a .md stays."""
    if to is not None and to.suffix not in ENDINGS:
        raise Refused(f"{to}: the ending says what to write: {', '.join(ENDINGS)}")
    if to is None and not as_json:
        raise Refused("say where to: --to report.html, report.md or report.json; or --json")
    chosen = settings_at(settings)
    bundle = _bundle(of, chosen)
    price = chosen.bundles.dollars_per_gpu_hour
    if to is not None:
        as_data = to.suffix == ".json"
        text = (
            msgspec.json.format(msgspec.json.encode(document(bundle, price))).decode()
            if as_data
            else written(to, bundle, price)
        )
        part = to.with_name(f"{to.name}.part")
        part.write_text(text, "utf-8")
        part.replace(to)
    if as_json:
        print_json(document(bundle, price))
    else:
        console().print(f"{bundle.manifest.incident}: {to}")
    return 0


def _bundle(of: str, settings: Settings) -> Bundle:
    path = Path(of)
    if path.is_file():
        if not is_bundle(path):
            raise Refused(f"{of}: no bundle of `hotspare incidents export`")
        return decode(path, settings.bundles.bytes_maximum)
    operations = operations_store(settings)
    return export(incident_named(operations, of), settings, telemetry_store(settings), operations, datetime.now(UTC))
