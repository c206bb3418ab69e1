"""From decoded pieces to a batch: every source brings its rows through the door here, and under their one name."""

from dataclasses import dataclass, field, replace

import polars as pl

from pipelines.engine import Batch
from pipelines.source_notes import SourceNotes, together
from schemas.admission import QUARANTINE_COLUMNS, Admitted, Origin, admit
from schemas.identity import Identities, resolve
from schemas.tables import TABLE_BY_NAME, TABLES


@dataclass(frozen=True)
class Piece:
    """Rows of one table as decoded, with where they came from."""

    table: str
    frame: pl.DataFrame
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True)
class Intake:
    """tables: good rows by table, in order of arrival. quarantined: the others. ignored: "table.column" -> rows.
    notes: what was seen of the sources.
    """

    tables: dict[str, pl.DataFrame]
    quarantined: pl.DataFrame
    ignored: dict[str, int]
    notes: SourceNotes = field(default_factory=SourceNotes)


def take_in(pieces: list[Piece], rejects: pl.DataFrame | None = None) -> Intake:
    """Admit pieces, and put what was rejected while decoding beside what breaks a rule."""
    tables: dict[str, pl.DataFrame] = {}
    quarantined = [pl.DataFrame(schema=QUARANTINE_COLUMNS) if rejects is None else rejects]
    ignored: dict[str, int] = {}
    for table in TABLES:
        parts = _admit_together([piece for piece in pieces if piece.table == table.name])
        if not parts:
            continue
        tables[table.name] = pl.concat([part.rows for part in parts])
        quarantined.extend(part.quarantined for part in parts)
        for part in parts:
            for column, rows in part.ignored.items():
                key = f"{table.name}.{column}"
                ignored[key] = ignored.get(key, 0) + rows
    return Intake(tables, pl.concat(quarantined), ignored)


def _admit_together(pieces: list[Piece]) -> list[Admitted]:
    """Pieces of one shape are admitted as one frame, which is fast; one by one where a rule was broken, so that the
    quarantine names the message.
    """
    if not pieces:
        return []
    table = TABLE_BY_NAME[pieces[0].table]
    shapes = {tuple(piece.frame.schema.items()) for piece in pieces}
    if len(pieces) > 1 and len(shapes) == 1:
        together = admit(table, pl.concat([piece.frame for piece in pieces]))
        if together.quarantined.is_empty():
            return [together]
    return [admit(table, piece.frame, piece.origin) for piece in pieces]


def joined(parts: list[Intake]) -> Intake:
    """Several intakes as one, in their order."""
    names = [table.name for table in TABLES if any(table.name in part.tables for part in parts)]
    ignored: dict[str, int] = {}
    for part in parts:
        for key, rows in part.ignored.items():
            ignored[key] = ignored.get(key, 0) + rows
    return Intake(
        {name: pl.concat([part.tables[name] for part in parts if name in part.tables]) for name in names},
        pl.concat([pl.DataFrame(schema=QUARANTINE_COLUMNS), *(part.quarantined for part in parts)]),
        ignored,
        together(part.notes for part in parts),
    )


def identified(
    batch: Batch, notes: SourceNotes, identities: Identities, said: pl.DataFrame
) -> tuple[Batch, SourceNotes]:
    """The batch under canonical names, and the notes with what it tells of names. said: aliases learned so far."""
    found = resolve(batch.tables, identities, said)
    names = SourceNotes(learned=found.learned, unresolved=found.unresolved)
    lags = {identities.node(node)[0]: lag for node, lag in batch.lags.items()}
    return replace(batch, tables=found.tables, lags=lags), together(
        [replace(notes, delays=notes.delays.clear()), names]
    )
