"""The engine: one pure step from rows to findings and incidents. Streaming, Dagster and replay all call this one.

A step takes rows in their order of arrival and the watermark, and does five things in this order: puts aside rows
that are too late for their source, drops repeats, releases what the watermark has passed in order of time, lets
every detector speak, and folds what they say into incidents. The state it returns is all that the next step needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import polars as pl

from detectors.catalog import ROWS_ALONE
from detectors.contract import FINDING_COLUMNS, Context, Detector, ordered
from detectors.correlate import correlate
from detectors.correlation_state import Correlation
from detectors.stats.sorted_state import part, span
from pipelines.health_counts import HEALTH_COLUMNS, health_of
from pipelines.row_order import (
    in_order,
    is_after,
    is_increasing,
    is_near_newest,
    is_nobody_behind,
    is_unique,
    without,
)
from schemas.admission import QUARANTINE_COLUMNS
from schemas.columns import UTC_MICROSECONDS
from schemas.incident import Incident
from schemas.intake import Late
from schemas.tables import INTAKE_TABLES, TABLE_BY_NAME, TABLES, USUAL_INTERVALS_SECONDS, Table, empty
from schemas.topology import Topology

LATE_COLUMNS = pl.Schema({name: column.dtype for name, column in Late.columns().items()})
NOBODY_LATE = pl.DataFrame(schema=LATE_COLUMNS)
SOURCE_COLUMNS = pl.Schema({"table": pl.String(), "source": pl.String(), "newest": UTC_MICROSECONDS})
SAID = "_said"
ALLOWED_LATENESS_SECONDS: Mapping[str, float] = {"events": 0.0, "metrics": 1.0}
PLANS_KEPT = timedelta(days=30)  # so far behind the newest plan a repeat of an older one is known as one


@dataclass(frozen=True, kw_only=True)
class Batch:
    """tables: admitted rows by table name, in order of arrival. quarantined: rows that were not admitted.
    now: the watermark; every row older than this has arrived, but those of nodes in `lags` come that much later.
    """

    tables: Mapping[str, pl.DataFrame]
    now: datetime
    quarantined: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=QUARANTINE_COLUMNS))
    lags: Mapping[str, timedelta] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """now: watermark of the last step. sources: newest time per source. pending: rows the watermark has not passed,
    those put aside among them (what can be said of their source has its place in time too).
    recent: time and key of rows it has passed that a repeat could still say in time. detectors: state frame by name.
    """

    began: datetime
    now: datetime
    sources: pl.DataFrame
    pending: Mapping[str, pl.DataFrame]
    recent: Mapping[str, pl.DataFrame]
    detectors: Mapping[str, pl.DataFrame]
    correlation: Correlation


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one step gives: accepted rows to be stored, what was put aside, what was found, and the next state.
    lags: the batch's.
    """

    state: EngineState
    accepted: Mapping[str, pl.DataFrame]
    late: pl.DataFrame
    health: pl.DataFrame
    quarantined: pl.DataFrame
    findings: pl.DataFrame
    incidents: tuple[Incident, ...]
    lags: Mapping[str, timedelta] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """detectors: who judges. intervals_seconds: sampling interval of each table, as its source says."""

    detectors: tuple[Detector, ...]
    topology: Topology
    intervals_seconds: Mapping[str, float]
    allowed_lateness_seconds: Mapping[str, float] = field(default_factory=lambda: dict(ALLOWED_LATENESS_SECONDS))

    def start(self, began: datetime) -> EngineState:
        """The state before the first row of a stream that begins at `began`."""
        return EngineState(
            began=began, now=began, sources=pl.DataFrame(schema=SOURCE_COLUMNS), pending={}, recent={},
            detectors={detector.name: pl.DataFrame(schema=detector.keeps) for detector in self.detectors},
            correlation=Correlation(),
        )  # fmt: skip

    def step(self, state: EngineState, batch: Batch) -> Step:
        """Judge what has arrived up to the watermark. A watermark that goes back is held where it was."""
        judged = self.judge(state, batch)
        now = judged.state.now
        context = self.context(state, now, batch.lags)
        incidents, correlation = correlate(judged.findings, state.correlation, context)
        return replace(
            judged, state=replace(judged.state, correlation=correlation), incidents=incidents,
            health=health_of(judged.accepted, judged.late, batch.quarantined, now),
        )  # fmt: skip

    def judge(self, state: EngineState, batch: Batch) -> Step:
        """The same without incidents and without health: for who folds findings himself, in rounds that the cut of the
        rows does not move (pipelines.rounds).
        """
        now = max(batch.now, state.now)
        accepted, late, sources = self._admit_in_time(state, batch)
        put_aside = {"late": late, "quarantine": batch.quarantined.drop_nulls(["time", "table", "source"])}
        released, pending = _release({**accepted, **put_aside}, state.pending, now)
        findings, detectors = self._detect(released, state, self.context(state, now, batch.lags))
        following = replace(
            state, now=now, sources=sources, pending=pending, detectors=detectors,
            recent=self._recent(state.recent, released, pending, sources),
        )  # fmt: skip
        return Step(
            state=following, accepted=accepted, late=late, health=pl.DataFrame(schema=HEALTH_COLUMNS),
            quarantined=batch.quarantined, findings=findings, incidents=(), lags=batch.lags,
        )  # fmt: skip

    def context(self, state: EngineState, now: datetime, lags: Mapping[str, timedelta]) -> Context:
        """What detectors and correlation know beside rows and findings, at the watermark `now`."""
        intervals = {**USUAL_INTERVALS_SECONDS, **self.intervals_seconds}
        return Context(now=now, began=state.began, topology=self.topology, intervals_seconds=intervals, lags=lags)

    def _admit_in_time(
        self, state: EngineState, batch: Batch
    ) -> tuple[dict[str, pl.DataFrame], pl.DataFrame, pl.DataFrame]:
        accepted: dict[str, pl.DataFrame] = {}
        lates = [NOBODY_LATE]
        for table in TABLES:
            rows = batch.tables.get(table.name)
            if rows is None or rows.is_empty():
                continue
            newest = part(state.sources, "table", table.name)
            in_time, behind = _split_late(table, rows, newest, self._allowed(table))
            said = [frames[table.name] for frames in (state.pending, state.recent) if table.name in frames]
            accepted[table.name] = _unrepeated(table, in_time, said)
            lates.append(behind)
        return accepted, pl.concat(lates), newest_of_sources(state.sources, accepted)

    def _allowed(self, table: Table) -> timedelta:
        if table.ahead:
            return PLANS_KEPT
        return timedelta(seconds=self.allowed_lateness_seconds[table.lane])

    def _recent(
        self, recent: Mapping[str, pl.DataFrame], released: Mapping[str, pl.DataFrame],
        waiting: Mapping[str, pl.DataFrame], sources: pl.DataFrame,
    ) -> dict[str, pl.DataFrame]:  # fmt: skip
        """Rows whose repeat would not be late, as long as their source has not gone on: so a repeat is known as one.
        The newest row of a sender is always among them, or waiting.
        """
        kept: dict[str, pl.DataFrame] = {}
        for table in TABLES:
            frames = [frames[table.name] for frames in (recent, released) if table.name in frames]
            if not frames:
                continue
            if table.name not in released:
                kept[table.name] = recent[table.name]  # as it was: its sources have not gone on
                continue
            # No sender's rows are as old as this and could still be repeated in time.
            oldest = (part(sources, "table", table.name)["newest"] - self._allowed(table)).min()
            rows = pl.concat(
                (
                    frame.filter(frame[table.time] >= oldest)
                    .with_columns(_said=said_columns(table))[identity_of(table)]
                    if SAID not in frame.columns else frame
                    for frame in frames
                ), rechunk=True,
            )  # fmt: skip
            later = waiting.get(table.name, rows.clear())
            spoke = pl.concat([released[table.name][table.source], later[table.source]])
            rows = rows.filter(is_near_newest(rows, later, table.sender, table.time, self._allowed(table), spoke))
            if not rows.is_empty():
                kept[table.name] = rows
        return kept

    def _detect(
        self, released: Mapping[str, pl.DataFrame], state: EngineState, context: Context
    ) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
        read = {schema for detector in self.detectors for schema in detector.reads}
        rows = {
            table.schema: released[table.name] if table.name in released else empty(table)
            for table in (*TABLES, *INTAKE_TABLES) if table.schema in read
        }  # fmt: skip
        said: list[pl.DataFrame] = [pl.DataFrame(schema=FINDING_COLUMNS)]
        states: dict[str, pl.DataFrame] = {}
        for detector in self.detectors:
            tables, before = {schema: rows[schema] for schema in detector.reads}, state.detectors[detector.name]
            if all(frame.is_empty() for frame in tables.values()) and (
                detector.name in ROWS_ALONE or before.is_empty()  # what was told nothing, ever, has nothing to say
            ):
                states[detector.name] = before
                continue
            detection = detector.detect(tables, before, context)
            said.append(detection.findings)
            states[detector.name] = detection.state
        return ordered(*said), states


def sender_of(table: Table) -> pl.Expr:
    """Whose order of rows says what is late: the source, or each of its independent senders."""
    return pl.concat_str(*table.sender, separator="/")


def newest_of_sources(known: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """SOURCE_COLUMNS with these rows seen too."""
    kept, done = [], 0  # in order of table and source; what lies between tables that have rows stays as it is
    for name in sorted(name for name, rows in tables.items() if not rows.is_empty()):
        table, rows = TABLE_BY_NAME[name], tables[name]
        begin, end = span(known, "table", name)
        seen = rows.group_by(*table.sender).agg(seen=pl.col(table.time).max())
        named = seen.select(source=sender_of(table), table=pl.lit(name), seen="seen")
        kept += [known.slice(done, begin - done), _newer(known.slice(begin, end - begin), named)]
        done = end
    return pl.concat([*kept, known.slice(done)])


def _newer(before: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """The sources of a table with the newest time of those `seen`."""
    both = before.join(named["source", "seen"], on="source", how="left", maintain_order="left")
    after = both.select("table", "source", newest=pl.max_horizontal("newest", "seen"))
    if both["seen"].count() == named.height:
        return after
    new = named.join(before, on="source", how="anti").select("table", "source", newest="seen")
    return pl.concat([after, new]).sort("source")


def _split_late(
    table: Table, rows: pl.DataFrame, newest: pl.DataFrame, allowed: timedelta
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows in time, and LATE_COLUMNS for those behind their sender's newest row by more than is allowed.

    Newest is what the sender had sent before the row, in order of arrival, so that cutting the batch changes nothing.
    """
    if table.ahead or is_nobody_behind(rows[table.time], newest["newest"], allowed):
        return rows, NOBODY_LATE
    known = rows.with_columns(_sender=sender_of(table)).join(
        newest.select(_sender="source", newest="newest"), on="_sender", how="left", maintain_order="left"
    )
    before = pl.max_horizontal(pl.col(table.time).cum_max().shift(1).over("_sender"), pl.col("newest"))
    marked = known.with_columns(_behind=before - pl.col(table.time)).drop("newest", "_sender")
    is_late = (pl.col("_behind") > allowed).fill_null(value=False)
    late = marked.filter(is_late)
    if late.is_empty():
        return rows, NOBODY_LATE
    return marked.filter(~is_late).drop("_behind"), late.select(
        time=pl.col(table.time), table=pl.lit(table.name), source=pl.col(table.source),
        behind_seconds=(pl.col("_behind").dt.total_microseconds() * 1e-6).round(6),
        row=pl.struct(rows.columns).struct.json_encode(),
    )  # fmt: skip


def _unrepeated(table: Table, rows: pl.DataFrame, said: list[pl.DataFrame]) -> pl.DataFrame:
    """Rows without those that say again what an earlier one said: a producer that retries may send twice.

    A row that fills other columns than an earlier one of its entity and time is no repeat but another part of it, as
    from a stream of single metrics. Parts stay rows of their own: joining them would depend on the cut.
    """
    identity, entity = identity_of(table), [table.time, *table.key]
    known = [
        frame if SAID in frame.columns else frame.with_columns(_said=said_columns(table))
        for frame in said if not is_after(rows[table.time], frame[table.time])
    ]  # fmt: skip
    is_once = is_increasing(rows, entity) or is_unique(rows, entity)
    if not known and is_once:
        return rows
    once = rows.with_columns(_said=said_columns(table))
    if not is_once:
        once = once.unique(identity, keep="first", maintain_order=True)
    for earlier in known:
        once = without(once, earlier, identity, table.time)
    return once.drop(SAID)


def identity_of(table: Table) -> list[str]:
    """What two rows share when one repeats the other."""
    return [table.time, *table.key, SAID]


def said_columns(table: Table) -> pl.Expr:
    """Which columns a row fills, as the bits of a number."""
    values = [name for name in table.columns if name not in (table.time, *table.key)]
    filled = (pl.col(name).is_not_null().cast(pl.Int64) * (1 << bit) for bit, name in enumerate(values))
    return pl.sum_horizontal(pl.lit(0, pl.Int64), *filled)


def _release(
    accepted: Mapping[str, pl.DataFrame], pending: Mapping[str, pl.DataFrame], now: datetime
) -> tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame]]:
    released: dict[str, pl.DataFrame] = {}
    waiting: dict[str, pl.DataFrame] = {}
    for table in (*TABLES, *INTAKE_TABLES):
        frames = [frames[table.name] for frames in (pending, accepted) if table.name in frames]
        if not frames:
            continue
        rows = pl.concat(frames) if len(frames) > 1 else frames[0]
        if rows.is_empty():
            released[table.name] = rows
            continue
        passed = rows[table.time] < now
        ready = rows if passed.all() else rows.filter(passed)
        released[table.name] = in_order(ready, [table.time, *table.key])
        if ready.height < rows.height:
            waiting[table.name] = rows.filter(~passed)
    return released, waiting
