"""hotspare replay: what happened, judged again by the engine that watches live."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines import counterfactual
from pipelines.backtest_pass import pass_over
from pipelines.bundles.bundle import decode, is_bundle
from pipelines.cli.backtest import reported
from pipelines.cli.bundles import verify as verify_bundle
from pipelines.cli.heard import HeardSource
from pipelines.cli.output import (
    FOUND_SOMETHING,
    AsJson,
    Refused,
    SettingsFile,
    actions_table,
    console,
    incident_document,
    incidents_table,
    print_json,
    rehearsed,
    rehearsed_line,
    table,
)
from pipelines.cli.session import replayed, settings_at, with_progress
from pipelines.counterfactual import Difference, differences
from pipelines.pacing import paced, speed_of
from pipelines.recovery.settings import RecoverySettings
from pipelines.rejudge import Rejudged, rejudge
from pipelines.settings import Settings, load_settings
from pipelines.sources.choose import source_for
from pipelines.sources.gathered import ROWS_AT_ONCE
from pipelines.sources.windows import EPOCH
from pipelines.stream import Tally
from pipelines.wording import some
from schemas.incident import Incident

REFUSAL_HEADS = ("table", "rule", "rows", "reason", "place", "raw")


def replay(
    source: Annotated[
        str, typer.Argument(help="Scenario, bundle, recording folder, store:FROM..TO or kafka:TOPICS@FROM..TO.")
    ],
    speed: Annotated[str, typer.Option(help="max, or how many times faster than it happened, e.g. 1 or 60.")] = "max",
    diff: Annotated[str | None, typer.Option(help="Second settings file: show what it would change.")] = None,
    verify: Annotated[bool, typer.Option(help="Compare a bundle with what was decided at the time.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Another seed for a scenario.")] = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Replay a source through the detectors and show incidents and what recovery would do."""
    chosen = settings_at(settings)
    pace = speed_of(speed)
    if verify:
        if not Path(source).is_file() or not is_bundle(Path(source)):
            raise Refused(f"{source}: --verify needs a bundle of `hotspare incidents export`")
        return verify_bundle(decode(Path(source), chosen.bundles.bytes_maximum), chosen, as_json=as_json)
    if diff is not None:
        then, now = both(source, chosen, load_settings(Path(diff)), seed)
        return show_differences(differences(then, now), as_json=as_json)
    remarks: list[str] = []
    heard = HeardSource(source=source_for(source, chosen, seed=seed, speed=pace, say=remarks.append))
    given = paced(heard, pace, time.monotonic, time.sleep)
    at_once = ROWS_AT_ONCE if pace is None else 0
    tally = with_progress(given, lambda show: replayed(given, chosen, show, rows_at_once=at_once), quiet=as_json)
    if as_json:
        print_json({**replay_document(tally), "remarks": remarks, "refused": heard.refusals()})
    else:
        show_tally(tally, title="; ".join(remarks), refused=heard.refusals())
    return FOUND_SOMETHING if needs_person(tally) else 0


def both(spec: str, settings: Settings, other: Settings, seed: int | None) -> tuple[Rejudged, Rejudged]:
    """What either settings make of a source: in one pass, unless they read its names differently."""
    if settings.identity != other.identity:
        one, two = (rejudge(source_for(spec, settings, seed=seed), each) for each in (settings, other))
        return one, two
    with reported(plain=False) as progress:
        passed = pass_over([source_for(spec, settings, seed=seed)], settings, other, EPOCH, progress)
    assert passed.before is not None, "two settings were given"
    return passed.before, passed.after


def needs_person(tally: Tally) -> bool:
    return any(incident.severity != "info" for incident in fired(tally))


def fired(tally: Tally) -> list[Incident]:
    """Incidents that fired, by when; a suspect that came to nothing is not one."""
    return counterfactual.fired(tally.incidents.values())


def replay_document(tally: Tally) -> dict[str, Any]:
    """What `replay --json` gives (design.md section 8)."""
    return {
        "incidents": [incident_document(incident, tally.actions) for incident in fired(tally)],
        "rows": dict(tally.rows),
        "quarantined": tally.quarantined,
        "late": tally.late,
        "ignored_columns": dict(tally.ignored),
        "stream_seconds": tally.stream_seconds,
        "elapsed_seconds": tally.elapsed_seconds,
    }


def show_tally(
    tally: Tally, title: str = "", refused: Sequence[Mapping[str, Any]] = (), enforcing: RecoverySettings | None = None
) -> None:
    """refused: as of HeardSource. enforcing: the settings where actions are carried out; None for a replay."""
    screen = console()
    if title:
        screen.print(title, markup=False)
    incidents = fired(tally)
    screen.print(incidents_table(incidents) if incidents else "No incidents.")
    actions = [record for record in tally.actions if record.request.incident in tally.incidents]
    if actions:
        screen.print(actions_table(actions))
    if enforcing is not None and (count := rehearsed(actions, enforcing)):
        screen.print(rehearsed_line(count, enforcing))
    if refused:
        title = (
            "Refused, with the first of each" if enforcing is None else "Refused (hotspare quarantine shows every row)"
        )
        screen.print(table(title, REFUSAL_HEADS, ([row[head] for head in REFUSAL_HEADS] for row in refused)))
    screen.print(
        f"{sum(tally.rows.values()):,} rows of {len(tally.rows)} tables, {tally.findings} findings, "
        f"{tally.quarantined} quarantined, {tally.late} late; "
        f"{tally.stream_seconds:.0f} s of cluster time in {tally.elapsed_seconds:.1f} s"
    )


def show_differences(found: Sequence[Difference], *, as_json: bool) -> int:
    """What the other settings change, and because of which finding. Exit 1 when anything does."""
    if as_json:
        print_json({"differences": [vars(one) for one in found]})
    elif found:
        heads = ("change", "cause", "root", "before", "after", "because of")
        rows = ((one.change, one.cause, some(one.roots), one.before, one.after, one.finding) for one in found)
        console().print(table("Differences", heads, rows))
    else:
        console().print("The same incidents and actions with both settings.")
    return FOUND_SOMETHING if found else 0
