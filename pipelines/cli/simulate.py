"""hotspare simulate: a scenario's telemetry into Kafka, or into a recording folder with its labels."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.cli.closed_loop import run_closed_loop
from pipelines.cli.output import AsJson, Refused, SettingsFile, console, print_json
from pipelines.cli.session import settings_at
from pipelines.sources.kafka_sink import send
from replay.recording import meta_of, write_recording
from replay.scenario import load_scenario
from replay.simulate import Window, labels, simulate, topology_of


def run_simulation(
    scenario: Annotated[str, typer.Argument(help="Scenario name or .toml file.")] = "",
    to: Annotated[str, typer.Option("--to", help="kafka, or the folder of a recording to be made.")] = "",
    closed_loop: Annotated[
        str, typer.Option(help="Instead: days of failures of this mix, with and without recovery (llama3, seed).")
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Of the closed loop.")] = 3,
    days: Annotated[float, typer.Option(min=0.01, max=365, help="Of the closed loop.")] = 1.0,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Simulate a scenario. The same seed gives the same rows."""
    chosen = settings_at(settings)
    if closed_loop:
        return run_closed_loop(closed_loop, seeds, days, chosen, as_json=as_json)
    if not scenario or not to:
        raise Refused("simulate: give a scenario and --to kafka or a folder, or --closed-loop llama3")
    loaded = load_scenario(scenario)
    topology = topology_of(loaded)
    windows = simulate(loaded, topology)
    if to == "kafka":
        messages = send(windows, topology, chosen.kafka, lambda window, count: _say(window, count, quiet=as_json))
        document: dict[str, Any] = {"scenario": loaded.name, "to": chosen.kafka.bootstrap_servers, "messages": messages}
        text = f"{messages:,} messages of {loaded.name} sent to {chosen.kafka.bootstrap_servers}"
    else:
        folder = Path(to)
        rows = write_recording(folder, windows, topology, meta_of(loaded, topology), labels(loaded, topology))
        document = {"scenario": loaded.name, "to": str(folder), "rows": rows}
        text = f"{loaded.name} recorded in {folder}; try: hotspare replay {folder}"
    if as_json:
        print_json(document)
    else:
        console().print(text)
    return 0


def _say(window: Window, count: int, *, quiet: bool) -> None:
    if not quiet and console().is_terminal:
        console().print(f"{window.ends_at:%H:%M:%S}  {count:,} messages")
