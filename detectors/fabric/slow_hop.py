"""A link that carries less than it did, and the collective that waits for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import dataframely as dy
import numpy as np
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.fabric.lanes import of_links
from detectors.fabric.port_samples import ordered_ports
from detectors.fabric.steps import OPEN, finished_steps
from detectors.stats.grades import GRADE_COLUMNS, graded_levels
from detectors.stats.scan import Arrays, scan
from detectors.stats.sorted_state import beside, fitted, interleaved, part, rows_of, with_rows
from schemas.fabric import FabricPort
from schemas.job import Heartbeat

PORT_MEMORY = ("best_gigabits", "best_lanes", "low_at")
PORT_SAID = ("share", "best_gigabits", "best_lanes", "low_at")
JOB_MEMORY = ("normal_seconds", "steps", "slow_steps", "slow_at", "communication_seconds")
FIRST_STEPS = 5.0
JOB, OPEN_STEP, PORT = "job", "open", "port"


@dataclass(frozen=True, kw_only=True)
class SlowHop:
    """A link has trained to fewer lanes or a lower rate, and every ring through it runs at its pace.

    What fails: lanes that no longer train, a plug not fully seated. What it looks like: rate_gigabits_per_second or
    width_lanes below the best the port has shown, while the link is active and makes no errors; and jobs whose steps
    take longer though no rank computes longer (so that no rank is to blame): communication = step_seconds - the longest
    compute_seconds of the step's ranks.
    Formula: share = min(rate / best rate, width / best width). Ticket (slow_rate) while share <= share_limit in two
    samples in a row; a page (slow_hop) when, besides, a job's communication is times its own normal and at least
    step_share of the step more, for steps steps in a row that began not more than before_seconds before the link
    became slow. A job's normal is the mean of its first five steps, then follows over 20 steps while it is not slow.

    share_limit 0.9: rates come in halves and quarters. times 1.3: communication fail-slow costs a job a third and more
    (Greyhound, domain.md 2.3). step_share 0.05; steps 3, as a checkpoint or data stall hits one (fabric's like
    job.straggler). before_seconds 60: a port's interval, twice.

    Cannot see: a link slow from its first sample on; a hop slow by errors (fabric.bit_errors) or by other traffic
    (fabric.congestion); which of several slow jobs goes through it: the slowest is named.
    """

    share_limit: float = 0.9
    times: float = 1.3
    step_share: float = 0.05
    steps: float = 3.0
    before_seconds: float = 60.0
    for_seconds: float = 1.0
    clear_seconds: float = 30.0

    name: ClassVar[str] = "fabric.slow_hop"
    reads: ClassVar[tuple[type[dy.Schema], ...]] = (FabricPort, Heartbeat)
    # row = port, job (memory of its steps) or open (the step a job is in).
    keeps: ClassVar[pl.Schema] = pl.Schema(
        {
            "row": pl.String(), **GRADE_COLUMNS, **OPEN,
            **dict.fromkeys((*PORT_MEMORY, *JOB_MEMORY), pl.Float64()),
        }
    )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        """Findings on links: link_degraded."""
        jobs, jobs_after, open_after = self._jobs(tables[Heartbeat], state)
        known = part(state, "row", PORT)
        ports, findings = known, ordered()
        if not tables[FabricPort].is_empty():
            samples = _active(context.once(ordered_ports, tables[FabricPort]))
            few = rows_of(known, samples["entity"])
            walked, memory = scan(
                samples, few.select("entity", "time", *PORT_MEMORY),
                inputs=("gigabits", "lanes", "at"), memory=PORT_MEMORY, outputs=PORT_SAID, step=self._port,
            )  # fmt: skip
            changes, after = graded_levels(
                self._judged(walked, jobs), few.select(GRADE_COLUMNS.names()),
                for_seconds=self.for_seconds, clear_seconds=self.clear_seconds,
            )  # fmt: skip
            findings = self._findings(changes, known, context)
            ports = with_rows(known, self._kept(PORT, beside(memory, after)))
        # In order of `row`, so that the next batch finds each kind by bisection.
        kept = [self._kept(JOB, jobs_after), self._kept(OPEN_STEP, open_after.sort("job", "step")), ports]
        return Detection(findings, pl.concat(kept))

    def _kept(self, row: str, known: pl.DataFrame) -> pl.DataFrame:
        return fitted(known.with_columns(row=pl.lit(row)), self.keeps)

    def _jobs(self, beats: pl.DataFrame, state: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """What is known of each job, at every step that ended and as of before; its memory; its open step."""
        done, still_open = finished_steps(beats, part(state, "row", OPEN_STEP).select(OPEN.names()))
        before = part(state, "row", JOB).select("entity", "time", *JOB_MEMORY)
        steps = done.select("time", "step_seconds", entity="job", told_seconds="communication_seconds")
        walked, memory = scan(
            steps.with_columns(at=pl.col("time").dt.epoch("us").cast(pl.Float64())).sort("entity", "time"), before,
            inputs=("told_seconds", "step_seconds", "at"), memory=JOB_MEMORY,
            outputs=("slow_steps", "slow_at", "normal_seconds", "communication_seconds"), step=self._step,
        )  # fmt: skip
        columns = ("entity", "time", "slow_steps", "slow_at", "normal_seconds", "communication_seconds")
        return pl.concat([before.select(columns), walked.select(columns)]), memory, still_open

    def _step(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        took, normal, count = sample["told_seconds"], memory["normal_seconds"], np.nan_to_num(memory["steps"])
        slow = (
            (count >= FIRST_STEPS) & (took >= self.times * normal)
            & (took - normal >= self.step_share * sample["step_seconds"])
        )  # fmt: skip
        share = 1 / np.minimum(count + 1, 20.0)
        in_a_row = np.where(slow, np.nan_to_num(memory["slow_steps"]) + 1, 0.0)
        learned = np.where(np.isnan(normal), took, normal + share * (took - normal))
        after = {
            "normal_seconds": np.where(slow, normal, learned),
            "steps": np.where(slow, count, count + 1), "slow_steps": in_a_row,
            "slow_at": np.where(slow, np.where(in_a_row == 1, sample["at"], memory["slow_at"]), np.nan),
            "communication_seconds": took,
        }  # fmt: skip
        return after, {name: values for name, values in after.items() if name != "steps"}

    def _port(self, memory: Arrays, sample: Arrays) -> tuple[Arrays, Arrays]:
        best = {
            name: np.fmax(memory[name], sample[reading])
            for name, reading in (("best_gigabits", "gigabits"), ("best_lanes", "lanes"))
        }
        share = np.fmin(sample["gigabits"] / best["best_gigabits"], sample["lanes"] / best["best_lanes"])
        low = share <= self.share_limit
        began = np.where(low, np.fmin(memory["low_at"], sample["at"]), np.nan)
        after = {**best, "low_at": began}
        return after, {**after, "share": share}

    def _judged(self, walked: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
        """Samples of ports with their grade; only of a slow port are the jobs asked."""
        low = pl.col("share") <= self.share_limit
        fine = walked.filter(~low).with_columns(grade=pl.lit(0, pl.Int64()))
        slow = walked.filter(low).sort("time")
        named = jobs.select(job="entity").unique().sort("job")
        known = jobs.rename({"entity": "job", "time": "told_at"}).sort("told_at")
        beside = slow.join(named, how="cross").sort("time").join_asof(
            known, left_on="time", right_on="told_at", by="job", check_sortedness=False, coalesce=False
        )  # fmt: skip
        held_back = beside.filter(
            (pl.col("slow_steps") >= self.steps) & (pl.col("slow_at") >= pl.col("low_at") - self.before_seconds * 1e6)
        ).with_columns(slower=pl.col("communication_seconds") / pl.col("normal_seconds"))  # fmt: skip
        worst = held_back.sort("slower", "job", descending=[True, False]).unique(["entity", "time"], keep="first")
        told = worst.select("entity", "time", "job", "communication_seconds", "normal_seconds")
        asked = slow.join(told, on=["entity", "time"], how="left")
        grade = pl.when(pl.col("job").is_not_null()).then(2).otherwise(1).cast(pl.Int64())
        return interleaved(fine, asked.with_columns(grade=grade))

    def _findings(self, changes: pl.DataFrame, before: pl.DataFrame, context: Context) -> pl.DataFrame:
        if changes.is_empty():
            return NO_FINDINGS
        page = pl.col("severity") == "page"
        low_at = pl.from_epoch(pl.col("low_at").cast(pl.Int64()), time_unit="us").dt.replace_time_zone("UTC")
        rows = of_links(changes, before, context.topology).with_columns(
            code=pl.when(page).then(pl.lit("slow_hop")).otherwise(pl.lit("slow_rate")),
            score=1 - pl.col("share"),
            threshold=pl.lit(1 - self.share_limit),
            first_bad_at=pl.when("active").then(pl.min_horizontal("first_bad_at", low_at)).otherwise("first_bad_at"),
            gigabits_per_second="gigabits",
            best_gigabits_per_second="best_gigabits",
            usual_communication_seconds="normal_seconds",
            action=pl.when(page).then(pl.lit("isolate_port")).otherwise(pl.lit("reseat")),
        ).with_columns(
            evidence(
                "part", "gigabits_per_second", "best_gigabits_per_second", "lanes", "best_lanes", "job",
                "communication_seconds", "usual_communication_seconds",
            )
        )  # fmt: skip
        return ordered(findings_frame(rows, self.name, "link_degraded", "link"))


def _active(rows: pl.DataFrame) -> pl.DataFrame:
    """Samples of active links that tell a rate or a width. rows: of ordered_ports."""
    told = rows.filter(
        (pl.col("state") == "active").fill_null(value=True)
        & (pl.col("rate_gigabits_per_second").is_not_null() | pl.col("width_lanes").is_not_null())
    )
    return told.select(
        "time", "device", "port", "entity",
        gigabits="rate_gigabits_per_second", lanes=pl.col("width_lanes").cast(pl.Float64()),
        at=pl.col("time").dt.epoch("us").cast(pl.Float64()),
    )  # fmt: skip
