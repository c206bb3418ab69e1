"""hotspare incidents, actions, breaker: what is wrong, what was or would be done, and what people say to it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, get_args

import typer

from pipelines.cli.events import event_document, events_table
from pipelines.cli.output import (
    AsJson,
    Refused,
    SettingsFile,
    action_document,
    actions_table,
    console,
    cut,
    incident_document,
    incidents_table,
    moment,
    print_json,
    rehearsed,
    rehearsed_line,
    table,
)
from pipelines.cli.people import By, Comment, Name, incident_named, person, said, saying
from pipelines.cli.phases import phases_document, phases_table
from pipelines.cli.session import operations_store, settings_at, telemetry_store
from pipelines.cli.silences import add_silence
from pipelines.cli.watch import SERVER, watch_incidents
from pipelines.cli.words import known
from pipelines.failure_map import returning
from pipelines.operations_records import Remark
from pipelines.operations_store import OperationsStore
from pipelines.operations_verdicts import Verdicts
from pipelines.outside_events import OutsideEvent, near
from pipelines.recovery.ledger import Ledger
from pipelines.recovery.spares import returned
from pipelines.settings import Settings
from pipelines.telemetry_store import StoreUnavailable
from schemas.action import ActionRecord
from schemas.causes import CAUSE_BY_NAME
from schemas.incident import Incident, State

Action = Annotated[str, typer.Argument(help="Action id.")]

incidents = typer.Typer(
    no_args_is_help=True, help="What is wrong: list, show, acknowledge, note, judge, silence, export."
)
actions = typer.Typer(
    no_args_is_help=True, help="What recovery did or would do: list, approve, reject, cancel, returned."
)
breaker = typer.Typer(no_args_is_help=True, help="The breaker that stops all automation: show, reset.")


@incidents.command("list")
def list_incidents(
    state: Annotated[list[str] | None, typer.Option(help=f"Any of: {', '.join(get_args(State))}.")] = None,
    cause: Annotated[list[str] | None, typer.Option(help="Only these causes.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")] = 50,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and show what changes, from `hotspare serve`.")] = False,
    server: Annotated[str, typer.Option(help="With --watch: the console of `hotspare serve`.")] = SERVER,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Newest first."""
    states = [known(word, get_args(State), "--state") for word in state or ()]
    causes = [known(word, tuple(CAUSE_BY_NAME), "--cause") for word in cause or ()]
    if watch:
        return watch_incidents(server, states, causes, as_json=as_json)
    store = operations_store(settings_at(settings), create=False)
    found = store.incidents(states=states or None, causes=causes or None, limit=limit)
    if as_json:
        print_json({"incidents": [incident_document(incident) for incident in found]})
    else:
        console().print(incidents_table(found) if found else "No incidents.")
    return 0


@incidents.command("show")
def show_incident(name: Name, settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """One incident with its evidence, members, actions and what people said."""
    chosen = settings_at(settings)
    store = operations_store(chosen)
    incident = incident_named(store, name)
    taken = Ledger(store).actions(incident=incident.id, limit=None)
    remarks = sorted((*store.remarks(incident.id), *_votes(store, taken)), key=lambda one: one.at)
    events, unread = _events(chosen, incident)
    if as_json:
        said = [{"at": one.at, "by": one.by, "kind": one.kind, "text": one.text} for one in remarks]
        timers = phases_document(incident, taken, datetime.now(UTC))
        outside = [event_document(one) for one in events]
        print_json({**incident_document(incident, taken), "phases": timers, "remarks": said, "outside_events": outside})
        return 0
    screen = console()
    screen.print(incidents_table([incident]))
    _print_list("Root", [f"{incident.root_kind} {root}" for root in incident.roots])
    _print_list("GPUs", list(incident.members))
    _print_list("Symptoms", [f"{kind} {entity}" for kind, entity in incident.symptoms])
    rows = (
        (one.get("detector"), one.get("entity"), one.get("code"), _values(one.get("values")))
        for one in incident.evidence
    )
    screen.print(table("Evidence", ("detector", "entity", "code", "values"), rows))
    if taken:
        screen.print(actions_table(sorted(taken, key=lambda one: one.at), when=True))
        if count := rehearsed(taken, chosen.recovery):
            screen.print(rehearsed_line(count, chosen.recovery))
        back = returning(store, chosen.recovery, datetime.now(UTC))
        if out := [(one.request.target, back[one.request.id]) for one in taken if one.request.id in back]:
            screen.print(table("Returns (UTC)", ("target", "when"), out))
        if timed := phases_table(incident, taken, datetime.now(UTC)):
            screen.print(timed)
    if remarks:
        said_rows = ((moment(one.at), one.by, one.kind, one.text) for one in remarks)
        screen.print(table("What people said", ("at", "by", "kind", "text"), said_rows))
    if events:
        screen.print(events_table(events))
    if unread:
        screen.print(unread)
    return 0


def _votes(store: OperationsStore, taken: Sequence[ActionRecord]) -> Iterator[Remark]:
    """What people said to its actions."""
    kinds = {one.request.id: one.request.kind for one in taken}
    for action, answers in Ledger(store).approvals(kinds).items():
        for one in answers:
            yield Remark(one.at, one.by, f"{one.verdict} {kinds[action]}", one.comment)


def _events(settings: Settings, incident: Incident) -> tuple[tuple[OutsideEvent, ...], str]:
    """Outside events of the incident, or why they are not known: an incident is shown whoever holds the other store."""
    try:
        return near(telemetry_store(settings), incident, datetime.now(UTC)), ""
    except StoreUnavailable as error:
        return (), f"Outside events were not read: {error}" if settings.store.telemetry.exists() else ""


@incidents.command("ack")
def acknowledge(
    name: Name, by: By = "", comment: Comment = "", settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:  # fmt: skip
    """Say that somebody has seen it."""
    store = operations_store(settings_at(settings))
    incident = saying(lambda: store.acknowledge(incident_named(store, name).id, person(by), comment, datetime.now(UTC)))
    stands = "" if incident.state == "acknowledged" else f"; it is {incident.state}"
    return said(
        f"{incident.id} acknowledged by {person(by)}{stands}",
        {"id": incident.id, "state": incident.state},
        as_json=as_json,
    )


@incidents.command("note")
def note(name: Name, text: str, by: By = "", settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Add a note to its timeline."""
    if not text.strip():
        raise Refused("a note needs a text")
    store = operations_store(settings_at(settings))
    saying(lambda: store.note(incident_named(store, name).id, person(by), text, datetime.now(UTC)))
    return said(f"noted by {person(by)}", {"noted": text}, as_json=as_json)


@incidents.command("verdict")
def verdict(
    name: Name,
    word: Annotated[str, typer.Argument(metavar="true|false", help="Whether there was something.")],
    why: Annotated[str, typer.Option("--why", "-m", help="How that is known.")] = "",
    by: By = "", settings: SettingsFile = None, as_json: AsJson = False,
) -> int:  # fmt: skip
    """Say afterwards whether it was one: what `hotspare backtest` counts as true. The last word holds."""
    is_true = known(word.lower(), ("true", "false"), "verdict") == "true"
    store = operations_store(settings_at(settings))
    incident = saying(
        lambda: Verdicts(store).judge(
            incident_named(store, name).id, person(by), why, datetime.now(UTC), is_true=is_true
        )
    )
    document = {"id": incident.id, "true": is_true, "by": person(by), "why": why}
    return said(f"{incident.id} judged {word.lower()} by {person(by)}", document, as_json=as_json)


incidents.command("silence")(add_silence)


@actions.command("list")
def list_actions(
    incident: Annotated[str | None, typer.Option(help="Only of this incident.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")] = 50,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Newest first."""
    chosen = settings_at(settings)
    store = operations_store(chosen, create=False)
    identity = None if incident is None else incident_named(store, incident).id
    found = Ledger(store).actions(incident=identity, limit=limit)
    if as_json:
        print_json({"actions": [{"incident": one.request.incident, **action_document(one)} for one in found]})
        return 0
    console().print(actions_table(found, when=True) if found else "No actions.")
    if count := rehearsed(found, chosen.recovery):
        console().print(rehearsed_line(count, chosen.recovery))
    return 0


@actions.command("approve")
def approve(
    action: Action, by: By = "", comment: Comment = "", settings: SettingsFile = None, as_json: AsJson = False
) -> int:
    """Agree to an action that waits for it or will be due; it is carried out when enough people have."""
    chosen = settings_at(settings)
    ledger = Ledger(operations_store(chosen))
    record = saying(lambda: ledger.answer(action, person(by), comment, datetime.now(UTC), verdict="approved"))
    agreed = {one.by.casefold() for one in ledger.approvals([action])[action] if one.verdict == "approved"}
    needed = chosen.recovery.approvals.get(record.request.kind, 0)
    then = "it waits for somebody else too" if len(agreed) < needed else "done in the next turn of serve or ingest"
    if record.outcome == "scheduled":
        then = f"it counts when the action is due: {record.why}"
    text = f"{action} approved by {person(by)}: {len(agreed)} of {needed} people; {then}"
    return said(text, action_document(record), as_json=as_json)


@actions.command("reject")
def reject(
    action: Action, by: By = "", comment: Comment = "", settings: SettingsFile = None, as_json: AsJson = False
) -> int:
    """Refuse an action that waits for approval or will be due, for good."""
    store = operations_store(settings_at(settings))
    record = saying(lambda: Ledger(store).answer(action, person(by), comment, datetime.now(UTC), verdict="rejected"))
    return _answered(record, "rejected", by, as_json=as_json)


@actions.command("cancel")
def cancel(
    action: Action, by: By = "", comment: Comment = "", settings: SettingsFile = None, as_json: AsJson = False
) -> int:
    """Take an action that has not begun off the list, for good."""
    store = operations_store(settings_at(settings))
    record = saying(lambda: Ledger(store).cancel(action, person(by), comment, datetime.now(UTC)))
    return _answered(record, "cancelled", by, as_json=as_json)


@actions.command("returned")
def say_returned(
    target: Annotated[str, typer.Argument(help="Node or port, e.g. n00012 or leaf-017:12; or a spare.")],
    by: By = "", comment: Comment = "", settings: SettingsFile = None, as_json: AsJson = False,
) -> int:  # fmt: skip
    """Say that a person has put it back to work, or a spare back to waiting: it counts as out no longer."""
    store = operations_store(settings_at(settings))
    record = saying(lambda: returned(store, target, person(by), comment, datetime.now(UTC)))
    return said(f"{target} is back, says {person(by)}", action_document(record), as_json=as_json)


@breaker.command("show")
def show_breaker(settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Whether automation is stopped, since when and why."""
    state = operations_store(settings_at(settings)).breaker()
    document = {"tripped": state.tripped, "at": state.at, "by": state.by, "reason": state.reason}
    word = "tripped: no automatic action is taken" if state.tripped else "closed: automation may act"
    return said(
        f"{word}{f' ({cut(state.reason)}, {state.by}, {moment(state.at)} UTC)' if state.at else ''}",
        document,
        as_json=as_json,
    )


@breaker.command("reset")
def reset_breaker(
    reason: Annotated[str, typer.Option("--reason", help="Why it is safe again.")],
    by: By = "", settings: SettingsFile = None, as_json: AsJson = False,
) -> int:  # fmt: skip
    """Let automation act again. Only a person does this."""
    store = operations_store(settings_at(settings))
    saying(lambda: store.reset_breaker(person(by), reason, datetime.now(UTC)))
    return said(f"reset by {person(by)}", {"tripped": False, "by": person(by), "reason": reason}, as_json=as_json)


def _answered(record: ActionRecord, word: str, by: str, *, as_json: bool) -> int:
    return said(
        f"{record.request.id} {word} by {person(by)}; it is {record.outcome}", action_document(record), as_json=as_json
    )


def _values(values: object) -> str:
    """What a detector saw, as name value pairs; numbers as short as they stay true."""
    if not isinstance(values, dict):
        return "" if values is None else str(values)
    shown = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in values.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items() if value is not None)


def _print_list(title: str, values: Sequence[str], most: int = 16) -> None:
    if values:
        rest = f" and {len(values) - most} more" if len(values) > most else ""
        console().print(f"{title}: {', '.join(values[:most])}{rest}", markup=False)
