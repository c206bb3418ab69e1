"""hotspare demo: the main job in one go, on this machine, with nothing else."""

import sys
import time
from pathlib import Path

from pipelines.cli.output import AsJson, SettingsFile, actions_table, console, incidents_table, print_json
from pipelines.cli.replay import fired, replay_document
from pipelines.cli.session import progress_bar, settings_at

SETTINGS = Path("var/demo.toml")


def demo(settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Replay an incident day of 1,024 GPUs through the Dagster assets into DuckDB; show incidents and actions."""
    from pipelines.demo import (  # noqa: PLC0415  Dagster takes a second to import; only this command needs it
        OPERATIONS,
        TELEMETRY,
        run_demo,
        span_seconds,
    )

    screen = console()
    if not as_json:
        screen.print("An incident day of one pod (1,024 GPUs) goes through the Dagster assets into DuckDB ...")
    started = time.monotonic()
    with progress_bar(span_seconds(), quiet=as_json) as show:
        tally = run_demo(settings_at(settings), show)
    SETTINGS.write_text(f'[store]\ntelemetry = "{TELEMETRY}"\noperations = "{OPERATIONS}"\n')
    if as_json:
        print_json({**replay_document(tally), "telemetry": str(TELEMETRY), "operations": str(OPERATIONS)})
        return 0
    incidents = fired(tally)
    refused = sum(record.outcome == "refused" for record in tally.actions)
    screen.print(incidents_table(incidents))
    screen.print(actions_table(tally.actions))
    screen.print(
        f"{sum(tally.rows.values()):,} rows of {len(tally.rows)} tables, {tally.quarantined} quarantined; "
        f"{tally.stream_seconds / 60:.0f} min of cluster time in {time.monotonic() - started:.1f} s; "
        f"{len(tally.actions)} actions planned, {refused} of them refused by the guard"
    )
    screen.print(f"\nDuckDB file: {TELEMETRY}\nTry next:")
    here = Path(sys.argv[0]).absolute()
    command = str(here.relative_to(Path.cwd())) if here.is_relative_to(Path.cwd()) else "hotspare"
    if incidents:
        worst = max(incidents, key=lambda incident: len(incident.members))
        screen.print(f"  {command} incidents show {worst.id} --settings {SETTINGS}", markup=False)
    screen.print(f"  {command} replay pdu_cascade", markup=False)
    screen.print("  make ui")
    return 0
