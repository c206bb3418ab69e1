"""Ranks that stop beating: alone (the GPU hangs or its process died) or with their whole node (the node is lost)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import Context, Detection, evidence, findings_frame, ordered
from detectors.gpu.slots import GPU_ID
from detectors.job.silent_jobs import job_silences, said_of_jobs
from detectors.job.silent_nodes import (
    Limits,
    head_starts,
    limits_of,
    shown,
    silence_of,
    standing,
    verdicts,
)
from detectors.planned import PLAN_COLUMNS, clean_ends, forgiven, spread, staying, stays, still_needed, windows
from detectors.silence import heard_alone, proven, returned, seconds, silences
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import CoolantLoop
from schemas.gpu import Gpu
from schemas.job import Heartbeat, JobEvent, Maintenance

RANK, NODE, LOOP, PLAN = "rank", "node", "loop", "plan"
COLUMNS = ("id", "time", "job", "suspect", "dead", "since", "proof", "again")
SAID = (
    pl.coalesce("suspect", "says_suspect").alias("suspect"), (pl.col("dead") | pl.col("says_dead")).alias("dead"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MissedHeartbeats:
    """A rank's process, GPU or host stops, or its whole job does: the ranks' beats stop with it.

    What it looks like: no beat for some intervals T. A rank stuck in a collective still beats (job.hang sees that).
    Formula, two stages (domain.md 4.2): `suspect` (info) after `missed_suspect` missed beats, `dead` (page) after
    `missed_dead`. A beat is missed a quarter of an interval after it was due, so with T = 1 s dead comes 3.25 s after
    the last beat. Two or three in a row are asked for because single beats get lost: at a loss rate of 1e-4 and
    24,576 ranks, three in a row are 0.002 false deaths a day.
    Node or GPU: a dying node falls silent rank by rank, within one interval. So a node is judged at the deadline of
    its last beat of any rank (node_lost), and a rank by itself (gpu_hang) only when its node is heard one and a half
    intervals after the rank's last beat: by another rank, or by a row of its GPUs. A host that reports is not lost.
    After a node's return its ranks have the same time to come back.
    Whole job: no rank of a job beats, and a host of it reports on (or none ever did, and its four nodes or more stand
    in several power domains): the job ended without saying so, and its nodes are well (job_hang, code `silent`). A page
    where the job's start was announced, for then its end would have been; otherwise a ticket.
    Collector: nodes that fall silent together although no failure domain explains it (detectors/together.py) are not
    lost; telemetry.stale tells that their telemetry is. They are asked about again every 10 s.
    Clocks: a node whose rows come later than those of others (Context.lags), or began so much earlier than theirs
    in a stream of event time, is waited for that much longer.
    Levels end with the next beat; a dead rank stays suspect until then, and a node is back when its host reports.
    Onset = last beat + T.
    Not a loss: silence that a stop or restart of the rank's job touches (plus `clean_end_grace_seconds`, as processes
    leave one by one), or maintenance of the GPU, node, job or power, coolant, pod or superblock domain. Such ranks are
    forgotten until they beat again. A node that has beaten after a restart that names it as a member is not leaving,
    and is judged. When the collector lags, `now` stands still and nobody is judged.
    Cannot see: ranks that never beat; a rank that dies together with its node's heartbeat forwarder where the host
    sends nothing else (node_lost then); a host that dies after its ranks did.
    """

    missed_suspect: float = 2.0
    missed_dead: float = 3.0
    clean_end_grace_seconds: float = 5.0

    @property
    def name(self) -> str:
        return "job.heartbeat"

    @property
    def reads(self) -> tuple[type[dy.Schema], ...]:
        return (Heartbeat, JobEvent, Maintenance, Gpu, CoolantLoop)

    @property
    def keeps(self) -> pl.Schema:
        """One row per rank's GPU, node and job (last beat, what was told, last return), loop, start and open plan.

        `suspect` is null until judged, and false when a plan spared it. first: first beat of a node. proof: first row
        that shows that the host of a silent node lives. host: it sends such rows at all. again: when to ask again.
        """
        return pl.Schema(
            {
                "row": pl.String(), "id": pl.String(), "time": UTC_MICROSECONDS, "job": pl.String(),
                "suspect": pl.Boolean(), "dead": pl.Boolean(), "since": UTC_MICROSECONDS, "proof": UTC_MICROSECONDS,
                "again": UTC_MICROSECONDS, "first": UTC_MICROSECONDS, "host": pl.Boolean(), "evidence": pl.String(),
                **PLAN_COLUMNS,
            }
        )  # fmt: skip

    def detect(
        self, tables: Mapping[type[dy.Schema], pl.DataFrame], state: pl.DataFrame, context: Context
    ) -> Detection:
        limits = limits_of(self.missed_suspect, self.missed_dead, context)
        plans = pl.concat([
            state.filter(row=PLAN).select(PLAN_COLUMNS.names()), windows(tables[Maintenance]),
            clean_ends(tables[JobEvent], timedelta(seconds=self.clean_end_grace_seconds)),
            staying(tables[JobEvent], timedelta(seconds=self.clean_end_grace_seconds)),
        ])  # fmt: skip
        spread_plans = spread(plans, context.topology)
        beats, node_beats = _beats(tables[Heartbeat], GPU_ID), _beats(tables[Heartbeat], pl.col("node"))
        loops_before = state.filter(row=LOOP).select("id", "time")
        nodes_before = state.filter(row=NODE).select(COLUMNS)
        quiet, ranks_after = silences(
            beats, state.filter(row=RANK).select(COLUMNS), by="id", now=context.now, limit=limits.suspect
        )
        quiet = quiet.with_columns(node=pl.col("id").str.split("/").list.first())
        gaps, nodes_after = silences(node_beats, nodes_before, by="id", now=context.now, limit=limits.missed)
        nodes_known = standing(state, nodes_after, node_beats, tables[Gpu])
        gaps = proven(gaps, tables[Gpu].select("time", id="node"), limits.missed)
        loops, loops_after = silences(
            tables[CoolantLoop].select("time", id="cdu"), loops_before, by="id", now=context.now,
            limit=timedelta(seconds=2 * context.intervals_seconds["coolant_loop"]),
        )  # fmt: skip
        jobs, jobs_after = job_silences(tables[Heartbeat], tables[JobEvent], state, spread_plans, limits, context.now)
        silence = silence_of(gaps, nodes_known, loops, jobs, spread_plans, limits, context)
        gone, jobs_after = said_of_jobs(gaps, nodes_known, jobs, jobs_after, silence, limits, context.now)
        silent = _lagging(gaps, nodes_known, context, limits)
        nodes = _judged(silent, spread_plans, limits, context, leaves=~stays(silent, plans))
        nodes = verdicts(nodes, silence, context.now)
        nodes = nodes.with_columns(*SAID, back=pl.min_horizontal("until", "proof"))
        lost = nodes.filter(pl.coalesce("until", pl.lit(context.now)) - pl.col("base") > limits.dead)
        returns = returned(nodes_before, lost, by="id").select("time", node="id")
        alive = shown(gaps, silence, limits)
        heard = pl.concat(
            [
                nodes_before.select("time", node="id"),
                node_beats.select("time", node="id"),
                alive.select(time="at", node="id"),
            ]
        )
        heard = heard.filter(pl.col("node").is_in(quiet["node"].unique().implode())).unique()
        alone = heard_alone(quiet.filter(~pl.col("dead")), heard, returns, group="node", grace=limits.grace)
        alone = pl.concat([alone, quiet.filter("dead").with_columns(base=pl.col("time"), heard=pl.col("time"))])
        ranks = _judged(alone, spread_plans, limits, context).with_columns(*SAID, back="until")
        ranks = _before_planned_end(ranks, nodes)
        kept = [
            _told(ranks_after.drop("proof", "again"), ranks)
            .join(_left_with_node(quiet, ranks, nodes), on="id", how="anti").with_columns(row=pl.lit(RANK)),
            _told_nodes(nodes_after, nodes, gaps, alive).join(_last_return(nodes_before, lost), on="id", how="left")
            .join(nodes_known, on="id", how="left").with_columns(row=pl.lit(NODE)),
            jobs_after, loops_after.with_columns(row=pl.lit(LOOP)),
            still_needed(plans, context.now, limits.dead).with_columns(row=pl.lit(PLAN)),
        ]  # fmt: skip
        after = pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal").select(self.keeps.names())
        said = [
            findings_frame(_statements(ranks, limits), self.name, "gpu_hang", "gpu"),
            findings_frame(_statements(nodes, limits), self.name, "node_lost", "node"),
            findings_frame(gone, self.name, "job_hang", "job"),
        ]
        # By what tells rows apart: to sort by all sixteen columns takes several times as long.
        return Detection(ordered(*said), after.sort("row", "id", *PLAN_COLUMNS))


def _beats(heartbeats: pl.DataFrame, entity: pl.Expr) -> pl.DataFrame:
    return heartbeats.select(
        entity.alias("id"),
        "time",
        "job",
        suspect=pl.lit(None, pl.Boolean),
        dead=pl.lit(False),
        since=pl.lit(None, UTC_MICROSECONDS),
        proof=pl.lit(None, UTC_MICROSECONDS),
        again=pl.lit(None, UTC_MICROSECONDS),
    ).select(COLUMNS)


def _lagging(gaps: pl.DataFrame, known: pl.DataFrame, context: Context, limits: Limits) -> pl.DataFrame:
    """Silences of nodes with `base`, since when a node is waited for: its last beat, by the clock of the others."""
    late = {node: lag for node, lag in context.lags.items() if lag > timedelta(0)}  # a fast clock is not waited for
    lags = {**late, **head_starts(gaps, known, context, limits)}
    lag = pl.lit(timedelta(0))
    if lags:
        lag = pl.col("id").replace_strict(lags, default=timedelta(0), return_dtype=pl.Duration("us"))
    return gaps.with_columns(node="id", base=pl.col("time") + lag, heard="time")


def _judged(
    silent: pl.DataFrame, plans: pl.DataFrame, limits: Limits, context: Context, *, leaves: pl.Series | None = None
) -> pl.DataFrame:
    """What is to be said of each silence, once: says_suspect and says_dead at suspect_at and dead_at; `meant` when a
    plan forgives it at dead_at. `suspect` is null where not judged yet, false where spared. leaves: whether a plan of
    the job excuses it; without, it does.
    """
    timed = silent.with_columns(
        leaves=pl.lit(value=True) if leaves is None else leaves,
        suspect_at=pl.max_horizontal(pl.col("base") + limits.suspect, "heard"),
        dead_at=pl.max_horizontal(pl.col("base") + limits.dead, "heard"),
    )
    end = pl.coalesce("until", pl.lit(context.now))
    timed = timed.filter(pl.col("suspect_at") < end).sort("id", "time", "suspect_at")
    first = timed.unique(["id", "time"], keep="first", maintain_order=True)
    own, job = {"gpu": "id", "node": "node"}, {"job": "job"}
    first = first.with_columns(
        spared=forgiven(first, plans, own, at="suspect_at", limit=limits.suspect)
        | (forgiven(first, plans, job, at="suspect_at", limit=limits.suspect) & first["leaves"]),
        meant=forgiven(first, plans, own, at="dead_at", limit=limits.dead)
        | (forgiven(first, plans, job, at="dead_at", limit=limits.dead) & first["leaves"]),
    )
    unjudged = ~pl.col("dead") & (pl.col("dead_at") < end)
    return first.with_columns(
        says_suspect=pl.col("suspect").is_null() & ~pl.col("dead") & ~pl.col("spared"),
        says_dead=unjudged & ~pl.col("meant"),
        meant=unjudged & pl.col("meant"),
    )


def _planned_ends(nodes: pl.DataFrame) -> pl.DataFrame:
    return nodes.filter("meant").select("node", node_time="time", node_end="dead_at")


def _before_planned_end(ranks: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Without what would be said of a rank after its node left as planned: the rank was forgotten with it."""
    late = ranks.join(_planned_ends(nodes), on="node").filter(
        (pl.col("node_time") >= pl.col("time")) & (pl.col("suspect_at") > pl.col("node_end"))
        & (pl.col("says_dead") | ~pl.col("dead"))
    )  # fmt: skip
    return ranks.join(late.select("id", "time"), on=["id", "time"], how="anti")


def _left_with_node(quiet: pl.DataFrame, ranks: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Ranks to be forgotten because their node left as planned. Those already told dead are kept: dead is not left."""
    alive = quiet.join(ranks.filter("dead"), on=["id", "time"], how="anti")
    lasting = alive.filter(pl.col("until").is_null()).join(_planned_ends(nodes), on="node")
    return lasting.filter(pl.col("node_time") >= pl.col("time")).select("id")


def _told(after: pl.DataFrame, judged: pl.DataFrame) -> pl.DataFrame:
    """The state with what has been said of silences that last; those that were meant are forgotten."""
    lasting = judged.filter(pl.col("until").is_null())
    said = lasting.select("id", now_suspect="suspect", now_dead="dead")
    return (
        after.join(lasting.filter("meant"), on="id", how="anti")
        .join(said, on="id", how="left")
        .with_columns(suspect="now_suspect", dead=pl.col("now_dead").fill_null(value=False))
        .drop("now_suspect", "now_dead")
    )


def _told_nodes(after: pl.DataFrame, judged: pl.DataFrame, gaps: pl.DataFrame, alive: pl.DataFrame) -> pl.DataFrame:
    """The same for nodes, with proof and again. One whose host has shown itself is told back."""
    lives = pl.col("proof").is_not_null()
    lasting = pl.col("until").is_null()
    said = judged.with_columns(
        suspect=pl.when(lives).then(pl.lit(value=False)).otherwise("suspect"), dead=pl.col("dead") & ~lives
    )
    known = (
        gaps.filter(lasting).select("id", "proof", last="time")
        .join(alive.filter("returned"), on=["id", "last"], how="left")
        .select("id", proof=pl.coalesce("shown", "proof"))
    )  # fmt: skip
    asked = judged.filter(lasting).select(
        "id", again=pl.when(pl.col("again").is_not_null()).then(pl.max_horizontal("again", "proof"))
    )
    return (
        _told(after.drop("since", "proof", "again"), said)
        .join(known, on="id", how="left")
        .join(asked, on="id", how="left")
    )


def _last_return(before: pl.DataFrame, lost: pl.DataFrame) -> pl.DataFrame:
    """id, since: the newest return from a silence. One that ends a planned silence begins anew, as if never seen."""
    known = before.filter(pl.col("since").is_not_null()).select("id", "since", meant=pl.lit(False))
    came = lost.filter(pl.col("until").is_not_null()).select("id", "meant", since="until")
    newest = pl.concat([known, came.select("id", "since", "meant")]).sort("id", "since").group_by("id").last()
    return newest.filter(~pl.col("meant")).select("id", "since")


def _statements(judged: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """Begins and ends of both stages."""
    stages = []
    for code, severity, limit in (("suspect", "info", limits.suspect), ("dead", "page", limits.dead)):
        begins = judged.filter(f"says_{code}").with_columns(at=pl.col(f"{code}_at"), active=pl.lit(True))
        end = pl.when("meant").then("dead_at").otherwise("back")
        ends = judged.filter(code).with_columns(at=end, active=pl.lit(False)).filter(pl.col("at").is_not_null())
        stages.append(
            pl.concat([begins, ends]).with_columns(
                code=pl.lit(code), severity=pl.lit(severity), threshold=pl.lit(limit.total_seconds())
            )
        )
    action = pl.when(pl.col("active") & (pl.col("code") == "dead")).then(pl.lit("drain_node"))
    return (
        pl.concat(stages)
        .with_columns(entity="id", last_beat_at="time", action=action)
        .with_columns(
            evidence("job", "last_beat_at"),
            time=pl.col("at"),
            first_bad_at=pl.col("last_beat_at") + limits.interval,
            score=seconds(pl.col("at") - pl.col("last_beat_at")),
        )
    )
