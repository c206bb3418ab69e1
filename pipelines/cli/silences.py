"""hotspare silences: which pages are held back, until when, by whom and why; make one, and end one before its time."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, get_args

import typer

from pipelines.cli.output import AsJson, Refused, SettingsFile, console, moment, print_json, table
from pipelines.cli.people import By, Comment, person, said, saying
from pipelines.cli.session import operations_store, settings_at
from pipelines.cli.words import known
from pipelines.operations_records import MATCHERS, Silence
from schemas.causes import CAUSE_BY_NAME, Kind, Severity

WORDS = {"cause": tuple(CAUSE_BY_NAME), "severity": get_args(Severity), "root_kind": get_args(Kind)}
Matchers = Annotated[list[str], typer.Argument(help=f"name=value; names: {', '.join(MATCHERS)}.")]
Hours = Annotated[float, typer.Option(min=0.01, max=24 * 90, help="For how long.")]

silences = typer.Typer(no_args_is_help=True, help="Pages that are held back: list, add, end.")


@silences.command("list")
def list_silences(settings: SettingsFile = None, as_json: AsJson = False) -> int:
    """Those in force, the first to end first."""
    found = operations_store(settings_at(settings)).silences(datetime.now(UTC))
    if as_json:
        print_json({"silences": [_document(one) for one in found]})
    elif found:
        rows = (
            (one.id, _matchers(one), moment(one.starts_at), moment(one.ends_at), one.by, one.comment) for one in found
        )
        console().print(table("Silences (UTC)", ("id", "matches", "from", "until", "by", "comment"), rows))
    else:
        console().print("No silences.")
    return 0


@silences.command("add")
def add_silence(
    matchers: Matchers, hours: Hours = 4.0, by: By = "", comment: Comment = "", settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:  # fmt: skip
    """No pages for incidents that match all of these, for a while."""
    pairs = [_pair(matcher) for matcher in matchers]
    now = datetime.now(UTC)
    store = operations_store(settings_at(settings))
    made = saying(lambda: store.silence(pairs, now, now + timedelta(hours=hours), person(by), comment))
    return said(
        f"{made.id} until {moment(made.ends_at)} UTC (hotspare silences end {made.id} ends it before)",
        _document(made), as_json=as_json,
    )  # fmt: skip


@silences.command("end")
def end_silence(
    name: Annotated[str, typer.Argument(help="Id of the silence, or as much of it as is unique.")],
    settings: SettingsFile = None, as_json: AsJson = False,
) -> int:  # fmt: skip
    """Let it end now."""
    store, now = operations_store(settings_at(settings)), datetime.now(UTC)
    lasting = store.silences(now)
    short = name.removeprefix("sil-")
    found = [one for one in lasting if short and one.id.startswith(f"sil-{short}")]
    if len(found) != 1:
        why = "fits more than one silence" if found else "is no silence in force"
        names = ", ".join(f"{one.id} ({_matchers(one)})" for one in (found or lasting)[:5]) or "none"
        raise Refused(f"{name!r} {why}; {'candidates' if found else 'in force'}: {names}")
    store.end_silence(found[0].id, now)
    return said(f"{found[0].id} ended ({_matchers(found[0])})", {"id": found[0].id, "ends_at": now}, as_json=as_json)


def _pair(matcher: str) -> tuple[str, str]:
    """Name and value. A word that no incident can have would silence nothing, without anybody's noticing."""
    name, equals, value = matcher.partition("=")
    if not equals:
        raise Refused(f"{matcher!r} is not name=value, e.g. cause=optic_degrading")
    return known(name, MATCHERS, "a silence cannot match on"), (
        known(value, WORDS[name], f"{name}=") if name in WORDS else value
    )


def _matchers(silence: Silence) -> str:
    return " ".join(f"{name}={value}" for name, value in silence.matchers)


def _document(silence: Silence) -> dict[str, Any]:
    return {
        "id": silence.id, "matchers": [{"name": name, "value": value} for name, value in silence.matchers],
        "starts_at": silence.starts_at, "ends_at": silence.ends_at, "by": silence.by, "comment": silence.comment,
    }  # fmt: skip
