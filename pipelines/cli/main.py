"""The command line. Exit 0: done. 1: found something that needs a person. 2: wrong use, or refused. Errors are one line."""

import sys

import click
import typer

from pipelines import operations_store, telemetry_store
from pipelines.cli.output import FOUND_SOMETHING, WRONG_USE, Refused
from pipelines.settings import SettingsError
from pipelines.sources.contract import SourceError
from pipelines.telemetry_schema import NewerStore
from replay.recording import RecordingError
from replay.scenario import ScenarioError
from schemas.formats.decoded import Unreadable

EXPECTED = (
    Refused, SettingsError, SourceError, NewerStore, RecordingError, ScenarioError, Unreadable,
    telemetry_store.StoreUnavailable, operations_store.StoreUnavailable,
)  # fmt: skip

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="hotspare watches very large GPU training clusters and drives their recovery.",
)  # fmt: skip
