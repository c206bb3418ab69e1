"""hotspare demo: the main job in one go, on this machine, with nothing else."""

from pipelines.cli.output import AsJson, SettingsFile, actions_table, console, incidents_table, print_json
from pipelines.cli.replay import fired, replay_document
from pipelines.cli.session import progress_bar, settings_at

SCENARIO = "incident_day"


def demo(settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Replay an incident day of 1,024 GPUs through the Dagster assets into DuckDB; show incidents and actions."""
    from pipelines.demo import run_demo  # noqa: PLC0415  Dagster takes a second to import; only this command needs it

    screen = console()
    if not as_json:
        screen.print("A pod of 1,024 GPUs is simulated and goes through the Dagster assets into DuckDB ...")
    with progress_bar(quiet=as_json) as show:
        result = run_demo(settings_at(settings), show)
    incidents = fired(result.tally)
    if as_json:
        print_json(
            {**replay_document(result.tally), "telemetry": str(result.telemetry), "operations": str(result.operations)}
        )
        return 0
    screen.print(incidents_table(incidents))
    screen.print(actions_table([record for record in result.tally.actions if record.outcome != "refused"]))
    refused = sum(record.outcome == "refused" for record in result.tally.actions)
    tally = result.tally
    screen.print(
        f"{sum(tally.rows.values()):,} rows of {len(tally.rows)} tables, {tally.quarantined} quarantined; "
        f"{tally.stream_seconds / 60:.0f} min of cluster time in {result.elapsed_seconds:.1f} s; "
        f"{len(tally.actions)} actions, {refused} of them refused by the guard"
    )
    screen.print(f"\nDuckDB file: {result.telemetry}\nTry next:")
    if incidents:
        screen.print(f"  hotspare incidents show {incidents[0].id} --settings {result.settings}", markup=False)
    screen.print("  hotspare replay pdu_cascade    one scenario alone")
    screen.print("  make ui                        the Dagster UI on a live simulated stream")
    return 0
