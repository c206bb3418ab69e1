"""When may we say that everything older has come? Pure bookkeeping over the partitions of a topic set.

Rows of one source keep their order within a partition, but partitions are read at different speeds. So the watermark
is the newest event time of the slowest partition that still has messages to give, less the lateness that is allowed
within a partition. A partition read to its end holds nobody back; when all are, the newest of all counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

Partition = tuple[str, int]


@dataclass(frozen=True)
class Watermark:
    """newest: newest event time seen in a partition. behind: partitions not yet read to their end."""

    allowed: timedelta
    newest: Mapping[Partition, datetime] = field(default_factory=dict)
    behind: frozenset[Partition] = frozenset()

    def seen(self, newest: Mapping[Partition, datetime], behind: frozenset[Partition]) -> "Watermark":
        """After one more poll. An event time never takes a partition back."""
        merged = dict(self.newest)
        for partition, moment in newest.items():
            merged[partition] = max(moment, merged.get(partition, moment))
        return replace(self, newest=merged, behind=behind)

    def now(self) -> datetime | None:
        """The watermark; None while a partition that has messages has not shown any, so nothing can be said."""
        if any(partition not in self.newest for partition in self.behind):
            return None
        if self.behind:
            return min(self.newest[partition] for partition in self.behind) - self.allowed
        return max(self.newest.values()) - self.allowed if self.newest else None

    def ahead(self, limit: timedelta) -> frozenset[Partition]:
        """Partitions so far ahead of the slowest one that reading on would only fill memory."""
        now = self.now()
        if now is None:
            return frozenset(partition for partition in self.behind if partition in self.newest)
        return frozenset(p for p in self.behind if self.newest[p] - now > limit + self.allowed)
