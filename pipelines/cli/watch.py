"""hotspare incidents list --watch: what is wrong just now, as a running `hotspare serve` says it.

On a terminal one view that stays up to date; elsewhere a line for everything that changes, so that it can be piped.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import msgspec
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from pipelines.cli.output import Refused, console, table
from pipelines.wording import printable, some

SERVER = "http://127.0.0.1:8080"
EVERY_SECONDS = 1.0
ANSWER_SECONDS = 5.0
RESOLVED_SHOWN = 10
COLOURS = {"page": "bold red", "ticket": "yellow"}


class Root(msgspec.Struct, frozen=True):
    kind: str
    ids: list[str]


class Row(msgspec.Struct, frozen=True):
    """An incident as the server lists it."""

    id: str
    cause: str
    severity: str
    state: str
    root: Root
    members: list[str]
    starts_at: datetime
    detected_at: datetime
    ends_at: datetime | None


class Serve(msgspec.Struct, frozen=True):
    """How the server does."""

    ready: bool
    trouble: str | None
    held: str | None
    now: datetime | None
    behind_seconds: float | None
    rows: int
    unwritten_rows: int
    lag_messages: dict[str, int]


class Answer(msgspec.Struct, frozen=True):
    serve: Serve
    incidents: list[Row]


def asked(server: str) -> Answer:
    """Raises Refused where nobody answers, or somebody else."""
    import httpx  # noqa: PLC0415  # costs every command a fifth of a second, and few need it

    try:
        found = httpx.get(f"{server}/api/incidents?resolved={RESOLVED_SHOWN}", timeout=ANSWER_SECONDS)
        found.raise_for_status()
        return msgspec.json.decode(found.content, type=Answer)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = (str(error) or "no answer").splitlines()[0]
        raise Refused(f"{server}: {reason}; is `hotspare serve` running there? (see --server)") from None
    except msgspec.DecodeError:
        raise Refused(f"{server}: what answers there is not `hotspare serve`") from None


def watch_incidents(
    server: str, states: Sequence[str], causes: Sequence[str], *, as_json: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> int:  # fmt: skip
    """Until Ctrl-C. states, causes: any of these; empty for all. A server that goes away later is waited for."""

    def wanted(one: Row) -> bool:
        return (not states or one.state in states) and (not causes or one.cause in causes)

    answers = _answers(server, sleep)
    try:
        if as_json or not sys.stdout.isatty():
            _tell_changes(answers, wanted, as_json=as_json)
        else:
            _show(answers, wanted)
    except KeyboardInterrupt:
        return 0
    return 0


def _answers(server: str, sleep: Callable[[float], None]) -> Iterator[Answer | Refused]:
    yield asked(server)  # wrong use shows at once
    while True:
        sleep(EVERY_SECONDS)
        try:
            yield asked(server)
        except Refused as away:
            yield away


def _show(answers: Iterator[Answer | Refused], wanted: Callable[[Row], bool]) -> None:
    shown = Group()
    with Live(console=console(), screen=False, auto_refresh=False) as live:
        for answer in answers:
            if isinstance(answer, Answer):
                shown = Group(_heading(answer.serve), _incidents([one for one in answer.incidents if wanted(one)]))
                live.update(shown, refresh=True)
            else:
                live.update(Group(Text(str(answer), style="bold red"), shown), refresh=True)


def _tell_changes(answers: Iterator[Answer | Refused], wanted: Callable[[Row], bool], *, as_json: bool) -> None:
    """A line for each incident that is new or says something else, and for each change of trouble."""
    known: dict[str, Row] = {}
    trouble: str | None = None
    for answer in answers:
        said = str(answer) if isinstance(answer, Refused) else answer.serve.trouble
        if said != trouble:
            trouble = said
            _write(msgspec.json.encode({"trouble": said}).decode() if as_json else f"serve: {said or 'reads again'}")
        if isinstance(answer, Refused):
            continue
        for one in sorted(answer.incidents, key=lambda row: (row.detected_at, row.id)):
            if wanted(one) and known.get(one.id) != one:
                _write(msgspec.json.encode(one).decode() if as_json else _line(one))
        known = {one.id: one for one in answer.incidents}


def _write(line: str) -> None:
    sys.stdout.write(printable(line) + "\n")
    sys.stdout.flush()


def _line(one: Row) -> str:
    ended = "" if one.ends_at is None else f"  ended {one.ends_at:%H:%M:%S}"
    return (
        f"{one.detected_at:%Y-%m-%d %H:%M:%S}  {one.id}  {one.severity:6}  {one.state:12}  {one.cause}  "
        f"{one.root.kind} {some(one.root.ids)}  {len(one.members)} GPUs{ended}"
    )


def _heading(serve: Serve) -> Text:
    trouble = serve.trouble or serve.held
    if trouble:
        return Text(trouble, style="bold red")
    if serve.now is None:
        return Text("nothing has been read yet")
    behind = f"{serve.behind_seconds:,.1f} s behind the clock" if serve.behind_seconds is not None else ""
    lag = sum(serve.lag_messages.values())
    return Text(f"{serve.now:%Y-%m-%d %H:%M:%S} UTC, {behind}; {serve.rows:,} rows, {lag:,} messages wait")


def _incidents(rows: list[Row]) -> RenderableType:
    if not rows:
        return Text("Nothing is wrong.", style="green")
    columns = ("id", "cause", "severity", "state", "root", "GPUs", "began", "detected", "ended")
    return table(
        "Incidents (UTC)",
        columns,
        (
            (
                one.id, one.cause, Text(one.severity, style=COLOURS.get(one.severity, "")), one.state,
                f"{one.root.kind} {some(one.root.ids)}", len(one.members), f"{one.starts_at:%H:%M:%S}",
                f"{one.detected_at:%H:%M:%S}", "" if one.ends_at is None else f"{one.ends_at:%H:%M:%S}",
            )
            for one in rows
        ),
    )  # fmt: skip
