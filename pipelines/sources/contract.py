"""Where rows come from. A source gives arrivals; it judges nothing and stores nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import polars as pl

from schemas.admission import QUARANTINE_COLUMNS, Origin
from schemas.topology import Topology

Offsets = Mapping[tuple[str, int], int]


class SourceError(RuntimeError):
    """The source as a whole cannot be read: one line that names it and says what to do."""


@dataclass(frozen=True)
class Piece:
    """Rows of one table as decoded, not yet admitted, with where they came from."""

    table: str
    frame: pl.DataFrame
    origin: Origin = Origin()


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """What came in one go. pieces: in order of arrival. now: the watermark after it. offsets: where to go on reading
    once this is stored; the keys are (topic, partition), or ("recording", 0) and the like.
    """

    now: datetime
    pieces: tuple[Piece, ...] = ()
    rejects: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=QUARANTINE_COLUMNS))
    offsets: Offsets = field(default_factory=dict)


class Source(Protocol):
    """stream: name under which the store keeps its progress. began: first instant of the stream, once known."""

    @property
    def stream(self) -> str: ...

    @property
    def topology(self) -> Topology: ...

    @property
    def intervals_seconds(self) -> Mapping[str, float]: ...

    @property
    def span_seconds(self) -> float | None:
        """Cluster time that it covers, for progress; None when it has no end."""

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        """Everything after the offsets. Raises SourceError."""
