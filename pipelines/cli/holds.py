"""hotspare holds: what people have in hand, so that automation keeps off it."""

import getpass
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from pipelines.cli.output import AsJson, Refused, SettingsFile, console, moment, print_json, table
from pipelines.cli.session import operations_store, settings_at
from pipelines.cli.words import places_of
from pipelines.operations_holds import Holds
from pipelines.operations_jobs import Jobs
from pipelines.sources.choose import topology_of
from schemas.topology import Topology, node_of

Target = Annotated[str, typer.Argument(help="Node, GPU, port, link, switch, or a whole CDU, PDU, superblock or pod.")]
holds = typer.Typer(no_args_is_help=True, help="Hands off: what people work on themselves: list, set, release.")


@holds.command("list")
def list_holds(settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Those in force now."""
    found = Holds(operations_store(settings_at(settings))).in_force(datetime.now(UTC))
    if as_json:
        print_json({"holds": [vars(hold) for hold in found]})
    elif found:
        rows = ((one.target, one.by, moment(one.starts_at), moment(one.ends_at), one.comment) for one in found)
        console().print(table("Held by people (UTC)", ("target", "by", "since", "until", "why"), rows))
    else:
        console().print("Nothing is held.")
    return 0


@holds.command("set")
def set_hold(
    target: Target,
    hours: Annotated[float, typer.Option(min=0.01, max=24 * 90, help="For how long.")] = 8.0,
    by: Annotated[str, typer.Option("--by", help="Who; default is the user of this session.")] = "",
    comment: Annotated[str, typer.Option("--comment", "-m", help="Why.")] = "",
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """From now on automation does nothing to it and does not bring it back; what was planned is refused."""
    chosen = settings_at(settings)
    now, store = datetime.now(UTC), operations_store(chosen)
    _known(target, topology_of(chosen), Jobs(store).running())
    try:
        made = Holds(store).hold(target, now, now + timedelta(hours=hours), by or getpass.getuser(), comment)
    except ValueError as error:
        raise Refused(str(error)) from None
    if as_json:
        print_json(vars(made))
    else:
        console().print(f"{made.target} is held by {made.by} until {moment(made.ends_at)} UTC")
    return 0


@holds.command("release")
def release(target: Target, settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Automation may act on it again."""
    released = Holds(operations_store(settings_at(settings))).release(target, datetime.now(UTC))
    if as_json:
        print_json({"target": target, "released": released})
    else:
        others = f", nor is what its window covered ({released - 1} more)" if released > 1 else ""
        console().print(f"{target} is no longer held{others}")
    return 0


def _known(target: str, topology: Topology, jobs: Iterable[str]) -> None:
    """A hold on a mistyped name would hold nothing off. Raises Refused."""
    places = {*places_of(topology), *jobs}
    gpus = topology.gpus_of_node(node_of(target)) if node_of(target) in topology.node_rows else ()
    if target.strip() and not {target, target.rpartition(":")[0]} & {*places, *gpus}:
        raise Refused(f"{target!r} is nothing in topology {topology.name} and no running job: nothing was held")
