"""A source whose clock steps back: what it sends is older than what it has already sent."""

from collections.abc import Mapping
from dataclasses import dataclass

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from schemas.columns import UTC_MICROSECONDS
from schemas.intake import Late
from schemas.tables import TABLES

SAMPLED = tuple(table for table in TABLES if table.interval_seconds)


@dataclass(frozen=True, kw_only=True)
class ClockSkew:
    """The clock of a source is set back, so that its rows say a time that it has been through already.

    What fails: a host without time service whose clock is corrected in one step, a meter that lost its setting, kernel
    timestamps that had drifted by hours (node-problem-detector issue 479). Rows that are behind their own source's
    newest row by more than is allowed are put aside as late, and that is the evidence: after a step back every row is
    late behind one and the same newest row, again and again, until the clock has caught up.
    Formula: rows late behind the same newest row, at instants_minimum distinct times, one of them by more than
    skew_seconds. Time and onset: the newest row before the step. Ends with the source's first row that is newer.
    Defaults: 2 s (design.md section 2; a network that delays gives up to 1 s); two instants, as one row may stray.
    Entity: "table:source".
    Cannot see: a clock that steps forward or is wrong from the beginning, as rows do not say when they arrived; steps
    smaller than the table's interval plus skew_seconds. A producer that sends a stretch of old rows again, and nothing
    new meanwhile, looks the same.
    """

    skew_seconds: float = 2.0
    instants_minimum: int = 2

    @property
    def name(self) -> str:
        return "telemetry.clock_skew"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Late, *(table.schema for table in SAMPLED))

    @property
    def keeps(self) -> pl.Schema:
        """Per source that is late: its newest row, how often and how far it was behind, and whether that was told."""
        return pl.Schema(
            {
                "table": pl.String(), "source": pl.String(), "newest": UTC_MICROSECONDS, "instants": pl.Int64(),
                "last": UTC_MICROSECONDS, "behind_seconds": pl.Float64(), "told": pl.Boolean(),
            }
        )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        del context
        runs = self._runs(tables[Late], state)
        if runs.is_empty():
            return Detection(ordered(), runs.select(self.keeps.names()))
        behind = (pl.col("behind_seconds") > self.skew_seconds) & (pl.col("instants") >= self.instants_minimum)
        runs = runs.with_columns(begins=behind & ~pl.col("told"), told=behind | pl.col("told"))
        runs = runs.join(_caught_up(tables, runs), on=["table", "source", "newest"], how="left")
        begins = runs.filter("begins").with_columns(time="newest", active=pl.lit(value=True))
        ends = runs.filter(pl.col("told") & pl.col("until").is_not_null())
        ends = ends.with_columns(time="until", active=pl.lit(value=False))
        said = pl.concat([begins, ends]).with_columns(newest_row_at="newest").with_columns(
            evidence("behind_seconds", "newest_row_at"), entity=pl.format("{}:{}", "table", "source"),
            code=pl.lit("stepped_back"), severity=pl.lit("ticket"), score="behind_seconds",
            threshold=pl.lit(self.skew_seconds), first_bad_at="newest",
            action=pl.when("active").then(pl.lit("open_ticket")),
        )  # fmt: skip
        kept = runs.filter(pl.col("until").is_null()).select(self.keeps.names())
        return Detection(
            ordered(findings_frame(said, self.name, "clock_skew", "source")), kept.sort("table", "source", "newest")
        )

    def _runs(self, late: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
        """Late rows by what they are late behind, with those of the state."""
        sampled = [table.name for table in SAMPLED]
        behind = (pl.col("behind_seconds") * 1e6).round().cast(pl.Int64)
        instants = (
            late.filter(pl.col("table").is_in(sampled))
            .select(
                "table", "source", "behind_seconds", "time", newest=pl.col("time") + pl.duration(microseconds=behind)
            )
            .group_by("table", "source", "newest", "time").agg(pl.col("behind_seconds").max())
        )  # fmt: skip
        known = state.with_columns(time="last", before="instants")
        both = pl.concat([known, instants], how="diagonal")
        fresh = pl.col("before").is_null() & (pl.col("time") > pl.col("last").max()).fill_null(value=True)
        return both.group_by("table", "source", "newest").agg(
            instants=pl.col("before").max().fill_null(0) + fresh.sum().cast(pl.Int64), last=pl.col("time").max(),
            behind_seconds=pl.col("behind_seconds").max(), told=pl.col("told").any(ignore_nulls=True),
        )  # fmt: skip


def _caught_up(tables: Mapping[type[dy.Schema], pl.DataFrame], runs: pl.DataFrame) -> pl.DataFrame:
    """table, source, newest, until: the first row of the source that is newer than its newest before the step."""
    found = [runs.clear().select("table", "source", "newest", until="newest")]
    for table in SAMPLED:
        mine = runs.filter(table=table.name).select("table", "source", "newest")
        if mine.is_empty() or tables[table.schema].is_empty():
            continue
        rows = tables[table.schema].select(time=table.time, source=table.source)
        newer = rows.join(mine, on="source").filter(pl.col("time") > pl.col("newest"))
        found.append(newer.group_by("table", "source", "newest").agg(until=pl.col("time").min()))
    return pl.concat(found)
