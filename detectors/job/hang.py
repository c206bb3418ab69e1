"""Jobs whose every rank beats while no step ends: they hang in a collective."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, findings_frame, ordered
from detectors.gpu.slots import GPU_ID
from detectors.heard import BY_GPU, heard
from detectors.job.progress import PROGRESS_COLUMNS, moved, progress, stepping
from detectors.silence import intervals, seconds
from detectors.stats.sorted_state import part, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.gpu import Gpu
from schemas.job import Heartbeat, JobEvent

RANK, SLOT, JOB = "rank", "slot", "job"
RANK_COLUMNS = ["entity", "job", "step", "time"]
SLOT_COLUMNS = ["entity", "time", "utilization_percent"]
TOLD = ("asked", "told", "limit_seconds", "evidence")
SUSPECTS_MAXIMUM = 8
# A GPU at 90 % and more spins, one below 10 % does not; a quarter of the ranks at most are few (all three ours).
BUSY_PERCENT, IDLE_PERCENT, FEW = 90, 10, 4
Verdict = tuple[int, bool, str, datetime, float]


@dataclass(frozen=True, kw_only=True)
class JobHang:
    """One rank never enters a collective (a dead thread, a lost packet, a sick GPU), and all others wait in it.

    What it looks like: the ranks' processes live and beat, their GPUs spin at 100 % utilization, and no rank's step
    changes. Nothing is logged until the library's watchdog gives up, after 10 minutes by default.
    Formula: no rank's step changed for L, and at that instant `beating_share` of the job's ranks have beaten within the
    last three intervals. L = max(`steps` * the last step's duration, P); P is `unproven_seconds` until the job has
    completed a checkpoint and gone on, and then `pauses` times the longest pause between two steps since it started,
    at least `minimum_seconds` and at most `unproven_seconds`. So the stalls that a job is used to (checkpoints,
    evaluation) are no hangs. A start, stop or restart begins anew, and the first three steps after it are not judged:
    compilation takes as long as it takes. Ends with the next step, stop or restart.
    The evidence names who is behind: ranks whose step is lower, or GPUs idle while most of the job's are busy. Where
    somebody is, and `spinning_share` of the job's GPUs are busy, as read after the step was due, the job is not waited
    for so long: L = max(`suspect_seconds`, `suspect_steps` * the last step's duration, `suspect_pauses` * the longest
    pause), at most `unproven_seconds`, once it has a checkpoint behind it. A rank that writes alone while all others
    wait looks the same, and its pauses are known by then.
    Defaults: 10 steps; 300 s, half the watchdog; 60 s and 3 pauses, as three times the worst ever seen is no jitter.
    0.9: a rank that does not beat either is job.heartbeat's. With a suspect 15 s, 3 steps, 1.5 pauses and 0.75,
    busy from 90 % on, idle below 10 %, and a quarter of the ranks at most as suspects: assumptions.
    Cannot see: jobs that do not say their step; why (the suspects are a hint); a stop that is not announced, if the
    processes beat on.
    """

    steps: float = 10.0
    unproven_seconds: float = 300.0
    minimum_seconds: float = 60.0
    pauses: float = 3.0
    beating_share: float = 0.9
    suspect_seconds: float = 15.0
    suspect_steps: float = 3.0
    suspect_pauses: float = 1.5
    spinning_share: float = 0.75

    @property
    def name(self) -> str:
        return "job.hang"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Heartbeat, JobEvent, Gpu)

    @property
    def keeps(self) -> pl.Schema:
        """Per rank its last beat, per GPU its last utilization, per job its last progress (PROGRESS_COLUMNS).

        asked: the pause of the job has been looked at for suspects, and had none. told: whether it hangs.
        """
        return pl.Schema(
            {
                "row": pl.String(), "entity": pl.String(), "step": pl.Int64(), "utilization_percent": pl.Float64(),
                **PROGRESS_COLUMNS, "asked": pl.Boolean(), "told": pl.Boolean(), "limit_seconds": pl.Float64(),
                "evidence": pl.String(),
            }
        )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        beats, gpus, events = tables[Heartbeat], tables[Gpu], tables[JobEvent]
        ranks = part(state, "row", RANK)[RANK_COLUMNS]
        slots = part(state, "row", SLOT)[SLOT_COLUMNS]
        jobs = part(state, "row", JOB)[*PROGRESS_COLUMNS, *TOLD]
        told = context.once(stepping, beats)
        before = ranks.filter(pl.col("step").is_not_null()) if ranks["step"].null_count() else ranks
        timeline = progress(moved(told, before, context), events, jobs)
        timeline, is_news = self._judged(timeline, ranks, slots, tables, context)
        if not is_news and beats.is_empty() and gpus.is_empty() and events.is_empty():
            return Detection(NO_FINDINGS, state)
        last = timeline.filter(pl.col("next").is_null() & ~pl.col("stopped"))
        # In order of row, and of job or entity, as they come.
        kept = [
            last.with_columns(row=pl.lit(JOB)),
            with_rows(ranks, _last(context, beats, RANK_COLUMNS)).with_columns(row=pl.lit(RANK)),
            with_rows(slots, _last(context, gpus, SLOT_COLUMNS)).with_columns(row=pl.lit(SLOT)),
        ]
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        return Detection(ordered(findings_frame(_said(timeline), self.name, "job_hang", "job")), after)

    def _judged(
        self, timeline: pl.DataFrame, ranks: pl.DataFrame, slots: pl.DataFrame,
        tables: Mapping[type[dy.Schema], pl.DataFrame], context: Context,
    ) -> tuple[pl.DataFrame, bool]:  # fmt: skip
        """The timeline with what has been found in its pauses, and whether any of them was looked at."""
        timeline = timeline.with_row_index("number").with_columns(at=pl.lit(None, UTC_MICROSECONDS))
        margin, is_news = intervals(3, context.intervals_seconds["heartbeat"]), False
        end = pl.coalesce("next", pl.lit(context.now))
        for limit, asks in ((self._suspect_limit(), True), (self._limit(), False)):
            waits = pl.col("told").is_null() & (pl.col("changes") >= 3) & (pl.col("asked").is_null() if asks else True)
            due = timeline.filter(waits & (pl.col("time") + _span(limit) < end).fill_null(value=False))
            if due.is_empty():
                continue
            due = due.with_columns(limit_now=limit, at_now=pl.col("time") + _span(limit))
            heard = pl.concat([ranks, _with_gpu(tables[Heartbeat], RANK_COLUMNS)])
            used = pl.concat([slots, _with_gpu(tables[Gpu], SLOT_COLUMNS)])
            verdicts = [self._verdict(row, heard, used, margin, asks=asks) for row in due.iter_rows(named=True)]
            timeline, is_news = _with_verdicts(timeline, verdicts, asks=asks), True
        return timeline, is_news

    def _suspect_limit(self) -> pl.Expr:
        """Null where the job's own pauses are not known yet."""
        usual = pl.max_horizontal(
            self.suspect_steps * pl.col("step_seconds"), self.suspect_pauses * pl.col("longest_seconds")
        )
        return pl.when("proven").then(usual.clip(self.suspect_seconds, self.unproven_seconds))

    def _limit(self) -> pl.Expr:
        usual = (self.pauses * pl.col("longest_seconds")).clip(self.minimum_seconds, self.unproven_seconds)
        pause = pl.when("proven").then(usual.fill_null(self.minimum_seconds)).otherwise(self.unproven_seconds)
        return pl.max_horizontal(self.steps * pl.col("step_seconds"), pause)

    def _verdict(
        self, row: Mapping[str, Any], heard: pl.DataFrame, used: pl.DataFrame, margin: timedelta, *, asks: bool
    ) -> Verdict:
        """Whether the job hangs at the instant `at_now`, and what is seen of its ranks then. asks: only with suspects,
        as read after the step was due.
        """
        at: datetime = row["at_now"]
        due = row["time"] + timedelta(seconds=row["step_seconds"] or 0.0) if asks else row["time"]
        ranks = heard.filter(pl.col("time") <= at).group_by("entity", maintain_order=True).last()
        ranks = ranks.filter(job=row["job"])
        beating = ranks.filter(pl.col("time") > at - margin)
        behind = beating.filter(pl.col("step") < pl.col("step").max())["entity"].to_list()
        busy = used.filter(pl.col("time") <= at).group_by("entity", maintain_order=True).last()
        busy = busy.filter(pl.col("utilization_percent").is_not_null() & (pl.col("time") > due))
        busy = busy.join(beating, on="entity", how="semi")
        idle = busy.filter(pl.col("utilization_percent") < IDLE_PERCENT)["entity"].to_list()
        spins = (busy["utilization_percent"] >= BUSY_PERCENT).sum() >= self.spinning_share * beating.height
        few = (names for names in (behind, idle) if 0 < len(names) <= max(1, beating.height // FEW))
        suspects = sorted({name for names in few for name in names})[:SUSPECTS_MAXIMUM]
        nodes = sorted({entity.split("/")[0] for entity in beating["entity"]})
        seen = pl.DataFrame(
            {
                "job": [row["job"]], "last_step_change_at": [row["time"]], "limit_seconds": [row["limit_now"]],
                "ranks_beating": [beating.height], "ranks": [ranks.height], "step": [beating["step"].max()],
                "suspects": [suspects], "nodes": [nodes],
            },
            schema_overrides={"suspects": pl.List(pl.String)},
        ).select(pl.struct(pl.all()).struct.json_encode()).item()  # fmt: skip
        hangs = beating.height >= self.beating_share * ranks.height > 0
        return row["number"], hangs and (not asks or (spins and bool(suspects))), seen, at, row["limit_now"]


def _with_gpu(rows: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    return rows.select(GPU_ID, *columns[1:])


def _last(context: Context, rows: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """The last row of each GPU, in order of its entity."""
    seen = heard(context, rows, BY_GPU)
    return seen.select(entity="id").hstack(rows[columns[1:]][seen["row"]])


def _with_verdicts(timeline: pl.DataFrame, verdicts: Sequence[Verdict], *, asks: bool) -> pl.DataFrame:
    """The timeline with what has been found. One that was looked at for suspects and has none is only `asked`."""
    schema = {"number": timeline.schema["number"], "hangs": pl.Boolean(), "seen": pl.String()}
    schema |= {"found_at": timeline.schema["time"], "found_limit": pl.Float64()}
    judged = pl.DataFrame(verdicts, schema=schema, orient="row")
    found = timeline.join(judged, on="number", how="left", maintain_order="left")
    says = pl.col("hangs").fill_null(value=False) if asks else pl.col("hangs").is_not_null()
    return found.with_columns(
        asked=pl.coalesce("asked", ~pl.col("hangs")) if asks else pl.col("asked"),
        told=pl.coalesce("told", pl.when(says).then("hangs")),
        evidence=pl.coalesce("evidence", pl.when(says).then("seen")),
        at=pl.when(says).then("found_at").otherwise("at"),
        limit_seconds=pl.when(says).then("found_limit").otherwise("limit_seconds"),
    ).drop("hangs", "seen", "found_at", "found_limit")


def _said(timeline: pl.DataFrame) -> pl.DataFrame:
    hangs = timeline.filter(pl.col("told").fill_null(value=False))
    if hangs.is_empty():
        return NO_FINDINGS
    begins = (
        hangs.filter(pl.col("at").is_not_null())
        .with_columns(since="time")
        .with_columns(time=pl.col("at"), active=pl.lit(True))
    )
    ends = (
        hangs.filter(pl.col("next").is_not_null())
        .with_columns(since="time")
        .with_columns(time=pl.col("next"), active=pl.lit(False))
    )
    return pl.concat([begins, ends]).with_columns(
        entity="job", code=pl.lit("no_step"), severity=pl.lit("page"), threshold="limit_seconds",
        first_bad_at=pl.col("since") + _span(pl.col("step_seconds").fill_null(0.0)),
        score=seconds(pl.col("time") - pl.col("since")),
        action=pl.when("active").then(pl.lit("restart_app")),
    )  # fmt: skip


def _span(length_seconds: pl.Expr) -> pl.Expr:
    return pl.duration(microseconds=(length_seconds * 1e6).round().cast(pl.Int64))
