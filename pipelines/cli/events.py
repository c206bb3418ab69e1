"""hotspare events: what was done to the cluster or around it, for the timelines of incidents: add, list, import."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from fnmatch import filter as fnfilter
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.table import Table as RichTable

from pipelines.cli.output import WRONG_USE, AsJson, Refused, SettingsFile, console, moment, print_json, table
from pipelines.cli.people import By, person
from pipelines.cli.session import settings_at, telemetry_store
from pipelines.cli.words import places_of
from pipelines.outside_events import TABLE, Added, OutsideEvent, add, stored
from pipelines.settings import Settings
from pipelines.sources.choose import topology_of
from pipelines.telemetry_store import TelemetryStore
from pipelines.wording import some
from schemas.formats.decoded import Surroundings
from schemas.formats.json_values import microseconds
from schemas.formats.outside_events import decode
from schemas.outside_event import KINDS
from schemas.topology import Topology, node_of

NOT_IN_A_TOPOLOGY = ("job", "source")
EPOCH, FAR = datetime(1970, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)
Touches = Annotated[
    list[str] | None,
    typer.Option(help="What it touches: an id, an id with *, or kind=id of a domain; may be repeated. Default: all."),
]
events = typer.Typer(no_args_is_help=True, help="Deploys, settings, firmware, works, for timelines: add, list, import.")


@events.command("add")
def add_event(
    title: Annotated[str, typer.Argument(help="What it was, in one line.")],
    kind: Annotated[str, typer.Option(help=f"{', '.join(KINDS)}, or a word of your own.")] = KINDS[0],
    at: Annotated[str, typer.Option(help="When, e.g. 2026-03-02T09:14:00Z; default is now.")] = "",
    until: Annotated[str, typer.Option(help="When it was over.")] = "",
    touches: Touches = None,
    link: Annotated[str, typer.Option(help="Where to read more.")] = "",
    name: Annotated[str, typer.Option("--id", help="Its id; saying one again takes the place of what was said.")] = "",
    by: By = "",
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Say that something was done. It stands in the timelines of incidents that it touches or comes before."""
    now = datetime.now(UTC)
    begins = _instant(at, "--at") or now
    ends = _instant(until, "--until")
    if ends is not None and ends < begins:
        raise Refused("--until lies before --at")
    row = {
        "time": begins, "ends_at": ends, "kind": kind, "title": title, "who": person(by), "touches": touches or None,
        "link": link or None, "id": name or None,
    }  # fmt: skip
    chosen = settings_at(settings)
    store = telemetry_store(chosen)
    if touches:
        _look_for(touches, _topologies(chosen, store, begins))
    done = add(store, pl.DataFrame([row], schema_overrides=dict(TABLE.columns)), now)
    if done.refused.height:
        raise Refused(f"the event breaks the rule {done.refused['rule'][0]}; `hotspare schema outside_event` shows it")
    if as_json:
        print_json({"added": done.new, "event": row})
    else:
        console().print(f"{kind} at {moment(begins)} UTC: {'added' if done.new else 'is there already'}")
    return 0


@events.command("import")
def import_events(
    file: Annotated[
        Path, typer.Argument(help="JSON, JSON lines or CSV: Grafana annotations, or outside_event columns.")
    ],
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Take events from a file; those that are there already are left. Exit 2 when some could not be read."""
    chosen = settings_at(settings)
    if file.stat().st_size > chosen.limits.message_bytes_maximum:
        raise Refused(
            f"{file}: larger than limits.message_bytes_maximum, {chosen.limits.message_bytes_maximum:,} bytes"
        )
    decoded = decode(file.read_bytes(), Surroundings(bytes_maximum=chosen.limits.message_bytes_maximum))
    rows = decoded.tables.get("outside_event")
    done = Added(0, decoded.rejects.clear())
    if rows is not None:
        done = add(telemetry_store(chosen), rows, datetime.now(UTC))
    refused = pl.concat([decoded.rejects, done.refused])["reason"].to_list()
    read = 0 if rows is None else rows.height - done.refused.height
    if as_json:
        print_json({"file": str(file), "added": done.new, "known": read - done.new, "refused": refused})
    else:
        known = f", {read - done.new} were there already" if read > done.new else ""
        console().print(f"{file}: {done.new} events added{known}{f', {len(refused)} refused' if refused else ''}")
        for reason in refused[:10]:
            console().print(f"  refused: {reason}")
    return WRONG_USE if refused else 0


@events.command("list")
def list_events(
    hours: Annotated[float, typer.Option(min=0.01, max=24 * 366 * 10, help="Of the last so many hours.")] = 24.0 * 7,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Oldest first; those announced for later too."""
    now = datetime.now(UTC)
    rows = stored(telemetry_store(settings_at(settings)), now - timedelta(hours=hours), now + timedelta(days=366 * 10))
    if as_json:
        print_json({"events": rows.to_dicts()})
    elif rows.is_empty():
        console().print("No events.")
    else:
        cells = (
            (moment(row["time"]), moment(row["ends_at"]), row["kind"], row["title"], some(row["touches"] or ["all"]),
             row["who"], row["link"])
            for row in rows.iter_rows(named=True)
        )  # fmt: skip
        heads = ("at", "until", "kind", "title", "touches", "who", "link")
        console().print(table("Outside events (UTC)", heads, cells))
    return 0


def events_table(found: Sequence[OutsideEvent]) -> RichTable:
    """Those that belong to an incident."""
    rows = ((moment(one.at), one.text, one.row["who"], one.row["link"]) for one in found)
    return table("Outside events", ("at", "what", "who", "link"), rows)


def event_document(one: OutsideEvent) -> dict[str, Any]:
    return {**one.row, "where": one.where, "seconds_before_onset": one.before.total_seconds()}


def _instant(text: str, option: str) -> datetime | None:
    if not text:
        return None
    since_epoch = microseconds(text)
    if since_epoch is None:
        raise Refused(f"{option} {text!r} is no time; write e.g. 2026-03-02T09:14:00Z")
    return EPOCH + timedelta(microseconds=since_epoch)


def _topologies(settings: Settings, store: TelemetryStore, at: datetime) -> list[Topology]:
    """Of the settings where they name one, and of what the store has taken in, of that day if it has anything of it."""
    found = [topology_of(settings)] if settings.topology.model_fields_set else []
    if settings.store.telemetry.exists():
        day = timedelta(days=1)
        cluster = store.cluster(at - day, at + day) or store.cluster(EPOCH, FAR)
        found += [] if cluster is None else [cluster.topology]
    return found


def _look_for(touches: Sequence[str], topologies: Sequence[Topology]) -> None:
    """An event that touches a mistyped name would stand in no timeline. Raises Refused."""
    places = sorted({place for topology in topologies for place in places_of(topology)})
    for one in touches if places else ():
        kind, _, name = one.rpartition("=")
        hosts = {name, node_of(name), name.rpartition(":")[0]}
        if kind in NOT_IN_A_TOPOLOGY or any(fnfilter(places, host) for host in hosts):
            continue
        close = get_close_matches(name, places, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"a job is written job={name}"
        named = some([topology.name for topology in topologies])
        raise Refused(f"--touches {one}: nothing in topology {named} is called so; {hint}")
