"""hotspare simulate --closed-loop MIX: the same failures met by people alone and by recovery."""

from typing import Any

from pipelines.cli.output import Refused, console, print_json
from pipelines.closed_loop import Assumptions, Outcome, closed_loop
from pipelines.closed_loop_report import as_markdown, summary
from pipelines.settings import Settings
from replay.closed_loop import MIXES
from schemas.topology_presets import build

SPARE_NODES = 16  # 128 GPUs, of the reference cluster


def run_closed_loop(name: str, seeds: int, days: float, settings: Settings, *, as_json: bool) -> int:
    """Every seed through every arm, on the reference cluster of 24,576 GPUs."""
    mix = next((one for one in MIXES if one.name == name), None)
    if mix is None:
        raise Refused(f"--closed-loop {name}: known are {', '.join(one.name for one in MIXES)}")
    topology, assumed = build("ndr-fat-tree", spare_nodes=SPARE_NODES), Assumptions()
    outcomes: list[Outcome] = []
    for seed in range(1, seeds + 1):
        outcomes += closed_loop(mix, topology, days, seed, settings.capacity, assumed)
    if as_json:
        document: dict[str, Any] = {
            "mix": mix.name,
            "days": days,
            "arms": summary(outcomes),
            "outcomes": [vars(one) for one in outcomes],
        }
        print_json(document)
    else:
        console().print(as_markdown(mix, topology, days, outcomes, settings.capacity, assumed), markup=False)
    return 0
