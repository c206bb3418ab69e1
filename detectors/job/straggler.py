"""Ranks whose own share of a step takes longer than their peers': everyone waits for them at the barrier."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.heard import BY_GPU, heard, ids_of
from detectors.job.progress import moved, stepping
from detectors.levels import LEVEL_COLUMNS, levels
from detectors.stats.adjacent import together
from detectors.stats.scan import Arrays, scan, toward
from detectors.stats.sorted_state import in_order, part, with_rows
from schemas.columns import UTC_MICROSECONDS
from schemas.job import Heartbeat

RANK, OPEN, STREAK, LEVEL, USUAL = "rank", "open", "streak", "level", "usual"
SLOW, LASTING = "slow_compute", "lasting_slow_compute"
GAUSSIAN_SPREAD = 1.4826
"""Median absolute deviation times this is the standard deviation of a normal distribution."""
REPORT = ["job", "step", "entity", "time", "compute_seconds"]
STREAK_COLUMNS = ("entity", "time", "bad", "streak", "since")


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """A GPU that computes slowly (clocks, memory, a sick host) slows every rank of its job; none of them fails.

    What it looks like: all ranks have the same `step_seconds`, as a barrier ends the step, and one has the longer
    `compute_seconds`.
    Formula: over the ranks of a job that report the same step, ratio = compute / median and z = (compute - median) /
    max(1.4826 * MAD, spread_floor * median). Bad when ratio >= `ratio` and z >= `z`; begins after `steps` bad steps in
    a row, ends after as many good ones. A loss that is small but stays (BLOOM lost 5 % for days to one slow GPU) shows
    against the rank's own usual ratio, an exponential mean over `usual_steps` that stands still while the ratio is more
    than half of `lasting_rise` above it: bad when it is `lasting_rise` above, for `lasting_steps`. A rank reports a
    step with its first beat in it; a step is judged when no rank has reported it for two beat intervals.
    Defaults: ratio 1.15, because 15 % of one rank is 15 % of the whole job; z 6, so that jobs whose stages differ by
    design (their MAD is wide) say nothing; floor 1 %, the usual noise of a step; 3 steps, as a checkpoint or a data
    stall hits one; 8 peers, or a median means little. Lasting: 2.5 %
    over 25 steps (two minutes of a large model), as ranks differ by 1 to 2 % by nature but each keeps to its own ratio.
    Cannot see: a job that is slow as a whole; a rank slow in communication; steps shorter than a beat that it does
    not report (it is judged on those it does).
    """

    ratio: float = 1.15
    z: float = 6.0
    spread_floor: float = 0.01
    steps: int = 3
    lasting_rise: float = 0.025
    lasting_steps: int = 25
    usual_steps: float = 32.0
    peers_minimum: int = 8

    @property
    def name(self) -> str:
        return "job.straggler"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Heartbeat,)

    @property
    def keeps(self) -> pl.Schema:
        """Per rank its last step and usual ratio; reports of steps not yet judged; per test and rank ever bad its run
        and level.
        """
        return pl.Schema(
            {
                "row": pl.String(), "code": pl.String(), **LEVEL_COLUMNS, "job": pl.String(), "step": pl.Int64(),
                "compute_seconds": pl.Float64(),
                "streak": pl.Int64(), "since": UTC_MICROSECONDS, "usual": pl.Float64(), "seen": pl.Float64(),
            }
        )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        margin = timedelta(seconds=2 * context.intervals_seconds["heartbeat"])
        ranks, waiting = in_order(part(state, "row", RANK))["entity", "job", "step"], part(state, "row", OPEN)[REPORT]
        reports, ranks_after = _reports(tables[Heartbeat], ranks, context)
        complete, open_after = _complete_steps(pl.concat([waiting, reports]), margin, context)
        if reports.is_empty() and complete.is_empty():
            return Detection(NO_FINDINGS, state)
        measured, usual_after = self._against_itself(self._measured(complete), part(state, "row", USUAL))
        tests = pl.concat([part(state, "row", LEVEL), part(state, "row", STREAK)])
        slow = (pl.col("ratio") >= self.ratio) & (pl.col("z") >= self.z)
        lasting = (pl.col("rise") >= self.lasting_rise) & (pl.col("seen") >= self.lasting_steps)
        found, tested = [], []
        for code, bad, steps, limit in (
            (SLOW, slow, self.steps, pl.lit(self.ratio)),
            (LASTING, lasting, self.lasting_steps, pl.col("usual_ratio") * (1 + self.lasting_rise)),
        ):
            changes, rows = _judged(
                measured.with_columns(bad=bad.fill_null(value=False)), tests.filter(code=code), steps
            )
            tested.append(rows.with_columns(code=pl.lit(code)))
            if changes.is_empty():
                continue
            said = changes.with_columns(
                evidence("job", "step", "compute_seconds", "peers_median_seconds", "peers", "z", "usual_ratio"),
                first_bad_at="since", score="ratio", threshold=limit, severity=pl.lit("ticket"), code=pl.lit(code),
                action=pl.when("active").then(pl.lit("field_diagnostics")),
            )  # fmt: skip
            found.append(findings_frame(said, self.name, "gpu_straggler", "gpu"))
        levels_after = pl.concat(tested, how="diagonal_relaxed").sort("row", "code", "entity")
        # In order of row and of what tells its rows apart.
        kept = [
            levels_after.filter(row=LEVEL), open_after.sort(REPORT).with_columns(row=pl.lit(OPEN)),
            ranks_after.with_columns(row=pl.lit(RANK)),
            levels_after.filter(row=STREAK), usual_after.with_columns(row=pl.lit(USUAL)),
        ]  # fmt: skip
        return Detection(ordered(*found), pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal"))

    def _against_itself(self, measured: pl.DataFrame, before: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows with `usual_ratio`, the rise above it, and over how many steps it was learnt; and what is kept."""
        weight, still = 1 / self.usual_steps, 1 + self.lasting_rise / 2

        def step(memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
            usual, seen, ratio = memory["usual"], np.nan_to_num(memory["seen"]), sample["ratio"]
            learns = np.isnan(usual) | (ratio <= usual * still)
            told = {"usual_ratio": usual, "rise": ratio / usual - 1, "seen": seen}
            grown = toward(usual, ratio, np.maximum(weight, 1 / (seen + 1)))
            return {"usual": np.where(learns, grown, usual), "seen": seen + learns}, told

        # By rank, its steps in the order in which they were judged; ranks in no particular order.
        walked, after = scan(
            together(measured.sort("time", "step")), before.select("entity", "time", "usual", "seen"),
            inputs=("ratio",), memory=("usual", "seen"),
            outputs=("usual_ratio", "rise", "seen"), step=step,
        )  # fmt: skip
        return walked, after

    def _measured(self, complete: pl.DataFrame) -> pl.DataFrame:
        """complete: REPORT, group, judged_at. Adds ratio, z and peers, one row per rank and step; time is judged_at."""
        group = ["job", "step", "group"]
        compute = pl.col("compute_seconds")
        measured = complete.filter(compute.is_not_null()).with_columns(
            peers_median_seconds=compute.median().over(group), peers=pl.len().over(group)
        )
        deviation = compute - pl.col("peers_median_seconds")
        measured = measured.with_columns(spread=GAUSSIAN_SPREAD * deviation.abs().median().over(group))
        floor = self.spread_floor * pl.col("peers_median_seconds")
        enough = (pl.col("peers") >= self.peers_minimum) & (pl.col("peers_median_seconds") > 0)
        judged = measured.filter(enough).with_columns(
            ratio=compute / pl.col("peers_median_seconds"), z=deviation / pl.max_horizontal("spread", floor)
        )
        return judged.with_columns(time="judged_at")


def _judged(verdicts: pl.DataFrame, state: pl.DataFrame, steps: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Changes of level of one test, and what it keeps: a run and a level per rank that was ever bad.

    verdicts: one row per rank and step, those of a rank in order of time.
    """
    before = state.filter(row=STREAK).select(STREAK_COLUMNS)
    watched = pl.col("entity").is_in(before["entity"].implode())
    concerned = pl.concat([before["entity"], verdicts["entity"].filter(verdicts["bad"])]).unique()
    verdicts = verdicts.filter(pl.col("entity").is_in(concerned.implode()))
    if verdicts.is_empty():
        return verdicts, state
    verdicts = verdicts.filter(watched | (pl.col("bad").cum_sum().over("entity") > 0))  # from the first bad one on
    runs, streaks = _streaks(verdicts.sort("time", "entity", "step"), before)
    sure = runs.with_columns(bad=pl.when(pl.col("streak") >= steps).then("bad"))
    changes, after = levels(sure, state.filter(row=LEVEL).select(LEVEL_COLUMNS.names()))
    kept = [streaks.with_columns(row=pl.lit(STREAK)), after.with_columns(row=pl.lit(LEVEL))]
    return changes, pl.concat(kept, how="diagonal")


def _reports(beats: pl.DataFrame, before: pl.DataFrame, context: Context) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The first beat of each rank in each step, and each rank's last step."""
    told = context.once(stepping, beats)
    fresh = moved(told, before, context)
    fresh = fresh.with_columns(ids_of(fresh, BY_GPU).alias("entity")).select(REPORT)
    if fresh.is_empty():
        return fresh, before
    seen = heard(context, told, BY_GPU)
    last = seen.select(entity="id").hstack(told["job", "step"][seen["row"]])
    return fresh, with_rows(before, last)


def _complete_steps(reports: pl.DataFrame, margin: timedelta, context: Context) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Reports of steps that no rank has reported for the margin, and those still open.

    A step that comes again after a rollback is another group: its reports are further than the margin apart.
    """
    if reports.is_empty():
        return reports, reports
    key = ["job", "step"]
    apart = (pl.col("time") - pl.col("time").shift(1).over(key) > margin).fill_null(value=False)
    grouped = reports.sort("time", maintain_order=True).with_columns(group=apart.cast(pl.Int64).cum_sum().over(key))
    grouped = grouped.with_columns(judged_at=pl.col("time").max().over([*key, "group"]) + margin)
    done = pl.col("judged_at") < context.now
    return grouped.filter(done), grouped.filter(~done).select(REPORT)


def _streaks(verdicts: pl.DataFrame, before: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """How many verdicts of the same kind in a row (`streak`), and since when."""
    timeline = pl.concat([before.with_columns(carried=True), verdicts.with_columns(carried=False)], how="diagonal")
    timeline = timeline.with_columns(run=pl.col("bad").rle_id().over("entity"))
    first = pl.col("streak").first().over("entity", "run").fill_null(1)
    place = pl.int_range(pl.len()).over("entity", "run")
    began = pl.coalesce(pl.col("since").first().over("entity", "run"), pl.col("time").first().over("entity", "run"))
    timeline = timeline.with_columns(streak=first + place, since=began)
    after = timeline.group_by("entity").agg(pl.col("time", "bad", "streak", "since").last()).select(STREAK_COLUMNS)
    return timeline.filter(~pl.col("carried")).drop("carried", "run"), after
