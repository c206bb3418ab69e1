"""Where rows come from. A source gives arrivals; it judges nothing and stores nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pipelines.engine import Batch
from pipelines.source_notes import SourceNotes
from schemas.topology import Topology

Offsets = Mapping[tuple[str, int], int]


class SourceError(RuntimeError):
    """The source as a whole cannot be read: one line that names it and says what to do."""


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """What came in one go. offsets: where to go on reading once the batch is stored, by (topic, partition); a
    recording is ("time", 0) in microseconds. ignored: "table.column" -> rows with a column no table knows. notes: what
    was seen of the sources themselves.
    """

    batch: Batch
    offsets: Offsets = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)
    notes: SourceNotes = field(default_factory=SourceNotes)


class Source(Protocol):
    """stream: the name under which the store keeps its progress. span_seconds: cluster time it covers, if known."""

    @property
    def stream(self) -> str: ...

    @property
    def topology(self) -> Topology: ...

    @property
    def intervals_seconds(self) -> Mapping[str, float]: ...

    @property
    def span_seconds(self) -> float | None: ...

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        """Everything after the offsets. Raises SourceError."""
