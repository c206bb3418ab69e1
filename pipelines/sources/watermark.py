"""When may we say that everything older has come? Pure bookkeeping over the partitions of a topic set.

Rows of one source keep their order within a partition, but partitions are read at different speeds. So the watermark
is the newest event time of the slowest partition that still has messages to give, less the lateness that is allowed
within a partition. A partition read to its end holds nobody back; when all are, the newest of all counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import polars as pl

OFTEN_SECONDS = 5.0
IDLE = timedelta(seconds=15)
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


def watermark_of_sources(
    newest: pl.DataFrame, intervals_seconds: Mapping[str, float], allowed: timedelta
) -> datetime | None:
    """The watermark when only the rows tell, as in a recording in order of arrival.

    newest: table, source, newest (event time). Of each table that is sampled often, half of the sources have sent
    everything older than the median of their newest rows: a clock that runs ahead and a source that is dead do not
    move it. The slowest such table counts; one that has stood still for IDLE is no longer waited for.
    """
    often = [name for name, seconds in intervals_seconds.items() if seconds <= OFTEN_SECONDS]
    medians = newest.filter(pl.col("table").is_in(often)).group_by("table").agg(pl.col("newest").median())["newest"]
    if medians.is_empty():
        return None
    fronts: list[datetime] = medians.to_list()
    return min(front for front in fronts if front > max(fronts) - IDLE) - allowed
