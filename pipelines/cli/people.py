"""What people say through the command line: who, why, and the answer they get."""

import getpass
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from pipelines.cli.output import Refused, console, print_json
from pipelines.operations_records import NotFound
from pipelines.operations_store import OperationsStore
from schemas.incident import Incident

CANDIDATES_MAXIMUM = 5
Answer = TypeVar("Answer")
By = Annotated[str, typer.Option("--by", help="Who says so; default is the user of this session.")]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Why.")]
Name = Annotated[str, typer.Argument(help="Incident id, or as much of it as is unique.")]


def incident_named(store: OperationsStore, name: str) -> Incident:
    """By id, or by as much of it as is unique. Raises Refused with the incidents that may have been meant."""
    try:
        return store.incident(name)
    except NotFound:
        every = store.incidents(limit=None)
    fitting = [one for one in every if one.id.startswith(f"inc-{name.removeprefix('inc-')}")]
    if not every:
        raise Refused(f"{name!r} is not an incident in this store, which has none") from None
    why = f"is the beginning of {len(fitting)} incidents' ids" if fitting else "is not an incident in this store"
    shown = (fitting or every)[:CANDIDATES_MAXIMUM]
    which = "candidates" if len(fitting) == len(shown) else "the newest"
    names = ", ".join(f"{one.id} ({one.cause})" for one in shown)
    raise Refused(f"{name!r} {why}; {which}: {names}; `hotspare incidents list` shows them all") from None


def saying(say: Callable[[], Answer]) -> Answer:
    """What a person says can be wrong use: an unknown name is one, an empty one too."""
    try:
        return say()
    except ValueError as error:
        raise Refused(str(error)) from None


def person(by: str) -> str:
    return by or getpass.getuser()


def said(text: str, document: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        print_json(document)
    else:
        console().print(text)
    return 0
