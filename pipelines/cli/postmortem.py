"""hotspare postmortem: the report of an incident, from the stores or from a bundle."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from pipelines.bundles.bundle import Bundle, decode, is_bundle
from pipelines.bundles.export import export
from pipelines.cli.output import AsJson, Refused, SettingsFile, console, print_json, write_whole
from pipelines.cli.people import incident_named
from pipelines.cli.session import operations_store, settings_at, telemetry_store
from pipelines.postmortem.facts import document
from pipelines.postmortem.otherwise import Otherwise, differs, otherwise
from pipelines.postmortem.report import written
from pipelines.settings import Settings, load_settings

ENDINGS = (".html", ".md", ".json")


def postmortem(
    of: Annotated[str, typer.Argument(metavar="ID|FILE", help="Incident id, or a bundle.")],
    to: Annotated[Path | None, typer.Option("--to", help="report.html, report.md or report.json.")] = None,
    diff: Annotated[
        str | None, typer.Option(help="Second settings file: tell what it would have done. A bundle: --settings does.")
    ] = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Write the postmortem: what happened, when, to whom, and what was done. What people wrote into a .md stays, and is
    shown by a .html beside it.
    """
    if to is not None and to.suffix not in ENDINGS:
        raise Refused(f"{to}: the ending says what to write: {', '.join(ENDINGS)}")
    if to is None and not as_json:
        raise Refused("say where to: --to report.html, report.md or report.json; or --json")
    chosen = settings_at(settings)
    other = None if diff is None else load_settings(Path(diff))
    bundle = _bundle(of, chosen)
    instead = _otherwise(bundle, chosen, settings, other, diff)
    price = chosen.bundles.dollars_per_gpu_hour
    if to is not None:
        write_whole(to, written(to, bundle, price, instead))
    if as_json:
        print_json(document(bundle, price, instead))
    else:
        console().print(f"{bundle.manifest.incident}: {to}")
    return 0


def _otherwise(
    bundle: Bundle, chosen: Settings, settings: str | None, other: Settings | None, diff: str | None
) -> Otherwise | None:
    """What --diff would have done, or, of a bundle that was judged with others, the settings that are given here."""
    if other is not None and diff is not None:
        return otherwise(bundle, other, Path(diff).name)
    if settings is not None and differs(bundle, chosen):
        return otherwise(bundle, chosen, Path(settings).name)
    return None


def _bundle(of: str, settings: Settings) -> Bundle:
    path = Path(of)
    if path.is_file():
        if not is_bundle(path):
            raise Refused(f"{of}: no bundle of `hotspare incidents export`")
        return decode(path, settings.bundles.bytes_maximum)
    operations = operations_store(settings)
    return export(incident_named(operations, of), settings, telemetry_store(settings), operations, datetime.now(UTC))
