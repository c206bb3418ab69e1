"""What every decoder gives: rows for the tables, and what it could not read, with place and reason."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl

from schemas.admission import QUARANTINE_COLUMNS

REJECT_BYTES_MAXIMUM = 4096
NOT_SAID = "unknown"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a payload does not say of itself.

    node: host it was taken on, for formats that name none; NOT_SAID where nobody knows. received_at: UTC, for formats
    without a time; year and zone of incomplete ones come from it too. utc_offset_minutes: of sources that write local
    time without a zone.
    bytes_maximum: a larger payload is refused whole.
    """

    node: str = NOT_SAID
    received_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    utc_offset_minutes: int = 0
    bytes_maximum: int = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """tables: name -> frame with that table's column names, still to be admitted. rejects: quarantine rows.
    missing: columns of the tables that this source cannot show at all.
    """

    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    rejects: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=QUARANTINE_COLUMNS))
    missing: tuple[str, ...] = ()


class Unreadable(ValueError):
    """The payload as a whole is not of this format: truncated, empty, binary, too large. One line, place and reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(_one_line(reason))


@dataclass(frozen=True, kw_only=True)
class Reject:
    """One line, row or block that could not be read. place: line or byte offset, whichever the format counts in."""

    rule: str
    reason: str
    place: int | None = None
    raw: bytes = b""


def rejects_frame(rejects: list[Reject], table: str | None = None) -> pl.DataFrame:
    """Rejects as quarantine rows; the door adds topic or file name."""
    if not rejects:
        return pl.DataFrame(schema=QUARANTINE_COLUMNS)
    return pl.DataFrame(
        {
            "table": [table] * len(rejects),
            "rule": [reject.rule for reject in rejects],
            "reason": [_one_line(reject.reason) for reject in rejects],
            "offset": [reject.place for reject in rejects],
            "raw": [reject.raw[:REJECT_BYTES_MAXIMUM] for reject in rejects],
        },
        schema_overrides=dict(QUARANTINE_COLUMNS),
    ).select(
        pl.col(column) if column in ("table", "rule", "reason", "offset", "raw") else pl.lit(None, dtype).alias(column)
        for column, dtype in QUARANTINE_COLUMNS.items()
    )


def _one_line(reason: str) -> str:
    """Names out of the payload stand in a reason, whatever they hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in reason)
