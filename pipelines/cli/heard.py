"""A source with an ear to it: what was refused and what was said of how it was read, for whoever asked for it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from pipelines.sources.contract import Arrival, Offsets, Source
from schemas.topology import Topology

REFUSED = ("table", "rule", "reason", "topic", "partition", "offset", "raw")
SHOWN_BYTES = 120


@dataclass(frozen=True, kw_only=True)
class HeardSource:
    """source, unchanged. refused: of each arrival, its refused rows by table and rule, with the first one's place."""

    source: Source
    refused: list[pl.DataFrame] = field(default_factory=list)

    @property
    def stream(self) -> str:
        return self.source.stream

    @property
    def topology(self) -> Topology:
        return self.source.topology

    @property
    def intervals_seconds(self) -> Mapping[str, float]:
        return self.source.intervals_seconds

    @property
    def span_seconds(self) -> float | None:
        return self.source.span_seconds

    def arrivals(self, offsets: Offsets) -> Iterator[Arrival]:
        for arrival in self.source.arrivals(offsets):
            if not arrival.batch.quarantined.is_empty():
                self.refused.append(_by_rule(arrival.batch.quarantined.with_columns(rows=1)))
            yield arrival

    def refusals(self) -> list[dict[str, Any]]:
        """By table and rule, the most frequent first: rows, and reason, place and beginning of the first."""
        if not self.refused:
            return []
        found = _by_rule(pl.concat(self.refused)).sort("rows", "rule", descending=[True, False])
        return [
            {
                "table": row["table"],
                "rule": row["rule"],
                "rows": row["rows"],
                "reason": row["reason"],
                "place": place_of(row["topic"], row["partition"], row["offset"]),
                "raw": text_of(row["raw"][:SHOWN_BYTES]) if row["raw"] else "",
            }
            for row in found.iter_rows(named=True)
        ]


def place_of(topic: str | None, partition: int | None, offset: int | None) -> str:
    """topic/partition/offset, or file:line (a byte where the format has no lines)."""
    if topic is None:
        return ""
    if partition is not None:
        return f"{topic}/{partition}/{offset}"
    return topic if offset is None else f"{topic}:{offset}"


def text_of(raw: bytes) -> str:
    return raw.decode("utf-8", errors="backslashreplace").strip()


def _by_rule(rows: pl.DataFrame) -> pl.DataFrame:
    grouped = rows.group_by("table", "rule", maintain_order=True)
    firsts = (pl.col(column).first() for column in REFUSED[2:])
    return grouped.agg(pl.col("rows").sum(), *firsts).select("rows", *REFUSED)
