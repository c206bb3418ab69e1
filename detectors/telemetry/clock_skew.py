"""A source whose clock is off: its rows say another time than everybody else's that arrive with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.levels import LEVEL_COLUMNS, levels
from schemas.columns import UTC_MICROSECONDS
from schemas.gpu import Gpu
from schemas.intake import Late
from schemas.job import Heartbeat
from schemas.tables import TABLES

SAMPLED = tuple(table for table in TABLES if table.interval_seconds)
CLOCKED = tuple(table for table in SAMPLED if table.schema in (Heartbeat, Gpu))
EVER, NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
LATE_MEMORY = ("table", "source", "newest", "instants", "last", "behind_seconds", "told")


@dataclass(frozen=True, kw_only=True)
class ClockSkew:
    """The clock of a host is slow or fast, or that of a source is set back while it sends.

    What fails: a host without time service, a clock that is corrected in one step, a meter that lost its setting,
    kernel timestamps that had drifted by hours (node-problem-detector issue 479). Order across hosts is in doubt.
    Slow, fast: the rows of a host come later or earlier than others' by more than skew_seconds (Context.lags, which is
    measured from a row's time to its arrival), in all its beats and GPU samples over for_seconds; ends when they have
    not for clear_seconds. Where alike_hosts others are off by the same to within alike_seconds it is no clock but their
    common way to us, a collector that holds them all up, and nothing is said.
    Stepped back: rows behind their own source's newest row by more than is allowed are put aside as late; after a step
    every row is late behind one and the same newest row, until the clock has caught up. Rows late behind one row, at
    instants_minimum distinct times, one of them by more than skew_seconds. Time and onset: the newest row before the
    step. Ends with the source's first row that is newer. Where by then alike_hosts other sources of the table are late
    too, and have not gone on, an old stretch is being sent or read again, and nothing is said of any clock.
    Defaults: 2 s (design.md section 2; a network that delays gives up to 1 s); two instants, as one row may stray; 10 s
    and 60 s, so that a way that clogs up for a moment is no clock; three others within 1 s (assumptions).
    Entity: "table:source", the level by code.
    Cannot see: a clock that is off by less than that; one among hosts that are all off alike; whether it is a single
    host's clock that is slow or its way to us; a step forward before it is measured as fast; steps back smaller than
    the table's interval plus skew_seconds; steps of many clocks at once. A producer of few sources that sends a stretch
    of old rows again, and nothing new meanwhile, looks like a step.
    """

    skew_seconds: float = 2.0
    instants_minimum: int = 2
    for_seconds: float = 10.0
    clear_seconds: float = 60.0
    alike_hosts: int = 3
    alike_seconds: float = 1.0

    @property
    def name(self) -> str:
        return "telemetry.clock_skew"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Late, *(table.schema for table in SAMPLED))

    @property
    def keeps(self) -> pl.Schema:
        """Per source that is late: its newest row, how often and how far it was behind, and whether that was told (null
        until it is decided). Per source and direction (`entity`) that is or was off: LEVEL_COLUMNS.
        """
        return pl.Schema(
            {
                "table": pl.String(), "source": pl.String(), "newest": UTC_MICROSECONDS, "instants": pl.Int64(),
                "last": UTC_MICROSECONDS, "behind_seconds": pl.Float64(), "told": pl.Boolean(), **LEVEL_COLUMNS,
            }
        )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        if state.is_empty() and not context.lags and tables[Late].is_empty():
            return Detection(ordered(), state)
        off, levels_after = self._off(tables, state, context)
        stepped, runs_after = self._stepped(tables, state)
        after = pl.concat([levels_after, runs_after], how="diagonal").select(self.keeps.names()).cast(self.keeps)
        said = ordered(*(findings_frame(rows, self.name, "clock_skew", "source") for rows in (off, stepped)))
        return Detection(said, after.sort("entity", "table", "source", "newest", nulls_last=True))

    def _off(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Statements about clocks that are slow or fast, and the levels."""
        before = state.filter(pl.col("entity").is_not_null()).select(LEVEL_COLUMNS.names())
        seconds = {node: lag.total_seconds() for node, lag in context.lags.items()}
        shared = _alike(seconds, self.alike_seconds, self.alike_hosts)
        known = before["entity"].str.extract("^[^:]*:[^:]*:(.*)$")
        hosts = pl.concat([pl.Series(list(seconds), dtype=pl.String()), known]).unique()
        found = [before.clear().select("entity", "time", "bad").with_columns(off_seconds=pl.lit(0.0))]
        for table in CLOCKED if hosts.len() else ():
            rows = tables[table.schema].filter(pl.col(table.source).is_in(hosts.implode()))
            times = rows.select("time", host=pl.col(table.source)).unique().with_columns(
                off_seconds=pl.col("host").replace_strict(seconds, default=0.0, return_dtype=pl.Float64()),
                mine=~pl.col("host").is_in(list(shared)),
            )  # fmt: skip
            found += [
                times.select(
                    "time", "off_seconds", entity=pl.format("{}:{}:{}", pl.lit(code), pl.lit(table.name), "host"),
                    bad=pl.when("mine").then(sign * pl.col("off_seconds") > self.skew_seconds),
                )
                for code, sign in (("slow", 1.0), ("fast", -1.0))
            ]  # fmt: skip
        samples = pl.concat(found, how="diagonal")
        ever = pl.concat([before["entity"], samples.filter("bad")["entity"]]).unique()
        samples = samples.filter(pl.col("entity").is_in(ever.implode())).sort("entity", "time")
        changes, after = levels(samples, before, for_seconds=self.for_seconds, clear_seconds=self.clear_seconds)
        said = changes.with_columns(
            evidence("off_seconds"), code=pl.col("entity").str.extract("^([a-z]*):"), severity=pl.lit("ticket"),
            entity=pl.col("entity").str.extract("^[a-z]*:(.*)$"), score=pl.col("off_seconds").abs(),
            threshold=pl.lit(self.skew_seconds), action=pl.when("active").then(pl.lit("open_ticket")),
        )  # fmt: skip
        return said, after.filter(pl.col("bad") | pl.col("active"))

    def _stepped(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Statements about clocks that stepped back, and the sources that are late."""
        memory = state.filter(pl.col("entity").is_null()).select(LATE_MEMORY)
        runs = self._runs(tables[Late], memory)
        if runs.is_empty():
            return runs.select(LATE_MEMORY).with_columns(time="newest", active="told", entity="table"), memory
        runs = runs.join(_caught_up(tables, runs), on=["table", "source", "newest"], how="left")
        alone = pl.Series(_late_by_then(runs) <= self.alike_hosts)
        decides = pl.col("told").is_null() & pl.col("decided_at").is_not_null()
        runs = runs.with_columns(begins=decides & alone, told=pl.when(decides).then(alone).otherwise("told"))
        begins = runs.filter("begins").with_columns(time="newest", active=pl.lit(value=True))
        ends = runs.filter(pl.col("told").fill_null(value=False) & pl.col("until").is_not_null())
        ends = ends.with_columns(time="until", active=pl.lit(value=False))
        said = pl.concat([begins, ends]).with_columns(newest_row_at="newest").with_columns(
            evidence("behind_seconds", "newest_row_at"), entity=pl.format("{}:{}", "table", "source"),
            code=pl.lit("stepped_back"), severity=pl.lit("ticket"), score="behind_seconds",
            threshold=pl.lit(self.skew_seconds), first_bad_at="newest",
            action=pl.when("active").then(pl.lit("open_ticket")),
        )  # fmt: skip
        return said, runs.filter(pl.col("until").is_null()).select(LATE_MEMORY)

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
        run = ["table", "source", "newest"]
        known = state.select(*run, "last", before="instants", was="behind_seconds")
        both = instants.join(known, on=run, how="left").sort(*run, "time")
        is_fresh = (pl.col("time") > pl.col("last")).fill_null(value=True).cast(pl.Int64)
        both = both.with_columns(
            instants=pl.col("before").fill_null(0) + is_fresh.cum_sum().over(run),
            behind_seconds=pl.max_horizontal("was", pl.col("behind_seconds").cum_max().over(run)),
        )
        decides = (pl.col("instants") >= self.instants_minimum) & (pl.col("behind_seconds") > self.skew_seconds)
        anew = both.group_by(run).agg(
            pl.col("instants", "behind_seconds").last(), last=pl.max_horizontal(pl.col("time"), pl.col("last")).max(),
            first=pl.when(pl.col("before").is_null()).then("time").min(),
            decided_at=pl.col("time").filter(decides).min(),
        )  # fmt: skip
        runs = state.join(anew, on=run, how="full", coalesce=True, suffix="_now")
        names = ("instants", "last", "behind_seconds")
        return runs.with_columns(pl.coalesce(f"{name}_now", name).alias(name) for name in names)


def _alike(seconds: Mapping[str, float], within: float, others: int) -> frozenset[str]:
    """Those that are off by the same as at least so many others."""
    lags = np.sort(np.array(list(seconds.values())))
    return frozenset(
        node for node, lag in seconds.items()
        if np.searchsorted(lags, lag + within, "right") - np.searchsorted(lags, lag - within) > others
    )  # fmt: skip


def _late_by_then(runs: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """For each run how many sources of its table, its own among them, were late when it is decided and had not gone on
    before. Runs of earlier batches have no `first`, and began before.
    """
    found = np.zeros(runs.height, dtype=np.int64)
    for table in runs["table"].unique():
        mine = runs["table"] == table
        spans = runs.filter(mine).group_by("source").agg(
            first=pl.when(pl.col("first").is_not_null().all()).then(pl.col("first").min()).fill_null(EVER),
            until=pl.when(pl.col("until").is_not_null().all()).then(pl.col("until").max()).fill_null(NEVER),
        )  # fmt: skip
        firsts, untils = (np.sort(spans[name].to_physical().to_numpy()) for name in ("first", "until"))
        at = runs["decided_at"].filter(mine).fill_null(NEVER).to_physical().to_numpy()
        found[mine.to_numpy()] = np.searchsorted(firsts, at, "right") - np.searchsorted(untils, at, "left")
    return found


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
