"""A source that has fallen silent: unknown is not healthy."""

import heapq
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.heard import heard, rows_of
from detectors.planned import PLAN_COLUMNS, forgiven, spread, still_needed, with_windows
from detectors.silence import seconds, silences
from detectors.stats.sorted_state import part
from schemas.columns import UTC_MICROSECONDS
from schemas.job import Heartbeat, Maintenance
from schemas.tables import TABLES, Table

SAMPLED = tuple(table for table in TABLES if table.interval_seconds and table.schema is not Heartbeat)
IN_ORDER = tuple(sorted(SAMPLED, key=lambda table: table.name))


@dataclass(frozen=True, kw_only=True)
class StaleTelemetry:
    """A source (a table and the node, device, CDU or PDU that sends its rows) stopped sending.

    What fails: an exporter hangs, a host agent dies, a collector loses a route. Nothing is known to be wrong with the
    hardware, and nothing is known to be right: "series vanished" is its own signal (dcgm-exporter issue 348).
    Formula: silent when now - last > max(silence_seconds, silence_intervals * interval of the table), both over the
    source; begins at that deadline, ends with the next row. Onset = last + interval.
    Outage: when sources of outage_hosts or more hosts, loops and PDUs have fallen silent within outage_seconds, the
    next are stated with the code `outage`. They are one incident: the collector's. A page where these are
    page_share or more of all that ever spoke, as then nobody watches the cluster.
    Defaults: 60 s or four intervals, so that one lost scrape of a 30 s exporter is not an alarm. 8 hosts and 10 s: more
    than a chassis, and as long as the roots of one cause may lie apart; a quarter for a page (assumptions).
    Entity: "table:source", for example "gpu:n00012". Heartbeats are left out: job.heartbeat judges them, and knows of
    jobs that end. A silence that maintenance touches is forgotten until the source speaks again.
    Cannot see: a source that never spoke; values that stand still while rows go on (telemetry.frozen).
    """

    silence_seconds: float = 60.0
    silence_intervals: float = 4.0
    outage_hosts: int = 8
    outage_seconds: float = 10.0
    page_share: float = 0.25

    @property
    def name(self) -> str:
        return "telemetry.stale"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (*(table.schema for table in SAMPLED), Maintenance)

    @property
    def keeps(self) -> pl.Schema:
        """One row per source (table, source, its last row, whether it was told silent) and per open plan."""
        return pl.Schema(
            {
                "table": pl.String(),
                "source": pl.String(),
                "time": UTC_MICROSECONDS,
                "told": pl.Boolean(),
                **PLAN_COLUMNS,
            }
        )

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        carried = state.filter(pl.col("table").is_null()).select(PLAN_COLUMNS.names())
        plans = with_windows(carried, tables[Maintenance])
        spread_plans = spread(plans, context.topology)
        limits = {table.name: self._limit(table, context) for table in IN_ORDER}
        before = state.filter(pl.col("table").is_not_null())
        found, silent, kept, is_same = [], [], [], True
        for table in IN_ORDER:
            limit, rows, known = limits[table.name], tables[table.schema], part(before, "table", table.name)
            if rows.is_empty() and not _is_due(known, limit, context.now):
                kept.append(known)
                continue
            is_same = False
            seen = heard(context, rows, (table.source,)).select("time", "first", "longest", source="id", told=False)
            gaps, after = silences(
                seen, known.select("source", "time", "told"), by="source", now=context.now, limit=limit,
                rows_of=partial(_rows_of, rows, table.source),
            )  # fmt: skip
            if not gaps.is_empty():
                gaps = _judged(gaps, spread_plans, limit)
                found.append(_statements(gaps, table, limit, timedelta(seconds=context.interval_seconds_of(table))))
                silent.append(gaps.filter(~pl.col("meant")).select("at", "host", "until"))
                after = _told(after, gaps)
            empty_plan = (pl.lit(None, dtype).alias(name) for name, dtype in PLAN_COLUMNS.items())
            kept.append(after.select(pl.lit(table.name).alias("table"), "source", "time", "told", *empty_plan))
        lasting = still_needed(plans, context.now, max(limits.values()))
        if is_same and lasting.equals(carried):
            return Detection(ordered(), state)
        lasting = pl.concat([pl.DataFrame(schema=self.keeps), lasting], how="diagonal")
        # In order of table and source, so that the next batch finds each table by bisection.
        after = pl.concat([lasting, *kept])
        if not found:
            return Detection(ordered(), after)
        said = self._outages(pl.concat(found, how="diagonal"), pl.concat(silent), before, after)
        return Detection(ordered(findings_frame(said, self.name, "telemetry_stale", "source")), after)

    def _limit(self, table: Table, context: Context) -> timedelta:
        interval = timedelta(seconds=context.interval_seconds_of(table))
        return max(timedelta(seconds=self.silence_seconds), self.silence_intervals * interval)

    def _outages(
        self, said: pl.DataFrame, silent: pl.DataFrame, before: pl.DataFrame, after: pl.DataFrame
    ) -> pl.DataFrame:
        """Begins with the code and severity of an outage where the sources of many hosts have fallen silent by then."""
        if silent["host"].n_unique() < self.outage_hosts:
            return said
        hosts = pl.concat([before["source"], after["source"]]).drop_nulls().str.split("/").list.first().n_unique()
        begins = said.filter("active").sort("time", maintain_order=True)
        many = pl.Series("many", _silent_hosts(begins["time"].to_list(), silent, self.outage_seconds), pl.Int64)
        begins = begins.with_columns(many).with_columns(
            code=pl.when(pl.col("many") >= self.outage_hosts).then(pl.lit("outage")).otherwise("code"),
            severity=pl.when(pl.col("many") >= max(self.outage_hosts, self.page_share * hosts))
            .then(pl.lit("page")).otherwise("severity"),
        )  # fmt: skip
        return pl.concat([begins.drop("many"), said.filter(~pl.col("active"))])


def _rows_of(rows: pl.DataFrame, source: str, sources: pl.Series) -> pl.DataFrame:
    return rows_of(rows, (source,), sources).select("time", source="id", told=False)


def _is_due(known: pl.DataFrame, limit: timedelta, now: datetime) -> bool:
    """Whether a silence of which nothing has been told is longer than the limit."""
    return bool((known.filter(~pl.col("told"))["time"] + limit < now).any())


def _silent_hosts(instants: list[datetime], silent: pl.DataFrame, within_seconds: float) -> list[int]:
    """How many hosts have a source that fell silent within so many seconds before each instant, and still is."""
    waiting = deque(silent.sort("at", "host").iter_rows())
    sources: Counter[str] = Counter()
    hosts = 0
    leaving: list[tuple[datetime, str]] = []
    found = []
    for instant in instants:
        while waiting and waiting[0][0] <= instant:
            at, host, until = waiting.popleft()
            leaves = at + timedelta(seconds=within_seconds, microseconds=1)
            heapq.heappush(leaving, (leaves if until is None else min(leaves, until), host))
            sources[host] += 1
            hosts += sources[host] == 1
        while leaving and leaving[0][0] <= instant:
            host = heapq.heappop(leaving)[1]
            sources[host] -= 1
            hosts -= sources[host] == 0
        found.append(hosts)
    return found


def _judged(gaps: pl.DataFrame, plans: pl.DataFrame, limit: timedelta) -> pl.DataFrame:
    """Silences with their deadline `at`, and whether maintenance of the source or its host meant them."""
    gaps = gaps.with_columns(at=pl.col("time") + limit, host=pl.col("source").str.split("/").list.first())
    keys = {"node": "host", "pdu": "source", "cdu": "source", "switch": "source"}
    return gaps.with_columns(meant=forgiven(gaps, plans, keys, at="at", limit=limit) & ~gaps["told"])


def _statements(gaps: pl.DataFrame, table: Table, limit: timedelta, interval: timedelta) -> pl.DataFrame:
    silent = gaps.filter(~pl.col("meant")).with_columns(last_row_at="time")
    begins = silent.filter(~pl.col("told")).with_columns(time="at", active=pl.lit(True), action=pl.lit("open_ticket"))
    ends = silent.filter(pl.col("until").is_not_null()).with_columns(time="until", active=pl.lit(False))
    return pl.concat([begins, ends], how="diagonal").with_columns(
        evidence("last_row_at"),
        entity=pl.format("{}:{}", pl.lit(table.name), "source"),
        code=pl.lit("silent"),
        severity=pl.lit("ticket"),
        score=seconds(pl.col("time") - pl.col("last_row_at")),
        threshold=pl.lit(limit.total_seconds()),
        first_bad_at=pl.col("last_row_at") + interval,
    )


def _told(after: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The state with what has been told; a source that was meant to fall silent is forgotten until it speaks."""
    lasting = gaps.filter(pl.col("until").is_null())
    return after.join(lasting.filter("meant"), on="source", how="anti").with_columns(
        told=pl.col("source").is_in(lasting.filter(~pl.col("meant"))["source"].implode())
    )
