"""Ranks that stop beating: alone (the GPU hangs or its process died) or with their whole node (the node is lost)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import dataframely as dy
import polars as pl

from detectors.contract import NO_FINDINGS, Context, Detection, evidence, findings_frame, ordered
from detectors.heard import BY_GPU, BY_NODE, standing_of
from detectors.job.silent_jobs import JOB, START, job_silences, said_of_jobs
from detectors.job.silent_nodes import Limits, head_starts, limits_of, shown, silence_of, silent, verdicts
from detectors.job.silent_ranks import alone_of, is_told, possible
from detectors.planned import PLAN_COLUMNS, forgiven, new_plans, spread, staying, stays, still_needed
from detectors.silence import proven, seconds
from detectors.stats.sorted_state import part
from detectors.together import silent_loops
from schemas.columns import UTC_MICROSECONDS
from schemas.coolant import CoolantLoop
from schemas.gpu import Gpu
from schemas.job import Heartbeat, JobEvent, Maintenance

RANK, NODE, LOOP, PLAN = "rank", "node", "loop", "plan"
COLUMNS = ["id", "time", "job", "suspect", "dead", "since", "proof", "again"]
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
        carried = part(state, "row", PLAN)[PLAN_COLUMNS.names()]
        grace = timedelta(seconds=self.clean_end_grace_seconds)
        plans = new_plans(carried, tables[Maintenance], tables[JobEvent], grace)
        if not tables[JobEvent].is_empty():
            plans = pl.concat([plans, staying(tables[JobEvent], grace)])
        lasting_plans = still_needed(plans, context.now, limits.dead)
        beats, nodes_before = tables[Heartbeat], part(state, "row", NODE)
        quiet, ranks_after = silent(beats, BY_GPU, part(state, "row", RANK)[COLUMNS], limits.suspect, context)
        gaps, nodes_after = silent(beats, BY_NODE, nodes_before[COLUMNS], limits.missed, context)
        loops, loops_after = silent_loops(tables[CoolantLoop], part(state, "row", LOOP)["id", "time"], context, by="id")
        spread_plans = spread(plans, context.topology)
        jobs, jobs_after = job_silences(beats, tables[JobEvent], state, spread_plans, limits, context.now)
        nobody = quiet.is_empty() and gaps.is_empty() and jobs.is_empty()
        nothing_came = all(rows.is_empty() for rows in tables.values()) and lasting_plans.equals(carried)
        if nothing_came and (nobody or (plans.is_empty() and is_told(gaps, quiet, jobs, nodes_after, limits))):
            return Detection(NO_FINDINGS, state)
        known = standing_of(nodes_before, nodes_after, beats, tables[Gpu], by="id", context=context)
        nodes_after = nodes_after.hstack(known["first", "host"])
        if nobody:
            said, ranks_kept = NO_FINDINGS, _nothing_told(ranks_after)
            nodes_kept = _with_last_return(_nothing_told(nodes_after), nodes_before, gaps)
        else:
            gaps = proven(gaps, tables[Gpu], limits.missed)
            silence = silence_of(gaps, known, loops, jobs, spread_plans, limits, context)
            gone, jobs_after = said_of_jobs(gaps, known, jobs, jobs_after, silence, limits, context.now)
            lagging = _lagging(gaps, known, context, limits)
            nodes = _judged(lagging, spread_plans, limits, context, leaves=~stays(lagging, plans))
            nodes = verdicts(nodes, silence, context.now)
            nodes = nodes.with_columns(*SAID, back=pl.min_horizontal("until", "proof"))
            lost = nodes.filter(pl.coalesce("until", pl.lit(context.now)) - pl.col("base") > limits.dead)
            alive = shown(gaps, silence, limits)
            likely = possible(quiet, nodes_after, alive, limits)
            alone = alone_of(likely, beats, nodes_before, lost, alive, limits)
            ranks = _judged(alone, spread_plans, limits, context).with_columns(*SAID, back="until")
            ranks_kept = ranks_after
            if nodes["meant"].any():
                ranks = _before_planned_end(ranks, nodes)
                left = _left_with_node(quiet, ranks, nodes)
                ranks_kept = ranks_kept.filter(~pl.col("id").is_in(left.implode()))
            ranks_kept = _told(ranks_kept, ranks.filter(pl.col("until").is_null())["id", "meant", "suspect", "dead"])
            nodes_kept = _with_last_return(_told_nodes(nodes_after, nodes, gaps, alive), nodes_before, lost)
            said = ordered(
                findings_frame(_statements(ranks, limits), self.name, "gpu_hang", "gpu"),
                findings_frame(_statements(nodes, limits), self.name, "node_lost", "node"),
                findings_frame(gone, self.name, "job_hang", "job"),
            )
        # In order of row and id, as they come; rows of jobs and starts bring theirs.
        kept = [
            part(jobs_after, "row", JOB), loops_after.with_columns(row=pl.lit(LOOP)),
            nodes_kept.with_columns(row=pl.lit(NODE)), lasting_plans.with_columns(row=pl.lit(PLAN)),
            ranks_kept.with_columns(row=pl.lit(RANK)), part(jobs_after, "row", START),
        ]  # fmt: skip
        return Detection(said, pl.concat([pl.DataFrame(schema=self.keeps), *kept], how="diagonal"))


def _lagging(gaps: pl.DataFrame, known: pl.DataFrame, context: Context, limits: Limits) -> pl.DataFrame:
    """Silences of nodes with `base`, since when a node is waited for: its last beat, by the clock of the others."""
    late = {node: lag for node, lag in context.lags.items() if lag > timedelta(0)}  # a fast clock is not waited for
    lags = {**late, **head_starts(gaps, known, context, limits)}
    waited = gaps.with_columns(node="id", base="time", heard="time")
    if not lags:
        return waited
    lag = pl.col("id").replace_strict(lags, default=timedelta(0), return_dtype=pl.Duration("us"))
    return waited.with_columns(pl.col("base") + lag)


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
    spared = forgiven(first, plans, own, at="suspect_at", limit=limits.suspect)
    spared |= forgiven(first, plans, job, at="suspect_at", limit=limits.suspect) & first["leaves"]
    meant = forgiven(first, plans, own, at="dead_at", limit=limits.dead)
    meant |= forgiven(first, plans, job, at="dead_at", limit=limits.dead) & first["leaves"]
    unjudged = ~pl.col("dead") & (pl.col("dead_at") < end)
    return first.with_columns(
        says_suspect=pl.col("suspect").is_null() & ~pl.col("dead") & ~spared,
        says_dead=unjudged & ~meant, meant=unjudged & meant,
    )  # fmt: skip


def _planned_ends(nodes: pl.DataFrame) -> pl.DataFrame:
    return nodes.filter("meant").select("node", node_time="time", node_end="dead_at")


def _before_planned_end(ranks: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Without what would be said of a rank after its node left as planned: the rank was forgotten with it."""
    late = ranks.join(_planned_ends(nodes), on="node").filter(
        (pl.col("node_time") >= pl.col("time")) & (pl.col("suspect_at") > pl.col("node_end"))
        & (pl.col("says_dead") | ~pl.col("dead"))
    )  # fmt: skip
    return ranks.join(late.select("id", "time"), on=["id", "time"], how="anti")


def _left_with_node(quiet: pl.DataFrame, ranks: pl.DataFrame, nodes: pl.DataFrame) -> pl.Series:
    """Ranks to be forgotten because their node left as planned. Those already told dead are kept: dead is not left."""
    alive = quiet.join(ranks.filter("dead"), on=["id", "time"], how="anti")
    lasting = alive.filter(pl.col("until").is_null()).with_columns(node=pl.col("id").str.split("/").list.first())
    lasting = lasting.join(_planned_ends(nodes), on="node")
    return lasting.filter(pl.col("node_time") >= pl.col("time"))["id"]


def _nothing_told(after: pl.DataFrame) -> pl.DataFrame:
    """The state where nobody is silent."""
    unknown = dict.fromkeys(("since", "proof", "again"), pl.lit(None, UTC_MICROSECONDS))
    return after.with_columns(suspect=pl.lit(None, pl.Boolean), dead=pl.lit(value=False), **unknown)


def _told(after: pl.DataFrame, lasting: pl.DataFrame) -> pl.DataFrame:
    """The state with what has been said of silences that last; those that were meant are forgotten. lasting: id, meant
    and the columns of the state that it fills.
    """
    after = _nothing_told(after)
    if lasting.is_empty():
        return after
    if lasting["meant"].any():
        after = after.filter(~pl.col("id").is_in(lasting["id"].filter(lasting["meant"]).implode()))
    said = lasting[[name for name in lasting.columns if name != "meant"]]
    kept = after[[name for name in after.columns if name == "id" or name not in said.columns]]
    told = kept.join(said, on="id", how="left", maintain_order="left")
    return told.with_columns(pl.col("dead").fill_null(value=False))


def _told_nodes(after: pl.DataFrame, judged: pl.DataFrame, gaps: pl.DataFrame, alive: pl.DataFrame) -> pl.DataFrame:
    """The same for nodes, with proof and again. One whose host has shown itself is told back."""
    lives, lasting = pl.col("proof").is_not_null(), pl.col("until").is_null()
    said = judged.filter(lasting).select(
        "id", "meant", dead=pl.col("dead") & ~lives,
        suspect=pl.when(lives).then(pl.lit(value=False)).otherwise("suspect"),
        again=pl.when(pl.col("again").is_not_null()).then(pl.max_horizontal("again", "proof")),
    )  # fmt: skip
    known = gaps.filter(lasting)["id", "time", "proof"]
    if alive["returned"].any():
        back = alive.filter("returned").select("id", "shown", time="last")
        known = known.join(back, on=["id", "time"], how="left").with_columns(proof=pl.coalesce("shown", "proof"))
    return _told(after, known["id", "proof"].join(said, on="id", how="left"))


def _with_last_return(after: pl.DataFrame, before: pl.DataFrame, lost: pl.DataFrame) -> pl.DataFrame:
    """The nodes with `since`, the newest return from a silence. One that ends a planned silence begins anew, as if
    never seen. lost: the silences of this batch.
    """
    known = before["id", "since"].filter(before["since"].is_not_null()).with_columns(meant=pl.lit(value=False))
    if lost["until"].count():
        came = lost.filter(pl.col("until").is_not_null())
        known = pl.concat([known, came.select("id", since="until", meant="meant")])
    if known.is_empty():
        return after
    newest = known.sort("id", "since").group_by("id").last().filter(~pl.col("meant")).select("id", "since")
    return after.drop("since").join(newest, on="id", how="left", maintain_order="left")


def _statements(judged: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """Begins and ends of both stages."""
    stages = []
    for code, severity, limit in (("suspect", "info", limits.suspect), ("dead", "page", limits.dead)):
        begin = pl.when(f"says_{code}").then(f"{code}_at")
        end = pl.when(code).then(pl.when("meant").then("dead_at").otherwise("back"))
        stages += [
            judged.with_columns(
                at=at, active=pl.lit(active), code=pl.lit(code), severity=pl.lit(severity),
                threshold=pl.lit(limit.total_seconds()),
            )
            for at, active in ((begin, True), (end, False))
        ]  # fmt: skip
    said = pl.concat(stages)
    said = said.filter(said["at"].is_not_null())
    if said.is_empty():
        return NO_FINDINGS
    action = pl.when(pl.col("active") & (pl.col("code") == "dead")).then(pl.lit("drain_node"))
    return said.with_columns(entity="id", last_beat_at="time", action=action).with_columns(
        evidence("job", "last_beat_at"),
        time=pl.col("at"),
        first_bad_at=pl.col("last_beat_at") + limits.interval,
        score=seconds(pl.col("at") - pl.col("last_beat_at")),
    )
