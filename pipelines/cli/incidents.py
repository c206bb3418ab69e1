"""hotspare incidents, actions, breaker: what is wrong, what was or would be done, and what people say to it."""

import getpass
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar, get_args

import typer

from pipelines.cli.output import (
    AsJson,
    Refused,
    SettingsFile,
    action_document,
    actions_table,
    console,
    incident_document,
    incidents_table,
    moment,
    print_json,
    table,
)
from pipelines.cli.session import operations_store, settings_at
from pipelines.operations_records import MATCHERS
from pipelines.recovery.ledger import Ledger
from schemas.action import ActionRecord
from schemas.incident import State

Answer = TypeVar("Answer")
By = Annotated[str, typer.Option("--by", help="Who says so; default is the user of this session.")]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Why.")]
Name = Annotated[str, typer.Argument(help="Incident id, or as much of it as is unique.")]
Action = Annotated[str, typer.Argument(help="Action id.")]

incidents = typer.Typer(no_args_is_help=True, help="What is wrong: list, show, acknowledge, note, silence.")
actions = typer.Typer(no_args_is_help=True, help="What recovery did or would do: list, approve, reject.")
breaker = typer.Typer(no_args_is_help=True, help="The breaker that stops all automation: show, reset.")


@incidents.command("list")
def list_incidents(
    state: Annotated[list[str] | None, typer.Option(help=f"Any of: {', '.join(get_args(State))}.")] = None,
    cause: Annotated[list[str] | None, typer.Option(help="Only these causes.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")] = 50,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Newest first."""
    states = [word for word in get_args(State) if word in (state or ())]
    unknown = set(state or ()) - set(states)
    if unknown:
        raise Refused(f"--state {min(unknown)}: known are {', '.join(get_args(State))}")
    store = operations_store(settings_at(settings))
    found = store.incidents(states=states or None, causes=cause or None, limit=limit)
    if as_json:
        print_json({"incidents": [incident_document(incident) for incident in found]})
    else:
        console().print(incidents_table(found) if found else "No incidents.")
    return 0


@incidents.command("show")
def show_incident(name: Name, settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """One incident with its evidence, members, actions and what people said."""
    store = operations_store(settings_at(settings))
    incident = store.incident(name)
    taken = Ledger(store).actions(incident=incident.id, limit=None)
    remarks = store.remarks(incident.id)
    if as_json:
        said = [{"at": one.at, "by": one.by, "kind": one.kind, "text": one.text} for one in remarks]
        print_json({**incident_document(incident, taken), "remarks": said})
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
        screen.print(actions_table(sorted(taken, key=lambda one: one.at)))
    if remarks:
        said_rows = ((moment(one.at), one.by, one.kind, one.text) for one in remarks)
        screen.print(table("What people said", ("at", "by", "kind", "text"), said_rows))
    return 0


@incidents.command("ack")
def acknowledge(
    name: Name, by: By = "", comment: Comment = "", settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:  # fmt: skip
    """Say that somebody has seen it."""
    store = operations_store(settings_at(settings))
    incident = _saying(lambda: store.acknowledge(name, _person(by), comment, datetime.now(UTC)))
    return _said(
        f"{incident.id} {incident.state} by {_person(by)}",
        {"id": incident.id, "state": incident.state},
        as_json=as_json,
    )


@incidents.command("note")
def note(name: Name, text: str, by: By = "", settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Add a note to its timeline."""
    store = operations_store(settings_at(settings))
    _saying(lambda: store.note(name, _person(by), text, datetime.now(UTC)))
    return _said(f"noted by {_person(by)}", {"noted": text}, as_json=as_json)


@incidents.command("silence")
def silence(
    matchers: Annotated[list[str], typer.Argument(help=f"name=value; names: {', '.join(MATCHERS)}.")],
    hours: Annotated[float, typer.Option(min=0.01, max=24 * 90, help="For how long.")] = 4.0,
    by: By = "", comment: Comment = "", settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:  # fmt: skip
    """No pages for incidents that match all of these, for a while."""
    pairs = [tuple(matcher.split("=", 1)) for matcher in matchers]
    wrong = [matcher for matcher in matchers if "=" not in matcher]
    if wrong:
        raise Refused(f"{wrong[0]!r} is not name=value, e.g. cause=optic_degrading")
    now = datetime.now(UTC)
    store = operations_store(settings_at(settings))
    made = _saying(
        lambda: store.silence(
            [(name, value) for name, value in pairs], now, now + timedelta(hours=hours), _person(by), comment
        )
    )
    return _said(
        f"{made.id} until {moment(made.ends_at)} UTC", {"id": made.id, "ends_at": made.ends_at}, as_json=as_json
    )


@actions.command("list")
def list_actions(
    incident: Annotated[str | None, typer.Option(help="Only of this incident.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")] = 50,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """Newest first."""
    store = operations_store(settings_at(settings))
    identity = None if incident is None else store.incident(incident).id
    found = Ledger(store).actions(incident=identity, limit=limit)
    if as_json:
        print_json({"actions": [{"incident": one.request.incident, **action_document(one)} for one in found]})
    else:
        console().print(actions_table(found) if found else "No actions.")
    return 0


@actions.command("approve")
def approve(
    action: Action, by: By = "", comment: Comment = "", settings: SettingsFile = None, as_json: AsJson = False
) -> int:
    """Agree to an action that waits for it; it is carried out when enough people have."""
    store = operations_store(settings_at(settings))
    record = _saying(lambda: Ledger(store).answer(action, _person(by), comment, datetime.now(UTC), verdict="approved"))
    return _answered(record, "approved", by, as_json=as_json)


@actions.command("reject")
def reject(
    action: Action, by: By = "", comment: Comment = "", settings: SettingsFile = None, as_json: AsJson = False
) -> int:
    """Refuse an action that waits for approval, for good."""
    store = operations_store(settings_at(settings))
    record = _saying(lambda: Ledger(store).answer(action, _person(by), comment, datetime.now(UTC), verdict="rejected"))
    return _answered(record, "rejected", by, as_json=as_json)


@breaker.command("show")
def show_breaker(settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Whether automation is stopped, since when and why."""
    state = operations_store(settings_at(settings)).breaker()
    document = {"tripped": state.tripped, "at": state.at, "by": state.by, "reason": state.reason}
    word = "tripped: no automatic action is taken" if state.tripped else "closed: automation may act"
    return _said(
        f"{word}{f' ({state.reason}, {state.by}, {moment(state.at)} UTC)' if state.at else ''}",
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
    _saying(lambda: store.reset_breaker(_person(by), reason, datetime.now(UTC)))
    return _said(f"reset by {_person(by)}", {"tripped": False, "by": _person(by), "reason": reason}, as_json=as_json)


def _saying(say: Callable[[], Answer]) -> Answer:
    """What a person says can be wrong use: an unknown name is one, an empty one too."""
    try:
        return say()
    except ValueError as error:
        raise Refused(str(error)) from None


def _person(by: str) -> str:
    return by or getpass.getuser()


def _answered(record: ActionRecord, word: str, by: str, *, as_json: bool) -> int:
    return _said(
        f"{record.request.id} {word} by {_person(by)}; it is {record.outcome}", action_document(record), as_json=as_json
    )


def _said(text: str, document: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        print_json(document)
    else:
        console().print(text)
    return 0


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
