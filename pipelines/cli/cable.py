"""hotspare cable accept: OTDR traces (.sor) against limits, and against a baseline shot of the same fibre."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from detectors.contract import Context
from detectors.fiber.acceptance import Acceptance, Verdict, rejected_share
from detectors.fiber.event_loss import EventLoss
from pipelines.cli.output import FOUND_SOMETHING, WRONG_USE, AsJson, SettingsFile, console, moment, print_json, table
from pipelines.cli.session import settings_at
from pipelines.sources.contract import SourceError
from pipelines.sources.files import decode_file, surroundings_of
from schemas.admission import admit
from schemas.fiber import OtdrEvent, OtdrTrace
from schemas.tables import TABLE_BY_NAME
from schemas.topology import LINK_COLUMNS, NODE_COLUMNS, Topology

EVENT_COLUMNS = ("number", "distance_meters", "loss_db", "reflectance_db", "code", "limit_db", "verdict", "reason")
cable = typer.Typer(no_args_is_help=True, help="OTDR acceptance of cables.")


@cable.callback()
def group() -> None:
    """Keeps `accept` a command of its own."""


@dataclass(frozen=True)
class Shot:
    """One file: its trace row and its events, admitted."""

    path: Path
    trace: pl.DataFrame
    events: pl.DataFrame


@cable.command("accept")
def accept(
    files: Annotated[list[Path], typer.Argument(help="SR-4731 .sor files, format version 1 or 2.")],
    baseline: Annotated[Path | None, typer.Option(help="Accepted shot of the same fibre to compare with.")] = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> int:
    """PASS, FAIL or UNRESOLVABLE per file, event by event. Exit 1 when one fails."""
    limit = settings_at(settings).limits.file_bytes_maximum
    before = None if baseline is None else _shot(baseline, limit)
    documents, unread, verdicts = [], [], list[Verdict]()
    for path in files:
        try:
            shot = _shot(path, limit)
        except SourceError as error:
            unread.append(str(error))
            continue
        verdict, judged = Acceptance().judge(shot.events)
        changes = [] if before is None else _changes(before, shot)
        if changes:
            verdict = "FAIL"
        verdicts.append(verdict)
        documents.append(_document(shot, verdict, judged, changes))
        if not as_json:
            _print(documents[-1])
    share = rejected_share(verdicts)
    if as_json:
        print_json({"files": documents, "unreadable": unread, "rejected_share": share})
    else:
        rejected = "" if share is None else f", {share:.0%} of those that can be judged rejected"
        console().print(f"{len(verdicts)} read{rejected}")
        for line in unread:
            console().print(line, markup=False)
    if unread and not verdicts:
        return WRONG_USE
    return FOUND_SOMETHING if unread or "FAIL" in verdicts else 0


def _shot(path: Path, bytes_maximum: int) -> Shot:
    decoded = decode_file(path, surroundings_of(path, node=None), bytes_maximum)
    if "otdr_trace" not in decoded.tables:
        raise SourceError(f"{path}: not an OTDR trace")
    rows = {name: admit(TABLE_BY_NAME[name], frame) for name, frame in decoded.tables.items()}
    refused = [rule for part in rows.values() for rule in part.quarantined["rule"]]
    if rows["otdr_trace"].rows.is_empty():
        raise SourceError(f"{path}: its values are out of range ({', '.join(sorted(set(refused)))})")
    events = (
        rows["otdr_event"].rows if "otdr_event" in rows else pl.DataFrame(schema=TABLE_BY_NAME["otdr_event"].columns)
    )
    return Shot(path, rows["otdr_trace"].rows, events)


def _changes(before: Shot, after: Shot) -> list[dict[str, Any]]:
    """What the detector of the live stream says of the two shots, taken as one fibre's."""
    same = {"cable": "cable", "fiber": "1", "direction": "AB"}
    first = after.trace["time"][0] - timedelta(days=1)
    traces, events = [], []
    for shot, at, is_baseline in ((before, first, True), (after, after.trace["time"][0], False)):
        fixed = {name: pl.lit(value) for name, value in same.items()} | {"time": pl.lit(at, pl.Datetime("us", "UTC"))}
        traces.append(
            shot.trace.with_columns(
                **fixed,
                baseline=pl.lit(is_baseline),
                wavelength_nanometers=pl.lit(after.trace["wavelength_nanometers"][0]),
            )
        )
        events.append(shot.events.with_columns(**fixed))
    nowhere = Topology("one cable", pl.DataFrame(schema=NODE_COLUMNS), pl.DataFrame(schema=LINK_COLUMNS))
    context = Context(now=after.trace["time"][0] + timedelta(seconds=1), began=first, topology=nowhere)
    tables = {OtdrTrace: pl.concat(traces), OtdrEvent: pl.concat(events)}
    detector = EventLoss()
    found = detector.detect(tables, pl.DataFrame(schema=detector.keeps), context).findings
    return found.filter("active").select("cause", "code", "severity", "evidence", "action").to_dicts()


def _document(shot: Shot, verdict: Verdict, judged: pl.DataFrame, changes: list[dict[str, Any]]) -> dict[str, Any]:
    trace = shot.trace.drop("samples_db").to_dicts()[0]
    samples = shot.trace["samples_db"][0]
    return {
        "file": str(shot.path),
        "verdict": verdict,
        **trace,
        "samples": 0 if samples is None else len(samples),
        "events": judged.select(EVENT_COLUMNS).to_dicts(),
        "changes": changes,
    }


def _print(document: dict[str, Any]) -> None:
    screen = console()
    length, loss = document["length_meters"], document["total_loss_db"]
    screen.print(
        f"{document['file']}: {document['verdict']}  cable {document['cable']} fibre {document['fiber']}, "
        f"{document['wavelength_nanometers']:g} nm, pulse {document['pulse_nanoseconds']:g} ns, "
        f"{'length unknown' if length is None else f'{length:,.1f} m'}, "
        f"{'loss unknown' if loss is None else f'{loss:.3f} dB'}, shot {moment(document['time'])}", markup=False,
    )  # fmt: skip
    rows = [
        [f"{value:.3f}" if isinstance(value, float) else value for value in (event[c] for c in EVENT_COLUMNS)]
        for event in document["events"]
    ]
    screen.print(table("", EVENT_COLUMNS, rows))
    for change in document["changes"]:
        screen.print(
            f"  against the baseline: {change['cause']} ({change['code']}): {change['evidence']}", markup=False
        )
