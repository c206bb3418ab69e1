"""hotspare topology: show, check, export, path."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.output import FOUND_SOMETHING, AsJson, Refused, SettingsFile, console, print_json, table
from pipelines.cli.session import settings_at
from pipelines.settings import Settings, TopologySettings
from pipelines.sources.choose import topology_of
from schemas.formats.topology_csv import encode_aliases, encode_links, encode_nodes
from schemas.topology import Topology
from schemas.topology_parameters import FabricParameters
from schemas.topology_paths import bisection_gbps, oversubscription_by_tier
from schemas.topology_paths import path as path_between
from schemas.topology_presets import PRESETS, parameters_of
from schemas.topology_validation import check as contradictions

topology = typer.Typer(no_args_is_help=True, help="The cluster as data: show, check, export, path.")
Which = Annotated[
    str | None,
    typer.Argument(
        help="Preset, folder with nodes.csv and links.csv, or ibnetdiscover output; default: the settings'."
    ),
]


@topology.command("show")
def show(which: Which = None, settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Sizes, failure domains, bisection and oversubscription."""
    found = _chosen(which, settings_at(settings))
    bisection = bisection_gbps(found)
    facts = {
        "name": found.name,
        "nodes": found.nodes.height,
        "gpus": found.nodes.height * found.gpus_per_node,
        "switches": len(found.switches),
        "links": found.links.height,
        **{
            f"{column}s": found.nodes[column].drop_nulls().n_unique()
            for column in ("superblock", "pod", "pdu", "cdu", "rack")
        },
        "bisection_terabits_per_second": None if bisection is None else round(bisection / 1000, 1),
        "oversubscription": {tier: round(ratio, 3) for tier, ratio in oversubscription_by_tier(found).items()},
    }
    if as_json:
        print_json(facts)
    else:
        console().print(table("Topology", ("what", "value"), facts.items()))
    return 0


@topology.command("check")
def check(which: Which = None, settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """What in it cannot be cabled, or contradicts itself, with the arithmetic. Exit 1 when there is anything."""
    chosen = settings_at(settings)
    if which in PRESETS or (which is None and chosen.topology.folder is None and chosen.topology.ibnetdiscover is None):
        parameters = {} if which else chosen.topology.parameters
        found = contradictions(_parameters(which or chosen.topology.preset, parameters))
    else:
        found = contradictions(_chosen(which, chosen))
    if as_json:
        print_json({"contradictions": [vars(one) for one in found]})
    elif found:
        console().print(
            table(
                "Contradictions",
                ("severity", "what", "arithmetic"),
                ((c.severity, c.what, c.arithmetic) for c in found),
            )
        )
    else:
        console().print("Nothing contradicts itself.")
    return FOUND_SOMETHING if any(one.severity != "note" for one in found) else 0


@topology.command("export")
def export(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")],
    which: Which = None, settings: SettingsFile = None, as_json: AsJson = False,
) -> int:  # fmt: skip
    """Write nodes.csv and links.csv, and aliases.csv where other names are known (GUIDs of ibnetdiscover)."""
    found = _chosen(which, settings_at(settings))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nodes.csv").write_text(encode_nodes(found.nodes))
    (folder / "links.csv").write_text(encode_links(found.links))
    if not found.aliases.is_empty():
        (folder / "aliases.csv").write_text(encode_aliases(found.aliases))
    if as_json:
        print_json({"folder": str(folder), "nodes": found.nodes.height, "links": found.links.height})
    else:
        console().print(f"{found.nodes.height} nodes and {found.links.height} links written to {folder}")
    return 0


@topology.command("path")
def path(
    gpu_a: Annotated[str, typer.Argument(help="GPU id, e.g. n00012/3.")], gpu_b: str, which: Which = None,
    settings: SettingsFile = None, as_json: AsJson = False,
) -> int:  # fmt: skip
    """The way between two GPUs, device by device."""
    found = _chosen(which, settings_at(settings))
    try:
        between = path_between(found, gpu_a, gpu_b)
    except (KeyError, ValueError) as error:
        raise Refused(str(error.args[0])) from None
    if as_json:
        print_json({"devices": list(between.devices), "cables": list(between.cables), "hops": between.hops})
    else:
        console().print(f"{' - '.join((gpu_a, *between.devices, gpu_b))}  ({between.hops} hops)", markup=False)
    return 0


def _chosen(which: str | None, settings: Settings) -> Topology:
    if which is None:
        return topology_of(settings)
    place = Path(which)
    if which in PRESETS:
        selected = TopologySettings(preset=which)
    elif place.is_dir():
        selected = TopologySettings(folder=place)
    elif place.exists():
        selected = TopologySettings(ibnetdiscover=place)
    else:
        raise Refused(f"{which}: no preset ({', '.join(PRESETS)}) and no file or folder")
    return topology_of(settings.model_copy(update={"topology": selected}))


def _parameters(preset: str, parameters: dict[str, int | float | str]) -> FabricParameters:
    try:
        return parameters_of(preset, **parameters)
    except (TypeError, ValueError) as error:
        raise Refused(f"topology: {error}") from None
