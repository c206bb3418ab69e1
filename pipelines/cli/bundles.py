"""hotspare incidents export, and replay --verify: an incident as one file, and whether it is judged the same again."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.bundles.anonymise import anonymised
from pipelines.bundles.bundle import Bundle, encode
from pipelines.bundles.export import export
from pipelines.bundles.source import bundle_source
from pipelines.bundles.verify import divergence
from pipelines.cli.output import (
    FOUND_SOMETHING,
    AsJson,
    Refused,
    SettingsFile,
    console,
    moment,
    print_json,
    write_whole,
)
from pipelines.cli.people import Name, incident_named
from pipelines.cli.session import operations_store, settings_at, telemetry_store
from pipelines.pacing import window_seconds
from pipelines.rejudge import rejudge
from pipelines.settings import Settings, settings_from


def export_incident(
    name: Name,
    to: Annotated[Path, typer.Option("--to", help="The file to write, e.g. incident.hotspare; must not be there yet.")],
    anonymise: Annotated[bool, typer.Option(help="Pseudonyms for all names, addresses and numbers.")] = False,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """One portable file with everything about an incident: `hotspare replay FILE` judges it anywhere."""
    chosen = settings_at(settings)
    if to.exists():
        raise Refused(f"{to}: is there already; choose a new name")
    operations = operations_store(chosen)
    incident = incident_named(operations, name)
    bundle = export(incident, chosen, telemetry_store(chosen), operations, datetime.now(UTC))
    bundle = anonymised(bundle) if anonymise else bundle
    data = encode(bundle)
    if len(data) > chosen.bundles.bytes_maximum:
        largest = max(bundle.tables, key=lambda table: bundle.tables[table].estimated_size())
        raise Refused(
            f"{incident.id}: {len(data):,} bytes, the limit is {chosen.bundles.bytes_maximum:,}, and {largest} is the "
            "largest part; lower bundles.before_seconds, or raise bundles.bytes_maximum"
        )
    write_whole(to, data)
    rows = {table: frame.height for table, frame in bundle.tables.items() if not frame.is_empty()}
    if as_json:
        print_json({"file": str(to), "incident": bundle.manifest.incident, "bytes": len(data), "rows": rows})
    else:
        console().print(
            f"{bundle.manifest.incident}: {sum(rows.values()):,} rows of {len(rows)} tables, {len(data):,} bytes, "
            f"in {to}; try: hotspare replay {to} --verify"
        )
    return 0


def verify(bundle: Bundle, settings: Settings, *, as_json: bool) -> int:
    """Judge the bundle again with the settings that it was judged with. Exit 1 where it comes out otherwise."""
    recorded = settings_from(bundle.manifest.settings, "manifest.json: settings")
    then = settings.model_copy(update={"detectors": recorded.detectors, "recovery": recorded.recovery})
    again = rejudge(bundle_source(bundle, seconds=window_seconds(None)), then)
    found = divergence(bundle, again)
    document: dict[str, Any] = {
        "incident": bundle.manifest.incident, "same": found is None, "versions": bundle.manifest.versions,
        "divergence": None if found is None else {"at": found.at, "what": found.what, "cause": found.cause},
    }  # fmt: skip
    if as_json:
        print_json(document)
    elif found is None:
        console().print(f"{bundle.manifest.incident}: judged as it was then")
    else:
        console().print(f"{bundle.manifest.incident}: judged otherwise from {moment(found.at)} on: {found.what}")
        console().print(f"why: {found.cause}")
    return FOUND_SOMETHING if found is not None else 0
